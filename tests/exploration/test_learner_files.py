"""Learners in files: what is loaded proposes, goes on and plans as what was saved would have, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput
from safe2real.evidence.evidence import Evidence
from safe2real.exploration import Learner, roll_out
from safe2real.methods import ForRewards, RewardFree, SimToReal, Trial
from safe2real.model.kernel import Kernel
from safe2real.refinements import DEFAULT
from safe2real.standing import Standing
from safe2real.testing.systems import random_case
from tests.evidence.tied_systems import ledge, ledge_problem
from tests.exploration.changed_files import array, entry, rewritten
from tests.testing.test_toy_method import TowardsOne

REWARD = np.random.default_rng(5).random((4, 2))


def play(learner, real, rounds):
    """Ask and tell; what was proposed, in numbers."""
    told = []
    reality = learner.simulator.with_kernel(real)
    for _ in range(rounds):
        proposal = learner.propose()
        if proposal.mixture is None:
            told.append((proposal.reason,))
            break
        parts = [policy.probabilities.tobytes() for policy in proposal.mixture.policies]
        bounds = proposal.certificate.lower_bounds.tobytes()
        told.append((proposal.reason, proposal.mixture.weights.tobytes(), parts, proposal.uncertainty, bounds))
        assert proposal.certificate.doubts == learner.doubts()
        learner.observe(roll_out(reality, proposal.draw(), seed=11, round_number=proposal.round))
    return told


def planned(learner, reward):
    plan = learner.plan(reward)
    parts = [policy.probabilities.tobytes() for policy in plan.policy.policies]
    certificate = plan.certificate
    words = certificate.lower_bounds.tobytes(), certificate.assumptions, certificate.doubts
    return plan.value, plan.bound, plan.suboptimality, plan.policy.weights.tobytes(), parts, words


def same_from_now_on(learner, path, real, reward, rounds=12, extensions=()):
    """Save, load, and hold both against each other."""
    loaded = s2r.load_learner(learner.save(path), extensions=extensions)
    assert loaded.evidence is not learner.evidence
    assert (loaded.round, loaded.samples, loaded.standing) == (learner.round, learner.samples, learner.standing)
    assert loaded.evidence.assumptions() == learner.evidence.assumptions()
    assert planned(loaded, reward) == planned(learner, reward)
    assert play(loaded, real, rounds) == play(learner, real, rounds)
    assert planned(loaded, reward) == planned(learner, reward)
    assert loaded.evidence.counts.tally.visits.tolist() == learner.evidence.counts.tally.visits.tolist()
    return loaded


@pytest.mark.parametrize(
    ("method", "changes", "warm_start"),
    [
        (SimToReal(), {}, True),
        (SimToReal(), {"replan_growth": 0.3}, True),
        (SimToReal(), {}, False),
        (RewardFree(), {"refinements": ()}, True),
        (ForRewards({"goal": REWARD, "other": 1.0 - REWARD}, accuracy=0.01), {}, True),
        (Trial(s2r.MarkovPolicy.deterministic([1, 1, 1, 1], num_actions=2, horizon=3), {"goal": REWARD}), {}, True),
    ],
)
def test_it_goes_on_as_if_nothing_had_been(method, changes, warm_start, tmp_path):
    case = random_case(4)
    problem = replace(case.problem, settings=replace(case.problem.settings, **changes))
    learner = Learner(problem, method, warm_start=warm_start)
    play(learner, case.real, 25)
    learner.plan(REWARD)  # which is kept
    loaded = same_from_now_on(learner, tmp_path / "learner.npz", case.real, REWARD)
    assert loaded.method.name == method.name
    assert loaded.floors() == learner.floors()
    assert loaded.warm_start is warm_start


def test_after_compiled_rounds_and_with_segments_that_moved(tmp_path):
    rng = np.random.default_rng(3)
    states = 30
    real = Kernel.from_dense(rng.dirichlet(np.full(states, 0.2), size=(states, 2)))
    model = s2r.CMDP.of(Kernel.from_dense(np.eye(states)[rng.integers(states, size=(states, 2))]), 4, 0,
                        s2r.AtLeast(np.ones((states, 2)), 1.0))  # fmt: skip
    within = np.where(rng.random((states, 2)) < 0.3, 0.4, 1.0)
    settings = s2r.Settings(margin=1.0, calibrated_gap=0.0, mismatch_gap=0.4, tolerance=0.2, seed=2, replan_growth=0.2)
    baseline = s2r.MarkovPolicy.uniform(horizon=4, num_states=states, num_actions=2)
    learner = Learner(s2r.Problem(model, baseline, settings, within=within))
    fresh = learner.evidence.counts.tally.begin.copy()
    s2r.simulate(learner, real, max_rounds=300)
    assert not np.array_equal(fresh, learner.evidence.counts.tally.begin)
    reward = rng.random((states, 2))
    loaded = s2r.load_learner(learner.save(tmp_path / "learner.npz"))
    ran, again = (s2r.simulate(one, real, max_rounds=200) for one in (learner, loaded))
    assert ran.uncertainty.tobytes() == again.uncertainty.tobytes()
    assert ran.real_values.tobytes() == again.real_values.tobytes()
    same_from_now_on(loaded, tmp_path / "again.npz", real, reward, rounds=5)


@pytest.mark.parametrize(("exact", "reported"), [(True, False), (False, False), (True, True)])
def test_rows_that_are_learnt_together(exact, reported, tmp_path):
    simulated, actual = ledge((0.05, 0.1), exact=exact, reported=reported), ledge((0.05, 0.4))
    problem = ledge_problem(simulated, simulated.ties)
    learner, rng = Learner(problem), np.random.default_rng(0)
    reality = actual.model

    def episode(policy, number):
        trajectory = roll_out(reality, policy, seed=3, round_number=number)
        if not reported:
            return trajectory
        leads = np.asarray(simulated.ties.successors)
        labels = [
            int(rng.choice(np.flatnonzero(leads[s, a] == t)))
            for s, a, t in zip(trajectory.states, trajectory.actions, trajectory.states[1:], strict=False)
        ]
        return s2r.Trajectory.of(problem.simulator, trajectory.states, trajectory.actions, labels=labels)

    for _ in range(15):
        proposal = learner.propose()
        learner.observe(episode(proposal.draw(), proposal.round))
    reward = simulated.system.unit_reward
    before = learner.plan_with_structure(reward)  # leaves something behind
    loaded = s2r.load_learner(learner.save(tmp_path / "learner.npz"))
    after = loaded.plan_with_structure(reward)
    assert (before.value, before.bound) == (after.value, after.bound)
    assert planned(loaded, reward) == planned(learner, reward)
    for _ in range(8):
        mine, theirs = learner.propose(), loaded.propose()
        assert mine.uncertainty == theirs.uncertainty
        assert mine.mixture.weights.tobytes() == theirs.mixture.weights.tobytes()
        told = episode(mine.draw(), mine.round)
        learner.observe(told)
        loaded.observe(told)
    assert learner.plan_with_structure(reward).value == loaded.plan_with_structure(reward).value
    assert learner.evidence.doubts() == loaded.evidence.doubts()


def test_imports_faults_and_refutations_are_not_forgotten(tmp_path):
    case = random_case(3)
    learner = Learner(case.problem, trust_margin=True)
    log = [roll_out(case.reality, case.problem.baseline, seed=1, round_number=i) for i in range(1, 5)]
    unlike = {tuple(one.states.tolist() + one.actions.tolist()): one for one in log}.values()
    learner.import_episodes(case.problem.baseline, unlike)
    learner.cut_short([0], [], "the network")
    loaded = same_from_now_on(learner, tmp_path / "one.npz", case.real, REWARD, rounds=3)
    for one in (learner, loaded):
        with pytest.raises(s2r.Safe2RealError, match="imported before"):
            one.import_episodes(case.problem.baseline, unlike)
    learner.leave_model([], [])
    loaded = s2r.load_learner(learner.save(tmp_path / "two.npz"))
    assert loaded.standing is learner.standing is Standing.REFUTED
    assert loaded.doubts() == learner.doubts()
    assert loaded.plan(REWARD).certificate.doubts == learner.plan(REWARD).certificate.doubts


def test_a_heuristic_stays_one(tmp_path):
    case = random_case(1, radius=s2r.radii.Scaled(0.2))
    learner = Learner(case.problem)
    play(learner, case.real, 10)
    assert same_from_now_on(learner, tmp_path / "one.npz", case.real, REWARD).standing is Standing.HEURISTIC


def test_methods_from_outside_are_named(tmp_path):
    case = random_case(6)
    learner = Learner(case.problem, TowardsOne(2))
    play(learner, case.real, 5)
    path = tmp_path / "learner.npz"
    same_from_now_on(learner, path, case.real, REWARD, rounds=4, extensions=[TowardsOne])
    with pytest.raises(InvalidInput, match=r"settings\.algorithm is"):
        s2r.load_learner(path)

    class OwnEvidence(Evidence):
        pass

    learner.evidence = OwnEvidence(case.problem)
    with pytest.raises(InvalidInput, match="OwnEvidence"):
        learner.save(path)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    case = random_case(4)
    learner = Learner(case.problem)
    play(learner, case.real, 3)
    learner.propose()
    return learner.save(tmp_path_factory.mktemp("saved") / "learner.npz")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        # Each of these would have compiled code read or write outside its arrays.
        (array("evidence.counts.successor", lambda a: a + np.uint32(4)), "do not fit together"),
        (array("evidence.counts.capacity", lambda a: a * np.uint32(0)), "do not fit together"),
        (array("evidence.counts.capacity", lambda a: a + np.uint32(99)), "do not fit together"),
        (array("evidence.counts.length", lambda a: a + np.uint32(1)), "evidence, counts: successor has"),
        (array("evidence.counts.visits", lambda a: a + 1), "do not fit together"),
        (array("evidence.counts.count", lambda a: -a), "do not fit together"),
        (array("evidence.length", lambda a: a + np.uint32(9)), "more successors than were observed"),
        (array("memory.actions", lambda a: a + np.uint32(2)), "cannot have"),
        (array("evidence.suspect", lambda a: a[1:]), "has type bool and shape"),
        (array("evidence.gap", lambda a: a.astype(np.float32)), "has type float32"),
        (array("planned", lambda a: a[:-1]), "planned has type"),
        (entry("memory", "warm", value=99), "cannot have"),
        (entry("memory", "kind", value="other"), "no method that is known"),
        (entry("round", value=0), "round is 0"),
        (entry("round", value="1"), "round is '1'"),
        (entry("evidence", "kind", value="TiedEvidence"), "another kind of evidence"),
        (entry("evidence", "departed", value=-1), "departed is -1"),
        (entry("evidence", "behind", value=0), "behind"),
        (entry("evidence", "faults", value={"x": 0}), "faults is"),
        (entry("imported", value={}), "imported lacks 'ids'"),
        (entry("imported", "ids", value=[1]), "give lists of texts"),
        (entry("imported", "alike", value=True), "give lists of texts"),
        (entry("environment", value={}), "entropy is None"),
        (entry("revisions", "method", value=99), "upgrade it"),
        (entry("revisions", "method", value=0), "count the episodes again"),
        (entry("revisions", value={"method": 1, "radius": 1}), "revisions lacks"),
        (entry("revisions", "radius", value=0), "count the episodes again"),
        (entry("revisions", f"refinement {DEFAULT[0].name}", value=0), "count the episodes again"),
        (entry("decision", value="WHATEVER"), "decision is 'WHATEVER'"),
        (entry("specification", value={}), "lacks 'horizon'"),
        (entry("specification", "settings", "mismatch_gap", value=None), "mismatch_gap is nan"),
        (array("evidence.trust.margins", lambda a: a * np.nan), "evidence, trust: "),
        (array("evidence.trust.margins", lambda a: a / 2.0), "evidence, trust: a margin is below the stated one"),
        (entry("kept", value=1), "kept is 1"),
        (entry("kept", value={"00": {}}), "kept, 00"),
        (lambda archive: archive.document.update(safe2real="plan"), "holds a 'plan', not a learner"),
    ],
)
def test_contents_that_cannot_be(change, match, saved, tmp_path):
    with pytest.raises(InvalidInput, match=match):
        s2r.load_learner(rewritten("learner", saved, tmp_path / "changed.npz", change))


def parts(thing, place=""):
    """Everything that an object holds, by place: arrays and plain values, whatever it is nested in."""
    if isinstance(thing, np.ndarray):
        yield place, thing.dtype.str, thing.shape, thing.tobytes()
    elif thing is None or isinstance(thing, (bool, int, float, str)):
        yield place, repr(thing)
    elif isinstance(thing, (set, frozenset)):
        yield place, sorted(thing)
    elif isinstance(thing, dict):
        yield place, len(thing)
        for key, value in thing.items():
            yield from parts(value, f"{place}[{key!r}]")
    elif isinstance(thing, tuple) and hasattr(thing, "_fields"):
        for name in thing._fields:
            yield from parts(getattr(thing, name), f"{place}.{name}")
    elif isinstance(thing, (list, tuple)):
        for i, value in enumerate(thing):
            yield from parts(value, f"{place}[{i}]")
    elif type(thing).__module__.startswith("safe2real.evidence") or type(thing).__name__ == "ImportedLogs":
        for name, value in getattr(thing, "__dict__", {}).items():  # frozen ones with slots do not change
            if name not in ("problem", "_pooling", "pooling", "stated"):
                yield from parts(value, f"{place}.{name}")


def held_by(learner):
    found = {place: content for place, *content in parts(learner.evidence)}
    return found | {place: content for place, *content in parts(learner._imported, "imported")}


def worn():
    """Learners to which everything has happened: rows cleared, margins raised, supports left, labels lost, logs named."""
    case = random_case(4)
    settings = replace(case.problem.settings, replan_growth=0.1)
    first = Learner(replace(case.problem, settings=settings, support=case.problem.simulator.kernel))
    s2r.simulate(Learner(case.problem), case.real, max_rounds=1)  # compiled by then
    log = [roll_out(case.problem.simulator, case.problem.baseline, seed=1, round_number=i) for i in range(1, 3000)]
    named = [{"states": e.states.tolist(), "actions": e.actions.tolist(), "id": f"a{i}"} for i, e in enumerate(log)]
    first.import_episodes(case.problem.baseline, named)
    yield first
    second = Learner(replace(case.problem, settings=settings, support=case.problem.simulator.kernel))
    play(second, case.real, 60)
    second.evidence.broken_off["an error"] = 1
    second.evidence.announce(departures=2, outside_support=3)
    second.leave_model([0], [1])
    yield second
    hopes = 0.9 * float((3.0 - case.problem.simulator.thresholds)[0])
    low = replace(case.problem, settings=replace(settings, margin=hopes))
    third = Learner(low, trust_margin=True)
    for episode in log[:400]:
        third.count(episode.states, episode.actions, np.array([0, 3]), of_baseline=np.array([True]))
    assert third.evidence.trust.refuted.any()
    yield third
    simulated = ledge((0.05, 0.1), exact=True, reported=True)
    fourth = Learner(ledge_problem(simulated, simulated.ties))
    states, leads = [0], np.asarray(simulated.ties.successors)
    for _ in range(8):
        states.append(int(leads[states[-1], 3, 0]))
    fourth.observe(s2r.Trajectory.of(fourth.simulator, states, [3] * 8, labels=[0] * 8))
    fourth.count(np.array(states, dtype=np.uint32), np.full(8, 3, dtype=np.uint32), np.array([0, 8]))  # without its labels
    yield fourth
    fifth = Learner(replace(case.problem, settings=replace(settings, replan_growth=0.9)))
    while not fifth.evidence.behind:  # until a plan stands although more was counted
        play(fifth, case.real, 1)
    yield fifth


def test_everything_that_changes_is_kept(tmp_path):
    changed = set()
    for i, learner in enumerate(worn()):
        loaded = s2r.load_learner(learner.save(tmp_path / f"{i}.npz"))
        before, after, fresh = (
            held_by(learner),
            held_by(loaded),
            held_by(Learner(learner.problem, learner.method, trust_margin=True)),
        )
        assert before.keys() == after.keys()
        for place, content in before.items():
            assert after[place] == content, place
        changed |= {place.rsplit(".", 1)[-1] for place, content in before.items() if fresh.get(place) != content}
    everything = {
        *("suspect", "refuted", "low", "high", "look_at", "gap", "divergence", "bonus", "begin", "length"),
        *("margins", "ceiling", "wealth", "counters", "flags"),
        *("outside_support", "announced_outside", "departed", "_left", "behind", "_ids", "_named"),
        *("_labels_counted", "_labels_ignored", "_labels_lost"),
    }
    assert everything <= changed, everything - changed  # else the comparison above says nothing of them


def record_state(learner):
    kept = learner.state(of_record=True)
    return kept.document, {name: array.tobytes() for name, array in kept.arrays.items()}


@pytest.mark.parametrize(
    "method",
    [SimToReal(), ForRewards({"goal": REWARD}), Trial(s2r.MarkovPolicy.deterministic([1] * 4, num_actions=2, horizon=3))],
)
def test_the_state_of_a_record_depends_on_what_was_counted_alone(method):
    """Whoever asked in between, and in whichever batches: a campaign's snapshot says the same as its events."""
    case = random_case(4)
    log = [roll_out(case.reality, case.problem.baseline, seed=1, round_number=i) for i in range(1, 40)]
    states, actions = (np.concatenate([getattr(one, name) for one in log]) for name in ("states", "actions"))
    ends, whose = np.arange(len(log) + 1) * 3, {"of_baseline": np.ones(len(log), dtype=bool)}
    one, other = Learner(case.problem, method), Learner(case.problem, method)
    one.count(states, actions, ends, **whose)
    for i, episode in enumerate(log):
        if i % 7 == 0:
            other.propose()
            other.plan(REWARD)
        other.count(episode.states, episode.actions, np.array([0, 3]), of_baseline=whose["of_baseline"][:1])
    assert record_state(one) == record_state(other)
    restored = Learner(case.problem, method)
    restored.restore(one.state(of_record=True))
    assert record_state(restored) == record_state(one)
    for name in ("reason", "exploration_weight", "uncertainty"):
        assert getattr(restored.propose(), name) == getattr(one.propose(), name)


def test_restoring_goes_on_with_the_rewards_declared_on_the_way():
    case = random_case(4)
    learner = Learner(case.problem, ForRewards({"goal": REWARD}))
    learner.declare({"other": 1.0 - REWARD})
    restored = Learner(case.problem, ForRewards({"goal": REWARD}))
    restored.restore(learner.state(of_record=True))
    assert list(restored.method.rewards) == ["goal", "other"]
    with pytest.raises(InvalidInput, match="specification is None"):
        Learner.from_state(learner.state(of_record=True))
