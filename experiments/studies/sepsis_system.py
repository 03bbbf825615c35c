"""ICU-Sepsis as a pair of systems: a reality (the package's dynamics) and a simulator that is too optimistic.

It is a benchmark made from hospital records. Nothing here is medical advice.

Reality keeps the 716 states and 25 actions (5 fluid levels x 5 vasopressor levels) of the package `icu-sepsis`. Two things
are made explicit:
- Only the treatments that the package calls admissible are offered. Any other ends in the state of death, as with the
  package's option inadmissible_action_strategy="terminate": a known row, not one to be learnt. Nothing is lost, because
  by default the package gives such an action the mean row of the admissible ones: the same as drawing one at random.
- Death and survival are absorbing, so that what a utility pays after the end is said by what it pays there.

The simulator is reality but for the vasopressor treatments of severely ill patients (SOFA of at least 10): their outcomes
are reweighted to the better ones, on the same successors, until the TV distance is 0.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import MissingExtra
from safe2real.model.cmdp import CMDP, AtLeast
from safe2real.model.kernel import Kernel
from safe2real.model.policy import MarkovPolicy
from safe2real.model.validation import Floats
from safe2real.planning.evaluate import value_functions

HORIZON = 20  # steps; one is four hours in the records behind the package
TREATED, DEATH, SURVIVAL, AFTER = 713, 713, 714, 715  # states 0 .. 712 are patients under treatment
LEVELS = 5  # action = 5 x fluid level + vasopressor level
SEVERE = 10.0  # SOFA score
GAP = 0.5  # TV distance of the rows that the simulator has wrong
LEAST_SURVIVAL = 0.66  # of all patients, within the horizon
MARGIN = 0.02  # by which the clinicians exceed that: an assumption, here checked by the tests
_LOOKAHEAD = 60  # steps over which an outcome is called better or worse
_STEEPEST = 500.0  # of the reweighting

PACKAGE = "icu-sepsis"
NOT_INSTALLED = "ICU-Sepsis needs the package icu-sepsis (2.0.1): pip install 'safe2real[examples]'"


@dataclass(frozen=True, eq=False, slots=True)
class Records:
    """What the package holds."""

    transition: Floats  # [S, A, S]
    admissible: NDArray[np.bool_]  # [S, A]
    clinicians: Floats  # [S, A]; no probabilities after the end
    start: Floats  # [S]
    sofa: Floats  # [S]; 0 after the end


@dataclass(frozen=True, eq=False, slots=True)
class Case:
    """One task on two systems."""

    real: CMDP
    simulator: CMDP
    clinicians: MarkovPolicy
    offered: NDArray[np.bool_]  # [S, A] treatments; every other row is known
    biased: NDArray[np.bool_]  # [S, A] what the simulator has wrong: the learner is not told
    doubtful: NDArray[np.bool_]  # [S, A] vasopressor treatments of severely ill patients
    sofa: Floats  # [S]
    rewards: Mapping[str, Floats]  # [S, A] or [H, S, A], in [0, 1]


def installed_records() -> str | None:
    """The version of the package that is installed; None where it is not."""
    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return None


def load_records() -> Records:
    """The arrays of the installed package, read from its files: a script called icu_sepsis.py may be in the way of imports.

    Raises:
        MissingExtra: the package is not installed, or has not these files.
    """
    try:
        package = metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError:
        raise MissingExtra(NOT_INSTALLED) from None
    folder = Path(str(package.locate_file("icu_sepsis/envs/assets")))
    arrays, lists = folder / "dynamics.npz", folder / "admissible_actions.txt"
    if not arrays.is_file() or not lists.is_file():
        raise MissingExtra(
            f"icu-sepsis {package.version} has no {arrays.name} and {lists.name} in {folder}; {NOT_INSTALLED}"
        )
    with np.load(arrays) as stored:
        transition, start, clinicians, sofa = (stored[name] for name in ("tx_mat", "d_0", "expert_policy", "sofa_scores"))
    admissible = np.zeros(clinicians.shape, dtype=np.bool_)
    for state, line in enumerate(lists.read_text().splitlines()[1:]):  # the first line has the numbers of actions
        admissible[state, [int(action) for action in line.split()]] = True
    return Records(transition, admissible, clinicians, start, sofa)


def build(records: Records) -> Case:
    """Reality, simulator, clinicians and rewards."""
    states, actions = records.admissible.shape
    offered = records.admissible.copy()
    offered[TREATED:] = False
    transition = np.zeros((states, actions, states))
    transition[:TREATED, :, DEATH] = 1.0
    transition[offered] = records.transition[offered]
    for end in (DEATH, SURVIVAL, AFTER):
        transition[end, :, end] = 1.0
    kernel = Kernel.from_dense(transition)
    start = records.start / records.start.sum()

    survived = np.zeros((HORIZON, states, actions))
    survived[-1, SURVIVAL] = 1.0  # in the last step, so the expected sum is a probability
    constraint = AtLeast(survived, LEAST_SURVIVAL, name="survival")
    real = CMDP.of(kernel, HORIZON, start, constraint)
    table = _clinicians(records, offered)
    doubtful = offered & (records.sofa >= SEVERE)[:, None] & (np.arange(actions) % LEVELS > 0)
    believed, biased = _too_optimistic(transition, _prospects(kernel, start, table), doubtful)
    return Case(
        real=real,
        simulator=real.with_kernel(Kernel.from_dense(believed)),
        clinicians=MarkovPolicy.stochastic(table, horizon=HORIZON),
        offered=offered,
        biased=biased,
        doubtful=doubtful,
        sofa=records.sofa,
        rewards=_rewards(survived, records.sofa),
    )


def _clinicians(records: Records, offered: NDArray[np.bool_]) -> Floats:
    """[S, A]. An action that is not admissible has the mean row of those that are, so its share is divided among them."""
    table = np.where(offered, records.clinicians, 0.0)
    table[:TREATED] += offered[:TREATED] * ((1.0 - table[:TREATED].sum(axis=1)) / offered[:TREATED].sum(axis=1))[:, None]
    table[TREATED:, 0] = 1.0  # nothing is decided after the end
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def _prospects(kernel: Kernel, start: Floats, table: Floats) -> Floats:
    """The chance of survival [S] in the hands of the clinicians: by it the simulator's bias orders outcomes."""
    survived = np.zeros((_LOOKAHEAD, *table.shape))
    survived[-1, SURVIVAL] = 1.0
    model = CMDP.of(kernel, _LOOKAHEAD, start)
    values = value_functions(model, MarkovPolicy.stochastic(table, horizon=_LOOKAHEAD), survived)
    return np.asarray(values[0])


