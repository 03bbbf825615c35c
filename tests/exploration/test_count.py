"""`Learner.count` takes in many episodes at once, cut short ones too: bit for bit what taking them one by one gives."""

import numpy as np
import pytest

import safe2real as s2r
from safe2real import radii
from safe2real.exploration import Learner
from safe2real.methods.base import Reason
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings
from tests.random_models import random_rows


def make(num_states, num_actions, horizon, *, constraints=1, per_step=False, rows="deterministic", seed=0, **choices):
    """A system, its trusted policy and settings: (model, function that makes a learner)."""
    rng = np.random.default_rng(seed)
    lead = (horizon,) if per_step else ()
    shape = (*lead, num_states, num_actions)
    kernel = s2r.Kernel.from_dense(random_rows(rng, rows, int(np.prod(shape)), num_states).reshape(*shape, num_states))
    utilities = [rng.random((num_states, num_actions)) for _ in range(constraints)]
    model = s2r.CMDP.of(kernel, horizon, 0, [s2r.AtLeast(utility, 0.25 * horizon) for utility in utilities])
    baseline = s2r.MarkovPolicy.uniform(horizon=horizon, num_states=num_states, num_actions=num_actions)
    base = {"margin": 0.1 * horizon, "calibrated_gap": 0.01, "mismatch_gap": 0.5, "tolerance": 0.01}
    settings = Settings(**base | choices)
    return model, lambda known=None, **others: Learner(
        Problem(model, baseline, settings, known=known), **others, trust_margin=True
    )


def laid_end_to_end(episodes):
    states = np.concatenate([episode.states for episode in episodes])
    actions = np.concatenate([episode.actions for episode in episodes])
    return states, actions, np.cumsum([0, *(episode.length for episode in episodes)])


def assert_same_bits(one, other, name=""):
    assert one.dtype == other.dtype, name
    assert one.shape == other.shape, name
    assert one.tobytes() == other.tobytes(), name


def assert_same_model(one, other):
    """Visits, successors in their order, their counts, the suspects, the model and its bonus; where everything lies too."""
    for name, array in one.evidence.counts.tally._asdict().items():
        assert_same_bits(array, other.evidence.counts.tally._asdict()[name], name)
    for name, array in one.evidence.belief._asdict().items():
        assert_same_bits(array, other.evidence.belief._asdict()[name], name)
    assert one.evidence.counts.episodes == other.evidence.counts.episodes
    assert one.samples == other.samples


def assert_same_proposal(one, other):
    """All but the round and its coin."""
    for name in ("reason", "uncertainty", "exploration_weight"):
        assert getattr(one, name) == getattr(other, name), name
    if one.mixture is None:
        assert other.mixture is None
        return
    assert_same_bits(one.mixture.weights, other.mixture.weights)
    for policy, same in zip(one.mixture.policies, other.mixture.policies, strict=True):
        assert_same_bits(policy.probabilities, same.probabilities)
    assert_same_bits(one.certificate.lower_bounds, other.certificate.lower_bounds)


def wandering(model, rng, length):
    """An episode that keeps coming back to state 0, so that its rows meet many successors, several in one episode."""
    states = rng.integers(model.num_states, size=length + 1)
    states[::2] = np.where(rng.random(states[::2].shape) < 0.8, 0, states[::2])
    states[0] = 0
    return s2r.Trajectory.of(model, states, rng.integers(model.num_actions, size=length) * (states[:-1] > 0), partial=True)


