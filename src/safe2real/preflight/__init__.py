"""Before anything real is touched: specification files, the pre-flight check, and rehearsals on a reality that is known."""

from safe2real.preflight.check import Preflight, check_problem
from safe2real.preflight.findings import Advice, Recommendation
from safe2real.preflight.hypothetical_reality import Guess
from safe2real.preflight.spec_file import SpecFile, read_spec_file

__all__ = ["Advice", "Guess", "Preflight", "Recommendation", "SpecFile", "check_problem", "read_spec_file"]
