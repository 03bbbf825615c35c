"""safe2real: provably safe sim-to-real transfer for finite systems.

The names here are what most programs need; everything else is under its sub-package, each with its own `__all__`. Nothing is
imported before it is used.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from safe2real.version import __version__

if TYPE_CHECKING:
    from safe2real import examples, methods, radii, refinements
    from safe2real.campaign.campaign import Campaign
    from safe2real.errors import Safe2RealError
    from safe2real.exploration.explore import explore
    from safe2real.exploration.learner import Learner, load_learner
    from safe2real.exploration.plan import load_plan
    from safe2real.exploration.policy_trial import PolicyTrial
    from safe2real.exploration.simulate import simulate
    from safe2real.model.cmdp import CMDP, AtLeast, AtMost
    from safe2real.model.kernel import Kernel
    from safe2real.model.policy import MarkovPolicy, Mixture
    from safe2real.model.trajectory import Trajectory
    from safe2real.planning.evaluate import evaluate
    from safe2real.planning.solve import solve
    from safe2real.preflight.check import check_problem
    from safe2real.problem.problem import Problem
    from safe2real.problem.settings import Settings
    from safe2real.standing import Standing
    from safe2real.systems.discretise import Discretised
    from safe2real.systems.dynamics import Noise, from_dynamics
    from safe2real.systems.enumerated import Enumerated
    from safe2real.systems.estimate import estimate_by_running, estimate_by_sampling, estimate_from_log
    from safe2real.systems.finite import SystemDescription, from_gymnasium

# Silent unless the program configures logging; everything is said under this one name.
logging.getLogger(__name__).addHandler(logging.NullHandler())

_HOMES = {
    "campaign.campaign": ("Campaign",),
    "errors": ("Safe2RealError",),
    "exploration.learner": ("Learner", "load_learner"),
    "exploration.plan": ("load_plan",),
    "exploration.policy_trial": ("PolicyTrial",),
    "exploration.explore": ("explore",),
    "exploration.simulate": ("simulate",),
    "model.cmdp": ("CMDP", "AtLeast", "AtMost"),
    "model.kernel": ("Kernel",),
    "model.policy": ("MarkovPolicy", "Mixture"),
    "model.trajectory": ("Trajectory",),
    "planning.evaluate": ("evaluate",),
    "planning.solve": ("solve",),
    "preflight.check": ("check_problem",),
    "problem.problem": ("Problem",),
    "problem.settings": ("Settings",),
    "standing": ("Standing",),
    "systems.discretise": ("Discretised",),
    "systems.dynamics": ("Noise", "from_dynamics"),
    "systems.enumerated": ("Enumerated",),
    "systems.estimate": ("estimate_by_running", "estimate_by_sampling", "estimate_from_log"),
    "systems.finite": ("SystemDescription", "from_gymnasium"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_PACKAGES = (
    "campaign",
    "client",
    "errors",
    "evidence",
    "examples",
    "exploration",
    "methods",
    "model",
    "parallel",
    "planning",
    "plots",
    "preflight",
    "problem",
    "radii",
    "refinements",
    "report",
    "standing",
    "systems",
    "tables",
    "testing",
)

__all__ = [
    "CMDP",
    "AtLeast",
    "AtMost",
    "Campaign",
    "Discretised",
    "Enumerated",
    "Kernel",
    "Learner",
    "MarkovPolicy",
    "Mixture",
    "Noise",
    "PolicyTrial",
    "Problem",
    "Safe2RealError",
    "Settings",
    "Standing",
    "SystemDescription",
    "Trajectory",
    "__version__",
    "check_problem",
    "estimate_by_running",
    "estimate_by_sampling",
    "estimate_from_log",
    "evaluate",
    "examples",
    "explore",
    "from_dynamics",
    "from_gymnasium",
    "load_learner",
    "load_plan",
    "methods",
    "radii",
    "refinements",
    "simulate",
    "solve",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"safe2real.{name}")
    if name not in _HOME_OF:
        package = next((package for package in _PACKAGES if name in _names_of(package)), None)
        where = f"it is safe2real.{package}.{name}" if package else "see dir(safe2real), or a sub-package"
        raise AttributeError(f"module 'safe2real' has no attribute {name!r}; {where}")
    found = getattr(import_module(f"safe2real.{_HOME_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *_PACKAGES})


def _names_of(package: str) -> Any:
    """Return the public names of a sub-package; none if it cannot be imported here."""
    try:
        module = import_module(f"safe2real.{package}")
    except ImportError:
        return ()
    return getattr(module, "__all__", None) or dir(module)
