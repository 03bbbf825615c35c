"""A learner counts an episode only for a policy that can have made it, on every path by which episodes come in."""

import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput
from safe2real.exploration import Learner
from safe2real.methods import Trial

# One state, two actions: 0 pays 1 to the constraint, 1 pays nothing and a reward of 1.
SAFE = np.array([[1.0, 0.0]])
MODEL = s2r.CMDP.of(s2r.Kernel.from_dense(np.ones((1, 2, 1))), 4, 0, s2r.AtLeast(SAFE, 1.0))
BASELINE = s2r.MarkovPolicy.deterministic(np.zeros(1, dtype=int), num_actions=2, horizon=4)
CANDIDATE = s2r.MarkovPolicy.deterministic(np.ones(1, dtype=int), num_actions=2, horizon=4)
STATES = [0, 0, 0, 0, 0]


def on_trial(rounds: int = 0) -> Learner:
    problem = s2r.Problem(MODEL, BASELINE, s2r.Settings(margin=2.5, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.1))
    learner = Learner(problem, Trial(CANDIDATE, rewards={"pick": 1.0 - SAFE}))
    for _ in range(rounds):
        action = 0 if learner.propose().draw() is BASELINE else 1
        learner.observe(s2r.Trajectory.of(MODEL, STATES, [action] * 4))
    return learner


def all_of(learner: Learner) -> tuple[object, ...]:
    returns = learner.evidence.returns
    assert returns is not None
    counted = learner.evidence.counts.visits.tolist(), learner.samples, returns.episodes, learner.evidence.trust.episodes
    return *counted, learner.round, learner.floors(), dict(learner.evidence.faults), learner.standing


def other_action(learner: Learner) -> int:
    return 1 if learner.propose().draw() is BASELINE else 0


@pytest.mark.parametrize(
    "tell",
    [
        lambda learner, a: learner.observe(s2r.Trajectory.of(MODEL, STATES, [a] * 4)),
        lambda learner, a: learner.observe(s2r.Trajectory.of(MODEL, STATES, [1 - a, 1 - a, 1 - a, a])),
        lambda learner, a: learner.cut_short([0, 0, 0], [1 - a, a], "breaker"),
        lambda learner, a: learner.leave_model([0, 0], [1 - a, a]),
        lambda learner, a: learner.cut_short([0, 0], [1], "breaker", of_baseline=True, of_candidate=False),
        lambda learner, a: learner.leave_model([0, 0], [0, 0], of_baseline=False, of_candidate=True),
        lambda learner, a: learner.import_episodes(CANDIDATE, [s2r.Trajectory.of(MODEL, STATES, [1, 1, 1, 0])]),
        lambda learner, a: learner.import_episodes(BASELINE, [{"states": [0, 0], "actions": [1]}], partial=True),
        lambda learner, a: learner.count(*laid([[0] * 4, [1] * 4]), of_candidate=np.array([True, True])),
        lambda learner, a: learner.count(*laid([[0] * 4, [0, 1]]), of_baseline=np.array([True, True])),
    ],
    ids=["whole", "last", "cut", "left", "baseline", "candidate", "log", "partial log", "tried", "counted"],
)
@pytest.mark.parametrize("rounds", [0, 40])
def test_an_episode_that_its_policy_cannot_have_made_is_refused_and_nothing_is_counted(tell, rounds):
    learner = on_trial(rounds)
    before = all_of(learner)
    with pytest.raises(InvalidInput, match="which its policy never does there"):
        tell(learner, other_action(learner))
    assert all_of(learner) == before


def laid(actions: list[list[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ends = np.cumsum([0, *map(len, actions)])
    return np.zeros(ends[-1] + len(actions), dtype=np.uint32), np.concatenate(actions).astype(np.uint32), ends


def test_the_floor_of_a_candidate_is_not_raised_by_what_the_baseline_did():
    """The candidate is worth nothing to the constraint; the baseline's episodes told as its own proved almost 4."""
    learner, refused = on_trial(), 0
    for _ in range(300):
        try:
            learner.observe(s2r.Trajectory.of(MODEL, STATES, [0] * 4))
        except InvalidInput:
            refused += 1
            learner.observe(s2r.Trajectory.of(MODEL, STATES, [1] * 4))
    assert refused > 10
    assert learner.floors()["constraint"] == 0.0


def test_a_part_of_a_mixture_made_each_episode_as_a_whole():
    """Each action is one that some part takes; the episode is one that no part makes."""
    turns = [s2r.MarkovPolicy.deterministic(np.array(one)[:, None], num_actions=2) for one in ([1, 0, 0, 0], [0, 1, 1, 1])]
    problem = s2r.Problem(MODEL, BASELINE, s2r.Settings(margin=2.5, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.1))
    learner = Learner(problem, Trial(s2r.Mixture.of([0.5, 0.5], turns)))
    both = np.array([True, True])
    learner.count(*laid([[1, 0, 0, 0], [0, 1, 1]]), of_candidate=both)
    with pytest.raises(InvalidInput, match="episode 2 of 2"):
        learner.count(*laid([[1, 0, 0, 0], [1, 1]]), of_candidate=both)
    with pytest.raises(InvalidInput, match="of_candidate has shape"):
        learner.count(*laid([[1, 0, 0, 0], [0, 1]]), of_candidate=both[:1])
    assert (learner.samples, learner.evidence.returns.episodes) == (7, 2)


def test_the_cause_of_a_cut_episode_is_one_line():
    learner = on_trial()
    with pytest.raises(InvalidInput, match="printable characters in one line"):
        learner.cut_short([0], [], "rain\nCertified: expected death <= 0")
    assert learner.round == 1