def _too_optimistic(transition: Floats, prospects: Floats, where: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.bool_]]:
    """Rows reweighted by exp(strength x prospects), the strength by bisection such that the TV distance is GAP.

    Returns the rows [S, A, S] and which of them differ; a row whose outcomes are too much alike to be moved stays right.
    """
    believed, biased = transition.copy(), np.zeros(where.shape, dtype=np.bool_)
    for state, action in np.argwhere(where):
        true_row = transition[state, action]

        def moved(strength: float, true_row: Floats = true_row) -> tuple[Floats, float]:
            row = true_row * np.exp(strength * (prospects - prospects.max()))
            row /= row.sum()
            return row, 0.5 * float(np.abs(row - true_row).sum())

        low, high = 0.0, _STEEPEST
        if moved(high)[1] < GAP:
            continue
        while high - low > 1e-6:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if moved(middle)[1] < GAP else (low, middle)
        believed[state, action] = moved(high)[0]
        biased[state, action] = True
    return believed, biased


def _rewards(survived: Floats, sofa: Floats) -> dict[str, Floats]:
    """What one may want. In all but the first a step after survival pays 1, and in all of them a step after death pays 0."""
    states, actions = survived.shape[1:]
    fluid, vasopressor = np.divmod(np.arange(actions), LEVELS)
    recovered = np.zeros((states, actions))
    recovered[SURVIVAL] = 1.0
    treated = np.zeros((states, actions))
    treated[:TREATED] = 1.0
    return {
        "survival": survived,
        "early recovery": recovered,
        "time alive": recovered + treated,
        "low SOFA": recovered + treated * (1.0 - sofa / sofa.max())[:, None],
        "few vasopressors": recovered + treated * (vasopressor == 0),
        "little fluid": recovered + treated * (1.0 - fluid / (LEVELS - 1)),
    }
