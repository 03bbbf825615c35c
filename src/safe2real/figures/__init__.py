"""Pictures of systems, policies, rows and runs: one file each, functions of data that return a matplotlib `Figure`.

They need the extra `report`, no display, and nothing of pyplot's global state. The `plot` methods of learners, plans and
systems, the pages of `report` and the command line all draw by these. Nothing is imported before it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from safe2real.figures.learning import draw_learning
    from safe2real.figures.mismatch import draw_mismatch
    from safe2real.figures.policy import draw_policy
    from safe2real.figures.system import draw_system

__all__ = ["draw_learning", "draw_mismatch", "draw_policy", "draw_system"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'safe2real.figures' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"safe2real.figures.{name.removeprefix('draw_')}"), name)
