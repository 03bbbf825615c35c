"""The one loop: rounds by asking and telling are, bit for bit, those that run in compiled code."""

from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
import pytest

from safe2real.exploration import Learner, simulate
from safe2real.exploration.explore import drive, drive_batch
from safe2real.exploration.simulate import KnownSystem
from safe2real.methods import SimToReal
from safe2real.testing.systems import random_case


@dataclass(frozen=True)
class Plain(SimToReal):
    """The same rounds, one by one."""

    has_compiled_rounds: ClassVar[bool] = False


def bits(run):
    """All but the exact values on the real system, which are summed in another order."""
    return {
        field.name: np.asarray(getattr(run, field.name)).tobytes() for field in fields(run) if field.name != "real_values"
    }


def model_bits(learner):
    evidence = learner.evidence
    parts = [*evidence.counts.tally, *evidence.belief, *evidence.trust.compiled]
    return [np.asarray(part).tobytes() for part in parts]


@pytest.mark.parametrize(("constraints", "growth"), [(1, 0.0), (2, 0.0), (1, 0.3), (2, 1.0)])
def test_plain_rounds_are_the_compiled_ones(constraints, growth):
    for seed in (0, 3):
        case = random_case(seed, constraints=constraints, replan_growth=growth)
        compiled, plain = (
            Learner(case.problem, SimToReal(), trust_margin=True),
            Learner(case.problem, Plain(), trust_margin=True),
        )
        for rounds in (1, 90, 160):  # the second and third go on where the one before ended
            one, other = (simulate(learner, case.real, max_rounds=rounds) for learner in (compiled, plain))
            assert one.rounds == rounds
            for name, content in bits(one).items():
                assert bits(other)[name] == content, (seed, rounds, name)
            np.testing.assert_allclose(other.real_values, one.real_values, rtol=0.0, atol=1e-12)
            assert model_bits(plain) == model_bits(compiled), (seed, rounds)
            assert (plain.round, plain.samples) == (compiled.round, compiled.samples)


def test_progress_is_told_before_every_round_and_the_last_proposal_comes_back():
    case = random_case(1)
    learner, told = Learner(case.problem, Plain()), []
    world = KnownSystem(case.reality, case.problem.settings.coin_seed)
    last = drive(learner, world, max_rounds=7, progress=told.append)
    assert [proposal.round for proposal in told] == list(range(1, 8))
    assert (last.round, learner.round) == (8, 8)
    assert learner.samples == 7 * case.reality.horizon


def test_a_batch_counts_what_its_rounds_would_have_shown_of_one_proposal():
    case = random_case(2)
    batch, alone = Learner(case.problem), Learner(case.problem)
    visits = np.zeros(case.reality.num_states, dtype=np.int64)
    world = KnownSystem(case.reality, case.problem.settings.coin_seed, visits)
    drive_batch(batch, world, batch.propose(), first_round=1, episodes=40)
    assert batch.samples == 40 * case.reality.horizon == visits.sum()
    np.testing.assert_array_equal(batch.evidence.counts.visits.sum(axis=1), visits)
    drive(alone, KnownSystem(case.reality, case.problem.settings.coin_seed), max_rounds=1)
    once = Learner(case.problem)
    drive_batch(once, KnownSystem(case.reality, case.problem.settings.coin_seed), once.propose(), first_round=1, episodes=1)
    np.testing.assert_array_equal(once.evidence.counts.visits, alone.evidence.counts.visits)
