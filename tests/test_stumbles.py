"""Small things that new users stumbled over, each with what is said or done now."""

import re

import gymnasium
import numpy as np
import pytest

import safe2real as s2r
from safe2real.campaign.leases import Lease, notices_of
from safe2real.errors import InvalidInput
from safe2real.exploration.episode_log import seen_from
from safe2real.exploration.forecast import Forecast, forecast
from safe2real.methods.base import Reason
from tests.preflight.specs import tiny


def test_a_short_episode_is_to_be_told_as_partial_not_filled_up(tmp_path):
    problem = tiny()
    with s2r.Campaign.create(tmp_path / "c.db", problem, lease=60.0) as campaign:
        out = campaign.ask(worker="arm")
        for short in (lambda: campaign.tell(out.id, {"states": [0, 0], "actions": [0]}),
                      lambda: s2r.Trajectory.of(problem.simulator, [0, 0], [0])):  # fmt: skip
            with pytest.raises(InvalidInput, match=r"cut short, tell .* partial=True \(--partial .* do not fill it up"):
                short()
        with pytest.raises(InvalidInput) as too_long:
            s2r.Trajectory.of(problem.simulator, [0] * 5, [0] * 4)
        assert "partial" not in str(too_long.value)
        assert campaign.tell(out.id, {"states": [0, 0], "actions": [0]}, partial=True).new


def test_a_misspelt_setting_is_answered_with_the_nearest_one():
    with pytest.raises(InvalidInput, match=r"Settings has an unknown key 'tolerence' .did you mean 'tolerance'"):
        s2r.Settings(margin=1.0, calibrated_gap=0.0, mismatch_gap=0.5, tolerence=0.25)
    with pytest.raises(InvalidInput, match="did you mean 'margin'"):
        s2r.Settings.paper(margins=1.0, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.25)
    with pytest.raises(TypeError, match="tolerance"):
        s2r.Settings(margin=1.0, calibrated_gap=0.0, mismatch_gap=0.5)


def test_one_number_for_each_state_is_a_cost_a_utility_and_a_reward():
    kernel = s2r.Kernel.from_dense(np.full((3, 2, 3), 1.0 / 3.0))
    cost = [0.0, 1.0, 0.5]
    model = s2r.CMDP.of(kernel, 4, 0, [s2r.AtMost(cost, 2.0, "falls"), s2r.AtLeast(cost, 1.0, "fun")])
    assert model.utilities[:, 0, :, 1].tolist() == [[1.0, 0.0, 0.5], cost]
    assert s2r.evaluate(model, s2r.MarkovPolicy.uniform(horizon=4, num_states=3, num_actions=2), cost) == pytest.approx(1.5)
    learner = s2r.Learner(tiny())
    plan, same = learner.plan([0.0, 1.0]), learner.plan([[0.0, 0.0], [1.0, 1.0]])
    assert (plan.value, plan.bound) == (same.value, same.bound)
    declared = s2r.Learner(tiny(), s2r.methods.ForRewards({"floor": [0.0, 1.0]}))
    assert declared.intervals()[0].reward.shape == (1, 2, 2)
    with pytest.raises(InvalidInput, match=r"give \(S, A\) = .* or \(2,\), one number for each state"):
        learner.plan([0.0, 1.0, 0.0])


@pytest.mark.parametrize("size", [3, 400])
def test_tables_of_float32_are_accepted_and_made_to_sum_to_one(size):
    rows = np.random.default_rng(0).random((size, 2, size)).astype(np.float32)
    rows /= rows.sum(axis=2, keepdims=True)
    assert np.abs(rows.astype(float).sum(axis=2) - 1.0).max() > 1e-9
    for given in (rows, rows.tolist() if size < 10 else rows):
        kernel = s2r.Kernel.from_dense(given)
        totals = np.array([kernel.row(row)[1].sum() for row in range(kernel.num_rows)])
        assert np.abs(totals - 1.0).max() < 1e-12
    policy = s2r.MarkovPolicy.stochastic(np.full((1, 2, 3), np.float32(1.0) / np.float32(3.0)))
    assert policy.probabilities.sum(axis=2) == pytest.approx(1.0, abs=1e-15)
    with pytest.raises(InvalidInput, match="sums to"):
        s2r.Kernel.from_dense(np.array([[[0.5, 0.4999]], [[0.0, 1.0]]], dtype=np.float32))
    with pytest.raises(InvalidInput, match="sums to"):  # of doubles, it is a slip
        s2r.Kernel.from_dense(np.array([[[0.3, 0.7 + 5e-8]], [[0.0, 1.0]]]))


