"""Pictures of systems, policies, rows and runs: one file each, functions of data that return a matplotlib `Figure`.

They need the extra `report`, no display, and nothing of pyplot's global state. The `plot` methods of learners, plans and
systems, the pages of `report` and the command line all draw by these. Nothing is imported before it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from safe2real.plots.learner import draw_learning
    from safe2real.plots.map import draw_mismatch
    from safe2real.plots.policy import draw_policy
    from safe2real.plots.system import draw_system

_HOMES = {"draw_learning": "learner", "draw_mismatch": "map", "draw_policy": "policy", "draw_system": "system"}
__all__ = ["draw_learning", "draw_mismatch", "draw_policy", "draw_system"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'safe2real.plots' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"safe2real.plots.{_HOMES[name]}"), name)
