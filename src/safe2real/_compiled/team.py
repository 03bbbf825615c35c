"""Threads that sweep together: each takes a share of the states, and nobody begins a step before all have ended the last.

numba's own parallel loops are no choice for a library: of its threading layers one aborts the process when two threads of a
service plan at once, another one in a process that was forked, and the third must be installed. Here every member of a team
is a thread of Python's that runs the SAME compiled search without the interpreter's lock: all compute the same numbers, so
all decide alike, and only the sweeps are shared out. A state's values are computed by one member from the values one step
later, in an order that the team does not change: results are the same bits for every size of the team.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from safe2real._compiled.cache import inner
from safe2real._compiled.rows import Array

ARRIVED, ROUND, ABANDONED = 0, 16, 32  # places of the counters in `signals`, on cache lines of their own
SIGNALS = 48
PATIENCE = 2_000  # looks at a counter before the processor is offered to somebody else
_WORD = ir.IntType(64)


class Team(NamedTuple):
    """One member's view."""

    member: int  # which of them
    size: int
    signals: Array  # [SIGNALS] int64, zeros at first; shared


def _address(context, builder, kind, array, place):
    return builder.gep(context.make_array(kind)(context, builder, array).data, [place])


@intrinsic
def arrive(typing_context, signals, place):
    """Add 1 to a counter in one step; returns what it was."""

    def generate(context, builder, sig, args):
        address = _address(context, builder, sig.args[0], *args)
        return builder.atomic_rmw("add", address, ir.Constant(_WORD, 1), "seq_cst")

    return types.int64(signals, types.int64), generate


@intrinsic
def look(typing_context, signals, place):
    """What a counter is now, and with it all that was written before it became that."""

    def generate(context, builder, sig, args):
        return builder.load_atomic(_address(context, builder, sig.args[0], *args), "seq_cst", 8)

    return types.int64(signals, types.int64), generate


@intrinsic
def reset(typing_context, signals, place):
    """Set a counter to 0."""

    def generate(context, builder, sig, args):
        builder.store_atomic(ir.Constant(_WORD, 0), _address(context, builder, sig.args[0], *args), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(signals, types.int64), generate


@intrinsic
def offer_processor(typing_context):
    """Let another thread run, where the system has a way to say so."""

    def generate(context, builder, sig, args):
        if sys.platform != "win32":
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), generate


@inner
def wait_for_all(team):
    """Go on when every member has come here. Spins, because a step lasts microseconds.

    Once a member is gone (`ABANDONED`) nobody is waited for: what is computed then is thrown away.
    """
    if team.size == 1:
        return
    here = look(team.signals, ROUND)
    if arrive(team.signals, ARRIVED) == team.size - 1:
        reset(team.signals, ARRIVED)
        arrive(team.signals, ROUND)
        return
    looked = 0
    while look(team.signals, ROUND) == here:
        looked += 1
        if looked > PATIENCE:
            if look(team.signals, ABANDONED) > 0:
                return
            offer_processor()


@inner
def share_of(team, states):
    """(first state of this member, first state of the next)."""
    return np.int64(team.member * states // team.size), np.int64((team.member + 1) * states // team.size)


@inner
def alone():
    """A team of one."""
    return Team(0, 1, np.empty(0, dtype=np.int64))


def most_threads() -> int:
    """What the environment allows a process, in NUMBA_NUM_THREADS; all cores if it says nothing."""
    settings: Any = config
    return int(settings.NUMBA_NUM_THREADS)
