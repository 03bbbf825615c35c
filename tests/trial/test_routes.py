"""Every route says nothing false, and what is broken on it is noticed."""

from collections import Counter

import numpy as np
import pytest

from safe2real.campaign import Campaign
from safe2real.campaign.journal import MemoryJournal
from trial.exact import Truth
from trial.flaws import Flaw
from trial.parts import ROUTES, Part
from trial.routes import _Fleet
from trial.statements import Kind
from trial.systems import Family, draw_case
from trial.workers import Plan
from trial.world import SeededEnv, World

SEED, RUNS = 5, 3
BROKEN = [flaw for flaw in Flaw if flaw.part in ROUTES]
# What each control is noticed by at least, besides rows that leave their sets.
HARM = {
    Flaw.FALSE_TIES: {Kind.CLEARED, Kind.VALUE, Kind.UNSAFE, Kind.INFEASIBLE},
    Flaw.SMALL_SUPPORT: {Kind.VALUE, Kind.UNSAFE, Kind.INFEASIBLE},
    Flaw.ONE_LOG: {Kind.VALUE},
    Flaw.LUCKY_POLICY: {Kind.FLOOR},
}


@pytest.mark.parametrize("part", ROUTES)
def test_a_route_says_nothing_false_and_is_a_function_of_its_number(part):
    outcomes = Plan(SEED, 100, part).outcomes(range(RUNS))
    assert not any(outcome.failures for outcome in outcomes if outcome.delta == 0.05)
    assert sum(bool(outcome.failures) for outcome in outcomes) <= 1
    assert {outcome.part for outcome in outcomes} == {part}
    assert sum(outcome.deployments > 0 for outcome in outcomes) >= RUNS - 1  # one may stop at what it imports
    assert all(outcome.plans > 0 for outcome in outcomes) or part is Part.POLICY
    assert all(outcome.delta <= outcome.allowed <= 1.0 for outcome in outcomes)
    assert Plan(SEED, 100, part).outcome(2) == outcomes[2]


@pytest.mark.slow
@pytest.mark.parametrize("flaw", BROKEN)
def test_what_is_broken_on_a_route_is_noticed(flaw):
    outcomes = Plan(SEED, 100, flaw.part, flaw).outcomes(range(12))
    assert {outcome.delta for outcome in outcomes} == {0.05}
    assert sum(bool(outcome.failures) for outcome in outcomes) >= 4
    kinds = Counter(kind for outcome in outcomes for kind in outcome.failures)
    assert kinds.keys() & HARM.get(flaw, {Kind.RADIUS})
    assert not kinds.keys() & flaw.told


def test_workers_tell_late_and_out_of_order_and_abandon_some():
    case = draw_case(SEED, 1, 100, Part.CAMPAIGN)
    rng = np.random.default_rng(0)
    campaign = Campaign.create(MemoryJournal(), case.problem, method=case.method, trust_margin=True)
    fleet = _Fleet(campaign, World(Truth(case.task, case.real), rng), rng, None)
    fleet.work(60)
    events = [(event.kind, event.deployment) for event in fleet.campaign.events()]
    told = [number for kind, number in events if kind == "tell"]
    abandoned = [number for kind, number in events if kind == "abandon"]
    assert told != sorted(told)
    assert abandoned
    assert set(abandoned) & set(told)  # late
    assert fleet.campaign is not campaign  # opened anew
    assert not fleet.campaign.verify().problems


def test_an_episode_of_the_environment_is_a_function_of_its_seed():
    case = draw_case(SEED, 0, 100, Part.SEEDS, family=Family.COINS)
    env = SeededEnv(case)

    def episode(seed):
        states = [env.reset(seed=seed)[0]]
        return [*states, *(env.step(0)[0] for _ in range(case.task.steps))]

    assert episode(7) == episode(7)
    assert len({tuple(episode(seed)) for seed in range(40)}) > 1
    rows = np.zeros((case.task.num_states, case.task.num_states))
    for seed in range(2000):
        state, following = episode(seed)[:2]
        rows[state, following] += 1
    visited = rows.sum(axis=1) > 300
    assert visited.any()
    real = Truth(case.task, case.real)._rows[0, :, 0]
    assert rows[visited] / rows[visited].sum(axis=1, keepdims=True) == pytest.approx(real[visited], abs=0.1)
