"""The number of threads of a plan; `_compiled.team` has their work."""

from __future__ import annotations

import numpy as np

from safe2real._compiled.cache import most_threads
from safe2real.errors import InvalidInput
from safe2real.model.kernel import Kernel
from safe2real.model.validation import shown
from safe2real.parallel import cores as cores_of_task

# Transitions of one step from which on threads share its states out, and how many each should have. Measured on 16 idle
# cores with an earlier barrier, which spun: at 200,000 two threads took as long as one, 4 half of it, 16 a third. Handing a
# step to the pool costs some 20 us per thread (2 cores, busy), against about 2 ms for a step of that size.
WORTH_A_TEAM, WORTH_A_MEMBER = 200_000, 12_500
MOST = 64  # beyond this many cores the threads wait for the memory


def threads_for(kernel: Kernel, horizon: int, threads: int | None) -> int:
    """Return the number of threads that sweep over the rows of `kernel` together.

    Args:
        kernel: whose transitions are swept over.
        horizon: H, the number of steps of a sweep.
        threads: the user's number. None chooses the number measured to be fastest for such a size, at most the cores
            available to this process; NUMBA_NUM_THREADS, which joblib sets for its workers, is respected.

    Returns:
        At least 1.

    Raises:
        InvalidInput: for anything but None or a positive integer.
    """
    if threads is not None:
        if isinstance(threads, bool) or not isinstance(threads, int | np.integer) or not 1 <= threads <= MOST:
            raise InvalidInput(f"threads is {shown(threads)}; give a whole number from 1 to {MOST}, or None for what pays")
        return min(int(threads), kernel.num_states)
    transitions = kernel.compiled_rows.successor.size // (1 if kernel.is_stationary else horizon)
    if transitions < WORTH_A_TEAM:
        return 1
    return min(int(transitions) // WORTH_A_MEMBER, cores(), kernel.num_states)


def cores() -> int:
    """Return the number of cores that a plan may use: 1 where many tasks run in parallel."""
    return min(cores_of_task(), most_threads(), MOST)
