"""Systems s' = f(s, a, w): rows, ties and numbers by hand, environments in these numbers, and every slip by name."""

import gymnasium
import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput, OutsideModel
from safe2real.problem.ties import laws_of
from safe2real.systems.finite import from_gymnasium
from tests.refusals import assert_helpful

RAIN = (0, 1, 2)


def filled(level, out, rain):
    return min(3, max(0, level - out) + rain)


NOISE = ("classes", "exact", "reported")


def pond(**changes):
    given = {
        "states": range(4),
        "actions": (0, 1),
        "noise": RAIN,
        "step": filled,
        "noise_law": [0.5, 0.3, 0.2],
        "horizon": 4,
        "start": 1,
        "cost": lambda level, out: level == 3,
        "limit": 2.0,
    }
    given |= changes
    parts = [given.pop(name) for name in ("states", "actions", "step")]
    noise = s2r.Noise(given.pop("noise"), given.pop("noise_law"), **{n: given.pop(n) for n in NOISE if n in given})
    horizon, reward = given.pop("horizon"), given.pop("reward", None)
    return s2r.from_dynamics(*parts, noise, horizon, s2r.SystemDescription(**given), reward=reward)


def test_rows_are_the_law_pushed_through_the_step():
    made = pond()
    rows = made.model.kernel.to_dense()
    np.testing.assert_allclose(rows[1, 0], [0.0, 0.5, 0.3, 0.2])
    np.testing.assert_allclose(rows[1, 1], [0.5, 0.3, 0.2, 0.0])
    np.testing.assert_allclose(rows[3, 0], [0.0, 0.0, 0.0, 1.0])  # full: three kinds of rain look alike
    np.testing.assert_allclose(laws_of(made.ties, made.model.kernel), [[0.5, 0.3, 0.2]])
    assert made.ties.label_names == ("0", "1", "2")
    np.testing.assert_array_equal(made.ties.successors[2, 1], [1, 2, 3])
    np.testing.assert_array_equal(made.where(lambda level: level < 2)[:, 0], [1.0, 1.0, 0.0, 0.0])
    assert made.model.start.argmax() == 1


def test_classes_states_and_laws_go_by_the_users_own_names():
    cells = [(row, column) for row in range(2) for column in range(2)]
    made = s2r.from_dynamics(
        cells,
        ("go", "wait"),
        lambda cell, action, w: (cell[0], 1 - cell[1]) if (action, w) == ("go", "grip") else cell,
        s2r.Noise(
            ("slip", "grip"),
            {"ice": {"slip": 0.75, "grip": 0.25}, "sand": [0.0, 1.0]},
            classes=lambda cell, action: ("ice", "sand")[cell[0]],
        ),
        3,
        s2r.SystemDescription(start=(0, 0)),
    )
    np.testing.assert_array_equal(made.ties.classes, [[0, 0], [0, 0], [1, 1], [1, 1]])
    assert made.ties.class_names == ("ice", "sand")
    assert made.translation.begin((1, 0)) == made.states.index((1, 0)) == 2
    assert made.translation.action_of(1) == "wait"
    np.testing.assert_allclose(made.model.kernel.to_dense()[0, 0], [0.75, 0.25, 0.0, 0.0])
    np.testing.assert_allclose(made.model.kernel.to_dense()[2, 0], [0.0, 0.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"noise_law": [0.5, 0.3, 0.1]}, "noise.law sums to 0.9"),
        ({"noise_law": [0.5, 0.5]}, r"noise.law has shape \(2,\); give one probability for each of the 3"),
        ({"noise_law": {0: 0.5, 3: 0.5}}, "noise.law has a probability for 3, which is no noise"),
        ({"classes": lambda s, a: s}, "noise.law is .*; with classes give a mapping"),
        ({"classes": lambda s, a: s, "noise_law": {0: [1, 0, 0]}}, "noise.law has no law for the class 1"),
        ({"classes": lambda s, a: {s}}, r"noise.classes\(0, 0\) is \{0\}; name it"),
        ({"step": lambda s, a, w: s + w}, r"step\(2, 0, 2\) is 4, which is none of the 4 states"),
        ({"step": lambda s, a, w: None if w == 2 else s}, "noise.law gives label 2 the probability 0.2 in state 0"),
        ({"step": lambda s, a, w: None if (s, w) == (1, 2) else s}, r"ties.successors\[\d, 0, 2\] says that 2 can"),
        ({"step": lambda s: s}, "step is called with"),
        ({"states": [0, 1, 1]}, "states is .*; list each of them once"),
        ({"start": 9}, "start is 9, which is none of the 4"),
        ({"cost": lambda s, a: 2.0}, "2; utilities lie|costs? .*"),
        ({"limit": None}, "a cost is given without its limit"),
        ({"reward": np.zeros(3)}, r"reward has shape \(3,\); give a function"),
    ],
)
def test_slips_are_said_by_place_value_and_cure(changes, words):
    with pytest.raises(InvalidInput) as caught:
        pond(**changes)
    assert_helpful(caught.value, words)


class Pond(gymnasium.Env):
    """The real one: it rains more than the simulator says, and the episode says how much."""

    observation_space = gymnasium.spaces.Discrete(4)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, tell=lambda rain: rain, step=filled):
        self.tell, self.fill = tell, step

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level = 1
        return np.int64(self.level), {}

    def step(self, action):
        rain = int(self.np_random.choice(RAIN, p=[0.2, 0.3, 0.5]))
        self.level = self.fill(self.level, action, rain)
        return np.int64(self.level), 0.0, False, False, {"noise": self.tell(rain)}


