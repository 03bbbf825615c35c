"""Before anything real is touched: specification files, the pre-flight check, and rehearsals on a reality that is known."""

from safe2real.prepare.guess import Guess
from safe2real.prepare.preflight import Preflight, preflight
from safe2real.prepare.spec_file import SpecFile, read_spec_file

__all__ = ["Guess", "Preflight", "SpecFile", "preflight", "read_spec_file"]
