"""Rounds in compiled code are those of the plain Python of `SimToReal.propose` by asking and telling, bit for bit."""

import inspect
import re
from dataclasses import replace

import numpy as np
import pytest

from safe2real import methods, radii
from safe2real.exploration import Learner, simulate
from safe2real.exploration.explore import drive, drive_batch
from safe2real.exploration.simulate import KnownSystem
from safe2real.problem.problem import Problem
from safe2real.testing.systems import random_case
from tests.exploration.random_problems import hub, quick, random_problem, settings_for, sparse_problem


def test_the_plain_rounds_are_in_the_papers_order():
    """Lines 7, 12 and 14 are `else` and `end if`; 1, 2, 15 to 17 are around the decision."""
    source = inspect.getsource(methods.SimToReal.propose).split('"""')[2]
    named = [int(number) for text in re.findall(r"Lines? (\d+(?: and \d+)?)", source) for number in text.split(" and ")]
    assert named == [3, 4, 5, 6, 8, 9, 10, 11, 17, 13]
    assert all(kind.propose is methods.SimToReal.propose for kind in methods.ANY_REWARD)  # Algorithms 2 and 3 too


def plain(kind):
    """The same method without compiled rounds, so that `simulate` proposes and observes round by round."""
    return type("Plain", (kind,), {"has_compiled_rounds": False})()


def by_round(run):
    """Entries for plans, written out for the rounds in which they were deployed."""
    names = ("reason", "uncertainty", "exploration_weight", "suspects", "real_values")
    return {name: np.repeat(getattr(run, name)[: len(run.deployed)], run.deployed, axis=0) for name in names}


def learnt(learner):
    evidence = learner.evidence
    return [np.asarray(part).tobytes() for part in (*evidence.counts.tally, *evidence.belief, *evidence.trust.compiled)]


def check_same_rounds(problem, real, kind=methods.SimToReal, *, pieces=(1, 99, 150), warm_start=True):
    """Run both ways and compare them; return the last compiled run, and how often rows were moved to make room."""
    compiled, asked = (
        Learner(problem, method, warm_start=warm_start, trust_margin=True) for method in (kind(), plain(kind))
    )
    places = compiled.evidence.counts.tally.begin.copy()
    for rounds in pieces:
        run, other = (simulate(learner, real, max_rounds=rounds) for learner in (compiled, asked))
        ours, theirs = by_round(run), by_round(other)
        np.testing.assert_allclose(ours.pop("real_values"), theirs.pop("real_values"), rtol=0.0, atol=1e-12)
        for name, values in ours.items():
            assert values.tobytes() == theirs[name].tobytes(), name
        assert (run.rounds, run.samples, run.stopped, run.halted) == (
            other.rounds, other.samples, other.stopped, other.halted,
        )  # fmt: skip
        assert run.uncertainty[-1] == other.uncertainty[-1]  # of the stop
        np.testing.assert_array_equal(run.state_visits, other.state_visits)
        assert run.state_visits.sum() == run.samples == run.deployed.sum() * problem.simulator.steps
        moved = int((places != compiled.evidence.counts.tally.begin).sum())
        # A plan has one entry, or one more for each time that compiled rounds were interrupted to make room.
        assert moved or run.deployed.tolist() == other.deployed.tolist()
        assert (run.deployed >= 1).all()
        assert learnt(compiled) == learnt(asked)
        assert (compiled.round, compiled.samples) == (asked.round, asked.samples)
        mine, same = compiled.decide(), asked.decide()
        for name in ("reason", "uncertainty", "exploration_weight", "weights"):
            assert getattr(mine, name) == getattr(same, name), name
    return run, moved


@pytest.mark.parametrize("growth", [0.0, 0.2])
@pytest.mark.parametrize("constraints", [1, 2])
@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("kind", methods.ANY_REWARD)
def test_compiled_rounds_are_the_plain_ones(kind, per_step, constraints, growth):
    model, real, baseline = random_problem(3, per_step=per_step, constraints=constraints)
    settings = quick(seed=11, replan_growth=growth) if growth else settings_for(seed=11)
    pieces = (1, 99, 500) if growth else (1, 99, 150)
    run, _ = check_same_rounds(Problem(model, baseline, settings), real, kind, pieces=pieces)
    if growth:
        assert len(run.deployed) < 0.5 * run.rounds
    if kind.reuses_simulator and growth:
        assert run.suspects[-1] < model.kernel.num_rows


