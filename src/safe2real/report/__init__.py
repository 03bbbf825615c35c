"""Pages and exported files. They need the extra `report`; nothing is imported before it is used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from safe2real.report.campaign_report import write_campaign_report
    from safe2real.report.export import export_csv, export_json, export_minari
    from safe2real.report.preflight_report import preflight_page

_HOMES = {
    "export_csv": "export",
    "export_json": "export",
    "export_minari": "export",
    "preflight_page": "preflight_report",
    "write_campaign_report": "campaign_report",
}
__all__ = ["export_csv", "export_json", "export_minari", "preflight_page", "write_campaign_report"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'safe2real.report' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"safe2real.report.{_HOMES[name]}"), name)
