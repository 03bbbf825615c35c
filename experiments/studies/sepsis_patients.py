"""Patients of ICU-Sepsis: stays under a policy, and under a certified mixture that treats a batch of them.

A mixture that was certified once stays certified, so each is deployed for a batch of patients. Which of its policies treats
a patient is drawn for every patient by the learner's own coin, a function of (seed, patient).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from experiments.studies.sepsis_system import GAP, MARGIN, TREATED, Case
from safe2real.exploration.learner import Learner
from safe2real.exploration.proposal import coin_of, drawn
from safe2real.model.cmdp import CMDP
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.model.validation import Floats, Indices
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings

FIRST_BATCH, GROWTH = 500, 0.03  # a batch is 500 patients, or 3 % of those treated so far


def learner_of(case: Case, in_doubt: NDArray[np.bool_], seed: int) -> Learner:
    """Certified settings: nothing is scaled. Rows outside `in_doubt` [S, A] are declared known, the support is the
    simulator's."""
    settings = Settings(margin=MARGIN, calibrated_gap=0.0, mismatch_gap=GAP, tolerance=MARGIN / 4.0, seed=seed)
    support = case.simulator.kernel
    return Learner(Problem(case.simulator, case.clinicians, settings, known=~in_doubt, support=support))


def schedule(patients: int) -> list[int]:
    """The sizes of the batches."""
    sizes: list[int] = []
    while (done := sum(sizes)) < patients:
        sizes.append(min(max(FIRST_BATCH, int(GROWTH * done)), patients - done))
    return sizes


def patients_under(
    case: Case, mixture: Mixture, seed: int, done: int, size: int
) -> tuple[Indices, Indices, NDArray[np.int64]]:
    """Episodes of `size` patients laid end to end, as `Learner.count` takes them; a coin for each says who treats them."""
    coins = np.array([drawn(mixture.weights, coin_of(seed, done + i)) for i in range(size)])
    rng = np.random.default_rng((seed, done))
    groups = [stays(case.real, policy, int((coins == index).sum()), rng) for index, policy in enumerate(mixture.policies)]
    states, actions, lengths = (np.concatenate(parts) for parts in zip(*groups, strict=True))
    steps = np.arange(states.shape[1])
    ends = np.concatenate(([0], np.cumsum(lengths)))
    return states[steps <= lengths[:, None]], actions[steps[:-1] < lengths[:, None]], ends


def stays(
    model: CMDP, policy: MarkovPolicy, patients: int, rng: np.random.Generator
) -> tuple[Indices, Indices, NDArray[np.int64]]:
    """States [n, H + 1], actions [n, H] and lengths [n] of stays; one is over when the patient has died or survived."""
    kernel, horizon = model.kernel, model.horizon
    cumulative = np.cumsum(kernel.probability)  # every row sums to 1, so row i covers the numbers from i to i + 1
    states = np.zeros((patients, horizon + 1), dtype=np.uint32)
    actions = np.zeros((patients, horizon), dtype=np.uint32)
    lengths = np.full(patients, horizon, dtype=np.int64)
    states[:, 0] = _pick(np.cumsum(model.start)[None], rng.random(patients))
    table = None if policy.table is None else np.cumsum(policy.table, axis=2)
    here = np.arange(patients)
    for step in range(horizon):
        state = states[here, step].astype(np.int64)
        if table is None:
            action = policy.actions[step, state].astype(np.int64)  # type: ignore[index]
        else:
            action = _pick(table[step, state], rng.random(here.size))
        row = state * model.num_actions + action
        first = kernel.begin[row].astype(np.int64)
        found = np.searchsorted(cumulative, row + rng.random(here.size), side="right")
        successor = kernel.successor[np.clip(found, first, first + kernel.length[row] - 1)]  # clipped: sums are rounded
        actions[here, step], states[here, step + 1] = action, successor
        over = successor >= TREATED
        lengths[here[over]] = step + 1
        here = here[~over]
    return states, actions, lengths


def _pick(cumulative: Floats, uniform: Floats) -> NDArray[np.int64]:
    """An index for each row of cumulative probabilities [n or 1, m]; never one of probability 0."""
    within = np.minimum(uniform, cumulative[:, -1] * (1.0 - 1e-12))  # sums may be rounded to less than 1
    return np.asarray(np.argmax(cumulative > within[:, None], axis=1))