@pytest.mark.parametrize(("constraints", "growth"), [(1, 0.0), (2, 0.0), (1, 0.3), (2, 1.0)])
def test_where_the_constraints_bind_too(constraints, growth):
    for seed in (0, 3):
        case = random_case(seed, constraints=constraints, replan_growth=growth)
        check_same_rounds(case.problem, case.real, pieces=(1, 90, 160))


def test_without_a_warm_start_too():
    """A campaign plans without one; a rehearsal of it must too, or ties fall otherwise."""
    model, real, baseline = random_problem(5, per_step=False, constraints=2)
    problem = Problem(model, baseline, settings_for(2))
    cold, warm = (check_same_rounds(problem, real, warm_start=on)[0] for on in (False, True))
    assert cold.uncertainty.tobytes() != warm.uncertainty.tobytes()  # else this would show nothing


@pytest.mark.parametrize("per_step", [pytest.param(False, marks=pytest.mark.slow), True])
def test_where_rows_are_moved_to_make_room(per_step):
    for seed in range(4):
        model, real, baseline = sparse_problem(seed, per_step=per_step, constraints=1 + seed % 2)
        settings = quick(seed=seed, mismatch_gap=0.5, calibrated_gap=0.05, radius=radii.Scaled(0.05), replan_growth=0.5)
        run, moved = check_same_rounds(Problem(model, baseline, settings), real, pieces=(500,))
        assert run.suspects[-1] < run.suspects[0]
        assert moved >= 1


@pytest.mark.parametrize("horizon", [1, 2])
def test_a_plan_is_due_whether_or_not_rows_are_moved(horizon):
    model, real, baseline, settings = hub(horizon)
    run, moved = check_same_rounds(Problem(model, baseline, settings), real, pieces=(300,))
    assert moved >= 1
    assert len(run.deployed) < 100


@pytest.mark.parametrize("growth", [0.0, 0.2])
def test_a_run_repeats_and_goes_on_in_pieces_and_looking_at_a_proposal_changes_nothing(growth):
    model, real, baseline = random_problem(5, per_step=False, constraints=2)
    problem = Problem(model, baseline, quick(seed=4, replan_growth=growth))
    whole, again = (simulate(Learner(problem, trust_margin=True), real, max_rounds=600) for _ in range(2))
    assert whole.uncertainty.tobytes() == again.uncertainty.tobytes()
    for pieces in ((1, 99, 500), (10,) * 60):
        learner, parts = Learner(problem, trust_margin=True), []
        for rounds in pieces:
            learner.propose()
            parts.append(simulate(learner, real, max_rounds=rounds))
        for name, values in by_round(whole).items():
            assert np.concatenate([by_round(part)[name] for part in parts]).tobytes() == values.tobytes(), name
        np.testing.assert_array_equal(sum(part.state_visits for part in parts), whole.state_visits)
    reseeded = replace(problem, settings=replace(problem.settings, seed=5))
    other = simulate(Learner(reseeded, trust_margin=True), real, max_rounds=600)
    assert (other.state_visits != whole.state_visits).any()


def test_progress_is_told_before_every_round_and_the_last_proposal_comes_back():
    case = random_case(1)
    learner, told = Learner(case.problem, plain(methods.SimToReal)), []
    world = KnownSystem(case.reality, case.problem.settings.coin_seed)
    last = drive(learner, world, max_rounds=7, progress=told.append)
    assert [proposal.round for proposal in told] == list(range(1, 8))
    assert (last.round, learner.round) == (8, 8)
    assert learner.samples == 7 * case.reality.horizon


def test_a_batch_counts_what_its_rounds_would_have_shown_of_one_proposal():
    case = random_case(2)
    batch, once, alone = (Learner(case.problem) for _ in range(3))
    visits, seed = np.zeros(case.reality.num_states, dtype=np.int64), case.problem.settings.coin_seed
    drive_batch(batch, KnownSystem(case.reality, seed, visits), batch.propose(), first_round=1, episodes=40)
    assert batch.samples == 40 * case.reality.horizon == visits.sum()
    np.testing.assert_array_equal(batch.evidence.counts.visits.sum(axis=1), visits)
    drive(alone, KnownSystem(case.reality, seed), max_rounds=1)
    drive_batch(once, KnownSystem(case.reality, seed), once.propose(), first_round=1, episodes=1)
    np.testing.assert_array_equal(once.evidence.counts.visits, alone.evidence.counts.visits)