def test_a_running_environment_is_seen_in_these_numbers_and_its_noise_is_held_against_the_step():
    env = pond().as_env(Pond())
    state, _ = env.reset(seed=0)
    assert state == 1
    for _ in range(4):
        before = state
        state, _, terminated, truncated, info = env.step(1)
        assert state == filled(before, 1, info["noise"])
        assert not terminated
    assert truncated
    with pytest.raises(InvalidInput, match=r"info\['noise'\] is 7, which is none of the 3"):
        run(pond().as_env(Pond(tell=lambda rain: 7)))
    with pytest.raises(OutsideModel, match=r"reported the noise \d, which leads to state \d; the step that was declared"):
        run(pond().as_env(Pond(tell=lambda rain: (rain + 1) % 3)))
    with pytest.raises(OutsideModel, match=r"an observation is .*9.*none of the 4 states"):
        run(pond().as_env(Pond(step=lambda level, out, rain: 9)))


def run(env):
    env.reset(seed=0)
    for _ in range(4):
        env.step(1)


def test_ties_of_an_environment_are_those_of_its_copies_too():
    walk = gymnasium.make("CliffWalking-v1", is_slippery=False)
    table = walk.unwrapped.P
    leads = np.array([[[table[s][a][0][1]] for a in range(4)] for s in range(48)])
    ties = s2r.problem.Ties(np.zeros((48, 4), dtype=int), leads)
    falls = s2r.SystemDescription(cost=lambda s, a, t, r, over: r == -100, limit=1.0, ended=0)
    fell = from_gymnasium(walk, 6, falls, ties=ties)
    copies, origin = fell.copies, fell.origin
    (back,) = np.flatnonzero(copies != np.arange(copies.size))  # the start, entered by a fall
    assert origin[back] == 36 == origin[copies[back]]
    np.testing.assert_array_equal(fell.ties.successors[back], fell.ties.successors[copies[back]])
    assert (fell.ties.successors[24, 2] == back) or fell.ties.successors[25, 2, 0] == back
    assert (np.asarray(fell.ties.classes)[fell.known] == -1).all()
    with pytest.raises(InvalidInput, match=r"ties.classes has shape \(3, 4\); .*environment, \(48, 4\)"):
        from_gymnasium(walk, 6, ties=s2r.problem.Ties(np.zeros((3, 4), dtype=int), leads[:3]))


def pond_learner(**given):
    made = pond(reported=True, exact=True, **given)
    settings = s2r.Settings(margin=0.5, calibrated_gap=0.0, mismatch_gap=0.3, tolerance=0.1)
    baseline = s2r.MarkovPolicy.deterministic([1, 1, 1, 1], num_actions=2, horizon=4)
    return made, s2r.Learner(s2r.Problem(made.model, baseline, settings, ties=made.ties))


def test_noise_that_an_environment_reports_is_counted_where_the_successor_does_not_tell():
    made, learner = pond_learner()
    s2r.explore(learner, made.as_env(Pond()), max_rounds=10)
    evidence = learner.evidence
    (unit,) = np.flatnonzero(evidence.pooling.classes >= 0)
    assert evidence.unit_model.counts.tally.visits[unit] == 40  # every step
    assert learner.samples == 40


def test_an_environment_that_stops_reporting_is_refused():
    made, learner = pond_learner()
    silent = Pond()
    silent.step = lambda action, step=silent.step: (*step(action)[:4], {})
    with pytest.raises(InvalidInput, match=r"info\['noise'\] is None, and the ties say that every step reports"):
        s2r.explore(learner, made.as_env(silent), max_rounds=10)
    made, learner = pond_learner()
    actions = learner.propose().draw().probabilities[:, 1].argmax(axis=-1)  # in state 1, where the pond stays
    with pytest.raises(InvalidInput, match="every episode reports its labels, and this one has none"):
        learner.observe(s2r.Trajectory.of(made.model, [1, 1, 1, 1, 1], actions))
    assert (learner.samples, learner.round) == (0, 1)


@pytest.mark.parametrize(
    "changes",
    [
        ({"states": 5}, "states is 5; list them"),
        ({"noise": None}, "noise is None; list them"),
        ({"actions": "ab"}, "actions is 'ab'; list them"),
        ({"cost": lambda level, out: None}, r"cost\(0, 0\)"),
        ({"reward": lambda level, out: "much"}, r"reward\(0, 0\)"),
        ({"cost": lambda level, out: [0.0, 1.0]}, r"cost\(0, 0\) has shape"),
        ({"name": ""}, "name is ''"),
        ({"name": 3}, "name is 3"),
        (
            {"classes": lambda level, out: "wet", "noise_law": {"wet": [0.5, 0.3, 0.2], "dry": [1.0, 0.0, 0.0]}},
            "noise.law has a law for 'dry', which noise.classes names for no state",
        ),
    ],
)
def test_what_is_no_system_is_refused_by_name(changes):
    given, words = changes
    with pytest.raises(InvalidInput, match=words):
        pond(**given)


def test_ties_of_an_environment_that_are_none_are_refused():
    with pytest.raises(InvalidInput, match=r"ties is a str; give Ties\(classes, successors\)"):
        from_gymnasium(gymnasium.make("FrozenLake-v1"), 4, ties="x")