def test_whole_floats_are_whole_numbers_in_python_and_in_json():
    model = tiny().simulator
    python = s2r.Trajectory.of(model, [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0])
    json = seen_from(model, {"states": [0.0, 0, 0, 0], "actions": [0.0, 0, 0]}, "the episode", partial=False)
    assert json.path.states.tolist() == python.states.tolist()
    assert json.to_json() == {"states": [0, 0, 0, 0], "actions": [0, 0, 0]}
    for odd in (0.5, True, None, float("nan")):
        with pytest.raises(InvalidInput, match=r"actions\[0\] is"):
            seen_from(model, {"states": [0, 0, 0, 0], "actions": [odd, 0, 0]}, "the episode", partial=False)


def test_an_early_forecast_says_how_little_it_is_worth():
    early = forecast(s2r.Learner(tiny()))
    assert early.undecided == early.rows == 4
    assert "4 of 4 rows are open still and taken to be as the simulator says" in early.caution
    assert "several times as long" in early.caution
    assert Forecast(10, 30).caution == ""


def test_status_says_who_holds_others_up_and_when_that_ends(tmp_path):
    with s2r.Campaign.create(tmp_path / "c.db", tiny()) as campaign:
        first, second = campaign.ask(worker="gone"), campaign.ask(worker="arm")
        campaign.tell(second.id, s2r.Trajectory.of(tiny().simulator, [0] * 4, [0] * 3))
        waiting, never = campaign.status(forecast=False).notices
        assert waiting.startswith(f"1 episode waits to be counted until {first.id} is told, which gone has had for 0 s.")
        assert waiting.endswith(f"abandon {first.id}")
        assert "has no lease: a deployment stays out until it is told or abandoned" in never
        campaign.abandon(first.id, "the machine is gone")
        assert campaign.status(forecast=False).notices == ()
    held, since, at = [("x-1", "arm", "2026-01-01T00:00:00+00:00")], None, "2026-01-01T05:00:00+00:00"
    assert notices_of(held, since, 0, Lease(60.0, True), at) == (
        "what is out for more than its lease of 60 s is taken back at the next ask",
    )
    assert "nothing takes it back" in notices_of(held, since, 0, Lease(60.0, False), at)[0]
    assert "for 5.0 hours" in notices_of(held, "x-1", 2, None, at)[0]


# A system of equations whose states are tuples

HOURS, LEVELS = range(4), range(4)
CELLS = [(hour, level) for hour in HOURS for level in LEVELS]
LAWS = {"day": [0.8, 0.2], "evening": [0.6, 0.4]}


def sold(state, action):
    return float(action == 1 and state[1] > 0)


def after(state, action, demand):
    level = min(3, state[1] + 1) if action == 0 else max(0, state[1] - 1)
    return (state[0] + 1) % 4, max(0, level - demand)


def part_of_day(state, action):
    return "evening" if state[0] == 3 else "day"


def battery(**changes):
    given = {"classes": part_of_day, "reward": sold, **changes}
    noise = s2r.Noise((0, 1), LAWS, classes=given["classes"], exact=True)
    empty = s2r.SystemDescription(
        start=(0, 2), cost=lambda state, action: state[1] == 0, limit=3.0, counts_end=True,
        state_names=[f"{hour}h level {level}" for hour, level in CELLS],
    )  # fmt: skip
    return s2r.from_dynamics(CELLS, (0, 1), after, noise, 4, empty, reward=given["reward"])


