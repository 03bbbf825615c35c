"""What the baseline is worth: ranges that declarations narrow, and the spread of sums that count the end."""

from __future__ import annotations

import itertools
import math

import gymnasium
import numpy as np
import pytest

import safe2real as s2r
from safe2real.methods import SimToReal
from safe2real.preflight.baseline import ranges_of, spread_of
from safe2real.preflight.conditions import floor_of
from safe2real.preflight.findings import Code
from safe2real.preflight.gaps import rollout_findings
from safe2real.radii import Literal

LAKE = gymnasium.make("FrozenLake-v1", max_episode_steps=20)
SYSTEM = s2r.from_gymnasium(
    LAKE, 20, s2r.SystemDescription(cost=lambda s, a, t, reward, over: over and not reward, limit=0.8, ended=0)
)
SETTINGS = s2r.Settings(margin=0.3, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.05)
CAREFUL = s2r.MarkovPolicy.deterministic(
    SYSTEM.per_state([0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0]), num_actions=4, horizon=20
)


def test_rollouts_say_more_where_rows_after_the_end_are_known() -> None:
    rollouts = SYSTEM.rollout(CAREFUL, LAKE, 40, seed=3).trajectories
    plain = s2r.Problem(SYSTEM.model, CAREFUL, SETTINGS)
    known = s2r.Problem(SYSTEM.model, CAREFUL, SETTINGS, known=SYSTEM.known)
    (wide,), (narrow,) = (ranges_of(one, SYSTEM.model.kernel, rollouts) for one in (plain, known))
    assert wide.rollouts is not None
    assert narrow.rollouts is not None
    assert wide.rollouts[0] < wide.threshold < narrow.rollouts[0] <= narrow.baseline <= narrow.rollouts[1]


def test_a_declaration_that_rollouts_refute_narrows_nothing() -> None:
    rows = np.zeros((2, 1, 2))
    rows[:, 0, 1] = 1.0
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), 3, 0, s2r.AtMost([1.0, 0.0], 3.0, "there"))
    baseline = s2r.MarkovPolicy.uniform(horizon=3, num_states=2, num_actions=1)
    problem = s2r.Problem(model, baseline, SETTINGS, known=np.ones((2, 1), dtype=bool))
    stayed = [s2r.Trajectory.of(model, [0, 0, 0, 0], [0, 0, 0])]
    assert [one.code for one in rollout_findings(problem, stayed)] == [Code.KNOWN_ROWS_BY_ROLLOUTS]
    (found,) = ranges_of(problem, model.kernel, stayed)
    assert found.rollouts is not None
    assert found.rollouts[0] == 0.0


def counting_its_end() -> s2r.CMDP:
    rows = np.array([[[0.7, 0.3], [0.2, 0.8]], [[0.5, 0.5], [1.0, 0.0]]])
    return s2r.CMDP.of(s2r.Kernel.from_dense(rows), 3, [0.6, 0.4], s2r.AtMost([0.0, 1.0], 4.0), counts_end=True)


def test_the_spread_is_that_of_sums_with_their_end() -> None:
    model = counting_its_end()
    policy = s2r.MarkovPolicy.stochastic([[0.4, 0.6], [0.9, 0.1]], horizon=3)
    rows, acts = model.kernel.to_dense(), policy.probabilities[0]
    mean = square = 0.0
    for states in itertools.product(range(2), repeat=4):
        chance = model.start[states[0]]
        for before, after in itertools.pairwise(states):
            chance *= float(acts[before] @ rows[before, :, after])
        worth = 4.0 - sum(states)
        mean, square = mean + chance * worth, square + chance * worth**2
    assert spread_of(model, policy, 0) == pytest.approx(math.sqrt(square - mean**2))


def test_the_floor_is_there_with_the_papers_constants_and_rows_known_by_action() -> None:
    model = counting_its_end()
    baseline = s2r.MarkovPolicy.uniform(horizon=3, num_states=2, num_actions=2)
    known = np.array([[True, False], [False, True]])
    settings = s2r.Settings.paper(margin=0.3, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.05)
    assert isinstance(settings.radius, Literal)
    floor = floor_of(s2r.Problem(model, baseline, settings, known=known), SimToReal())
    assert floor == pytest.approx(12.0)  # H = 4 in each of 3 steps: nothing is learnt where one only collects