def counted_by_hand(model, learner, episodes):
    """n(row, successor) as a plain table beside what the learner has kept: nothing was lost, nothing in another row."""
    tally, size = learner.evidence.counts.tally, model.num_states * model.num_actions
    expected = np.zeros((model.kernel.num_rows, model.num_states), dtype=np.int64)
    for episode in episodes:
        steps = np.arange(episode.length) * (0 if model.kernel.is_stationary else size)
        rows = steps + episode.states[:-1].astype(int) * model.num_actions + episode.actions
        np.add.at(expected, (rows, episode.states[1:]), 1)
    found = np.zeros_like(expected)
    for row in range(model.kernel.num_rows):
        segment = slice(int(tally.begin[row]), int(tally.begin[row]) + int(tally.length[row]))
        found[row, tally.successor[segment]] += tally.count[segment]
        assert tally.length[row] <= tally.capacity[row]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(tally.visits, expected.sum(axis=1))
    seen = learner.evidence.belief.suspect & (tally.visits > 0)
    assert seen.any()
    modelled = learner.evidence.view().to_dense().reshape(expected.shape)
    np.testing.assert_allclose(modelled[seen], (expected / np.maximum(tally.visits, 1)[:, None])[seen], atol=1e-15)


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_many_at_once_are_the_same_as_one_by_one(seed, per_step):
    """Short episodes fill a segment to its brim, and the next one is long: room has to be made for the longest in time.

    Row (0, 0) meets 120 successors, its first segment has room for 1 + 12 + 4 of them (1 + 1 + 4 per step).
    """
    model, learner = make(120, 2, 12, per_step=per_step, seed=seed)
    rng = np.random.default_rng(seed)
    lengths = np.where(rng.random(300) < 0.85, 1, rng.integers(1, 13, size=300))
    lengths[rng.random(300) < 0.08] = 12
    episodes = [wandering(model, rng, int(length)) for length in lengths]
    first = make(120, 2, 12, per_step=per_step, seed=seed)[1]().evidence.counts.tally.capacity.max()
    at_once, in_parts, one_by_one, observed = (learner(warm_start=False) for _ in range(4))
    at_once.count(*laid_end_to_end(episodes))
    for begin in range(0, 300, 37):
        in_parts.count(*laid_end_to_end(episodes[begin : begin + 37]))
    for episode in episodes:
        one_by_one.count(*laid_end_to_end([episode]))
        observed.evidence.observe(episode)
    counted_by_hand(model, at_once, episodes)
    assert at_once.evidence.counts.tally.length[0] > 2 * first  # segments did overflow, more than once
    for other in (in_parts, one_by_one, observed):
        assert_same_model(at_once, other)
        assert_same_proposal(at_once.propose(), other.propose())
    assert at_once.round == 1


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("radius", [radii.Literal(), radii.Scaled(0.15)])
def test_counting_is_observing(radius, per_step):
    """Whole episodes through `observe`, which plans every round; the rule that clears rows is applied after each of them."""
    model, learner = make(5, 2, 6, per_step=per_step, rows="mixed", seed=3, radius=radius)
    real = model.with_kernel(make(5, 2, 6, per_step=per_step, rows="sparse", seed=4)[0].kernel)
    observing, counting = learner(warm_start=False), learner(warm_start=False)
    episodes = []
    for t in range(80):
        proposal = observing.propose()
        assert proposal.reason is not Reason.STOP
        kernel = model if t < 40 else real  # rows that are cleared by then go wrong: deletion is for good
        episodes.append(s2r.exploration.roll_out(kernel, proposal.draw(), seed=1, round_number=t))
        observing.observe(episodes[-1])
    counting.count(*laid_end_to_end(episodes))
    assert_same_model(observing, counting)
    assert_same_proposal(observing.propose(), counting.propose())
    assert counting.round == 1
    assert observing.round == 81
    cleared = ~counting.evidence.suspects
    if not radius.certified and not per_step:
        # Judged by what was seen in all, some of these rows would still be suspect.
        final = counting.evidence.distances + counting.evidence.radii > counting.evidence.rule.threshold
        assert (cleared & final).any()


@pytest.mark.parametrize("constraints", [0, 1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_without_a_warm_start_a_proposal_is_a_function_of_the_data_alone(constraints, seed):
    """Asked after every episode, after some, or only at the end: the same bits."""
    model, learner = make(6, 3, 5, constraints=constraints, rows="mixed", seed=seed, radius=radii.Scaled(0.1))
    real = model.with_kernel(make(6, 3, 5, constraints=constraints, rows="dense", seed=seed + 100)[0].kernel)
    always, sometimes, once = (learner(warm_start=False) for _ in range(3))
    rng, mixtures = np.random.default_rng(seed), 0
    for t in range(40):
        proposal = always.propose()
        mixtures += proposal.reason is Reason.MIXTURE
        if rng.random() < 0.3:
            assert_same_proposal(sometimes.propose(), proposal)
        policy = always.baseline if proposal.mixture is None else proposal.draw()
        episode = s2r.exploration.roll_out(real, policy, seed=seed, round_number=t)
        cut = int(rng.integers(1, 6))
        part = laid_end_to_end([s2r.Trajectory(episode.states[: cut + 1], episode.actions[:cut])])
        for one in (always, sometimes, once):
            one.count(*part)
    assert mixtures > 20
    assert once.propose() is once.propose()
    assert_same_proposal(once.propose(), always.propose())
    assert_same_proposal(once.propose(), sometimes.propose())


def test_counting_goes_on_after_the_stop_and_keeps_the_round():
    model, learner = make(2, 2, 3, constraints=0, calibrated_gap=0.0)
    stopped = learner(known=np.ones((2, 2), dtype=bool), warm_start=False)
    assert stopped.propose().reason is Reason.STOP
    whole = s2r.Trajectory.of(model, [0, 1, 0, 1], [0, 1, 0])
    stopped.count(*laid_end_to_end([whole, s2r.Trajectory(whole.states[:2], whole.actions[:1])]))
    assert (stopped.samples, stopped.round, stopped.evidence.counts.episodes) == (4, 1, 2)
    assert stopped.propose().reason is Reason.STOP


STATES, ACTIONS, ENDS = np.array([0, 1, 2, 3] * 2), np.array([0, 1, 0] * 2), np.array([0, 3, 6])


@pytest.mark.parametrize(
    "arrays",
    [
        (STATES[:7], ACTIONS, np.array([0, 6])),  # longer than an episode
        (np.append(STATES, 0), ACTIONS, np.array([0, 3, 3, 6])),  # one without a step
        (np.append(STATES, 0), ACTIONS, np.array([0, 3, 2, 6])),  # one backwards
        (STATES, ACTIONS, np.array([1, 3, 6])),
        (STATES, ACTIONS, np.array([0, 3, 5])),
        (STATES[:-1], ACTIONS, ENDS),
        (STATES, ACTIONS[:-1], ENDS),
        (np.where(STATES == 3, 4, STATES), ACTIONS, ENDS),
        (STATES, ACTIONS + 2, ENDS),
    ],
)
def test_what_does_not_divide_into_episodes_is_refused_and_changes_nothing(arrays):
    _, learner = make(4, 2, 3)
    counting = learner(warm_start=False)
    counting.count(STATES, ACTIONS, ENDS)
    before = counting.propose()
    with pytest.raises(s2r.errors.InvalidInput):
        counting.count(*arrays)
    assert counting.samples == 6
    assert counting.propose() is before
