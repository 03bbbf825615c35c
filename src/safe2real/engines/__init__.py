"""Many independent tasks on the cores of this machine, or on a cluster: one contract, one file for each engine."""

from safe2real.engines.base import Engine, LostTask
from safe2real.engines.job import Job
from safe2real.engines.opening import ENGINES, opened

__all__ = ["ENGINES", "Engine", "Job", "LostTask", "opened"]
