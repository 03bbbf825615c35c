"""Before anything real is touched: specification files, the pre-flight check, and rehearsals on a reality that is known."""

from safe2real.preflight.check import Preflight, check_problem
from safe2real.preflight.findings import Finding, Level
from safe2real.preflight.hypothetical_reality import Guess
from safe2real.preflight.rehearsal import Effort, Rehearsal, rehearse
from safe2real.preflight.spec_file import SpecFile, read_spec_file

__all__ = [
    "Effort",
    "Finding",
    "Guess",
    "Level",
    "Preflight",
    "Rehearsal",
    "SpecFile",
    "check_problem",
    "read_spec_file",
    "rehearse",
]