def battery_problem(system, **changes):
    charge = s2r.MarkovPolicy.deterministic([0] * 16, num_actions=2, horizon=4)
    settings = s2r.Settings(margin=1.0, calibrated_gap=0.0, mismatch_gap=0.0, tolerance=0.25, seed=0)
    return s2r.Problem(
        **{"simulator": system.model, "baseline": charge, "settings": settings, "ties": system.ties} | changes
    )


class Battery(gymnasium.Env):
    """The real one, whose observations are (hour, level)."""

    observation_space, action_space = gymnasium.spaces.MultiDiscrete([4, 4]), gymnasium.spaces.Discrete(2)

    def __init__(self, first=(0, 2)):
        self.first = first

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.first
        return np.array(self.state), {}

    def step(self, action):
        demand = int(self.np_random.random() < LAWS[part_of_day(self.state, action)][1])
        self.state = after(self.state, action, demand)
        return np.array(self.state), 0.0, False, False, {}


@pytest.mark.parametrize(
    ("slip", "fix"),
    [
        (lambda one: battery(classes=None), r"'day'.*give Noise\(\.\.\., classes=\)"),
        (lambda one: battery_problem(one, simulator=one), r"simulator is a Dynamics; give its model, system\.model"),
        (lambda one: battery_problem(one, simulator=one.system), r"FiniteSystem; give its model, system\.model"),
        (lambda one: battery_problem(one, simulator=Battery()), r"Battery; make a system of the environment first"),
        (lambda one: s2r.explore(s2r.Learner(battery_problem(one)), Battery(), max_rounds=1), r"system\.as_env\(env\)"),
        (lambda one: s2r.Learner(battery_problem(one)).plan("sold"), r"'sold'; give \[S\], \[S, A\] or \[H, S, A\]"),
        (
            lambda one: s2r.Learner(battery_problem(one)).plan(sold),
            r"system\.unit_reward, system\.where\(\.\.\.\), or a list",
        ),
        (lambda one: s2r.methods.ForRewards({"sold": sold}), r"rewards\.sold is .*a list over system\.states"),
        (lambda one: s2r.MarkovPolicy.deterministic(sold, num_actions=2, horizon=4), r"actions is a function; list it over"),
        (
            lambda one: battery_problem(one, baseline=s2r.MarkovPolicy.uniform(horizon=4, num_states=4, num_actions=2)),
            r"\(4, 16, 2\); give one action for each entry of the system's states",
        ),
        (
            lambda one: s2r.explore(s2r.Learner(battery_problem(one)), one.as_env(Battery((0, 1))), max_rounds=1),
            r"showed '0h level 1' \(state 1\); episodes of the model start in '0h level 2' \(state 2\)",
        ),
    ],
)
def test_an_error_of_a_system_of_equations_names_the_fix(slip, fix):
    with pytest.raises(InvalidInput, match=fix):
        slip(battery())


def test_a_printed_system_says_what_a_problem_of_it_needs():
    assert "ties=system.ties" in repr(battery())
    assert "no reward" not in repr(battery())
    silent = battery(reward=None)
    assert "no reward" in repr(silent)
    assert not silent.unit_reward.any()
    assert battery().unit_reward[2].tolist() == [0.0, 1.0]


def test_a_proposal_and_an_interval_say_how_far_the_goal_is():
    system = battery()
    learner = s2r.Learner(battery_problem(system), s2r.methods.ForRewards({"sold": system.unit_reward}, accuracy=0.3))
    (interval,) = learner.intervals()
    assert repr(interval).startswith("Interval('sold': at least ")
    assert repr(interval).endswith(" not met)")
    assert len(repr(interval)) < 120
    assert re.search(r": 'sold' within [\d.]+ of the best \(asked [\d.]+\)\)", repr(learner.propose()))
    last = s2r.explore(learner, system.as_env(Battery()), max_rounds=400)
    assert last.reason is Reason.STOP
    assert repr(learner.intervals()[0]).endswith(" met)")
    assert re.search(r"stop: 'sold' within [\d.]+ of the best \(asked [\d.]+\)\)", repr(last))
    wary = s2r.Learner(battery_problem(system)).propose()
    assert re.search(r"uncertainty [\d.]+ \(stops at 0.25\)|the data certify no candidate", repr(wary))
