"""A policy without a table on trial: numbers by hand, what is never lost, what is refused, and how often it is wrong."""

import json

import numpy as np
import pytest

from safe2real import PolicyTrial
from safe2real.errors import Conflict, Halted, InvalidInput, OutOfOrder, OutsideModel, Stopped
from safe2real.evidence.mean_bounds import mean_bounds
from safe2real.exploration import TrialTerms, trial_run
from safe2real.exploration.proposal import coin_of
from safe2real.standing import AssumptionCode, DoubtCode, Standing


def trial_on(path=None, **terms):
    return PolicyTrial(TrialTerms(**terms), path=path)


COST = {"limit": 4.0, "margin": 1.0, "high": 10.0, "name": "cost"}
REWARD = {"rewards": {"return": (-20.0, 0.0)}}
OTHER = {"candidate": "baseline", "baseline": "candidate"}


def told(trial, episodes, cost, reward=-5.0):
    for _ in range(episodes):
        turn = trial.ask()
        trial.tell(cost(turn), {"return": reward} if trial.terms.rewards else None)
    return trial


def test_a_cost_and_its_threshold_are_the_same_trial():
    by_cost = trial_on(**COST, seed=0)
    by_utility = trial_on(threshold=6.0, margin=1.0, high=10.0, seed=0)
    for _ in range(60):
        one, other = by_cost.ask(), by_utility.ask()
        assert (one.policy, one.share) == (other.policy, pytest.approx(other.share))
        by_cost.tell(2.0)
        by_utility.tell(8.0)
    assert by_cost.floors["cost"] == pytest.approx(10.0 - by_utility.floors["constraint"])
    assert "expected cost <= " in by_cost.certificate().describe()
    assert "(limit 4)" in by_cost.certificate().describe()
    assert "expected constraint >= " in by_utility.certificate().describe()


def test_the_numbers_are_those_of_the_bound_on_the_candidates_own_values():
    trial = trial_on(**COST, **REWARD, seed=3)
    assert trial.ask().share == pytest.approx(1.0 / (1.0 + 6.0))  # the candidate may cost 10, the baseline costs 3
    rng, mine, best = np.random.default_rng(0), [], 0.0
    for number in range(1, 120):
        turn = trial.ask()
        assert turn is trial.ask()
        assert turn.policy == ("candidate" if coin_of(3, number) < turn.share else "baseline")
        cost = float(rng.choice([0.0, 1.0, 5.0]))
        if turn.policy == "candidate":
            mine.append(10.0 - cost)
            best = max(best, mean_bounds(mine, 0.05 / 4, high=10.0)[0])
        trial.tell(cost, {"return": -5.0})
    assert trial.floors["cost"] == pytest.approx(10.0 - best, abs=0.02)
    assert trial.share == pytest.approx(1.0 / (1.0 + max(0.0, 6.0 - best)), abs=0.01)
    assert trial.certificate().holds
    mixed = trial.share * (10.0 - trial.floors["cost"]) + (1 - trial.share) * 7.0
    assert trial.certificate().lower_bounds[0] == pytest.approx(mixed)
    assert -20.0 < trial.floors["return"] < -5.0
    codes = {one.code for one in trial.certificate().assumptions}
    wanted = ("MARGIN", "RANGE", "INDEPENDENT", "COUNTED", "EVENT")
    assert codes == {AssumptionCode[name] for name in wanted}


def test_it_is_kept_before_and_after_every_episode(tmp_path):
    place = tmp_path / "trial.json"
    trial = told(trial_on(**COST, **REWARD, path=place), 50, lambda turn: 1.0 + turn.number % 3)
    again, beside = PolicyTrial.load(place), PolicyTrial.load(place, keep=False)
    assert again.floors == trial.floors
    assert again.episodes == trial.episodes
    assert again.ask().policy == beside.ask().policy
    with pytest.raises(Conflict, match=r"PolicyTrial\.load"):
        trial_on(**COST, path=place)
    while again.ask().policy == "baseline":
        again.tell(2.0, {"return": -5.0})
    before = PolicyTrial.load(place, keep=False).episodes["candidate"]  # the file says that one is out
    assert before == again.episodes["candidate"] + 1
    lost = PolicyTrial.load(place)  # the program died with it
    assert lost.floors == again.floors  # a bound never falls, but it costs:
    assert lost.episodes["candidate"] == again.episodes["candidate"] + 1
    assert json.loads(place.read_text())["told"][-1] == ["candidate", None, {}]


def test_two_processes_do_not_overwrite_each_other(tmp_path):
    place = tmp_path / "trial.json"
    first = told(trial_on(**COST, path=place), 5, lambda turn: 1.0)
    first.ask()
    second = PolicyTrial.load(place)  # in its eyes the first one is gone, and what was out counts for the worst
    told(second, 3, lambda turn: 2.0)
    kept, before = place.read_bytes(), first.episodes
    for refused in (lambda: first.tell(1.0), lambda: first.save(place)):
        with pytest.raises(Conflict, match=r"was written by another process .* PolicyTrial\.load"):
            refused()
    assert place.read_bytes() == kept
    assert first.episodes == before
    assert [value for _, value, _ in json.loads(kept)["told"]] == [1.0] * 5 + [None] + [2.0] * 3
    told(second, 1, lambda turn: 2.0)
    one, other = PolicyTrial.load(place), PolicyTrial.load(place)
    one.ask()
    with pytest.raises(Conflict, match="another process"):
        other.ask()  # the same episode would be run, and told, twice
    place.unlink()
    with pytest.raises(Conflict, match="was removed since"):
        one.tell(1.0)
    one.save(tmp_path / "elsewhere.json")
    assert sum(PolicyTrial.load(tmp_path / "elsewhere.json").episodes.values()) == 11


@pytest.mark.parametrize(
    "change",
    [
        lambda good: {"told": [*good["told"][:2], [OTHER[good["told"][2][0]], 1.0, {}]]},
        lambda _: {"told": [["baseline", 9.0, {"return": 1.0}]]},
        lambda _: {"told": [["baseline", "much", {}]]},
        lambda _: {"told": [["baseline", 9.0, [1.0]]]},
        lambda _: {"told": [["baseline", 9.0]]},
        lambda _: {"told": [1]},
        lambda _: {"kind": "something"},
        lambda _: {"terms": {"margin": 1.0}},
        lambda good: {"terms": good["terms"] | {"delta": 2.0}},
    ],
)
def test_a_file_that_was_changed_is_refused(tmp_path, change):
    place = tmp_path / "trial.json"
    told(trial_on(**COST, path=place), 5, lambda turn: 1.0)
    good = json.loads(place.read_text())
    place.write_text(json.dumps(good | change(good)))
    with pytest.raises(InvalidInput):
        PolicyTrial.load(place)
    with pytest.raises(InvalidInput, match="cannot be read"):
        PolicyTrial.load(tmp_path / "nothing.json")


def test_what_nobody_saw_counts_for_the_worst():
    sure, unsure = (told(trial_on(**COST, **REWARD, seed=0), 80, lambda turn: 1.0) for _ in range(2))
    for trial, value in ((sure, 1.0), (unsure, None)):
        for _ in range(40):
            trial.ask()
            trial.tell(value, {"return": -5.0} if value else None)
    assert unsure.episodes == sure.episodes
    assert unsure.floors["cost"] > sure.floors["cost"]
    assert unsure.floors["return"] < sure.floors["return"]
    assert not unsure.halted  # of the baseline nothing bad was seen


def test_a_margin_that_is_not_there_halts():
    trial = trial_on(**COST)
    with pytest.raises(Halted):
        told(trial, 2_000, lambda turn: 6.0 if turn.policy == "baseline" else 1.0)
    assert trial.certificate().standing is Standing.REFUTED
    assert "REFUTED" in trial.certificate().describe()


def test_it_stops_at_its_target():
    trial = trial_on(**COST, **REWARD, target={"return": -8.0})
    with pytest.raises(Stopped):
        told(trial, 5_000, lambda turn: 1.0)
    assert trial.floors["return"] >= -8.0
    assert trial.share == 1.0


def test_at_its_stop_it_says_what_is_certified_of_the_candidate_alone():
    """The reward's floor is there long before the cost's: a stop by the one says nothing of the other."""
    early, late = (trial_on(**COST, **REWARD, target={"return": goal}, seed=0) for goal in (-15.0, -5.5))
    with pytest.raises(Stopped, match=r"ALONE IS NOT CERTIFIED .* only expected cost <= [6-9]\.\d+ \(limit 4\)"):
        told(early, 5_000, lambda turn: 1.0)
    assert early.floors["cost"] > 4.0
    with pytest.raises(Stopped, match=r"The candidate alone is certified: expected cost <= [12]\.\d+ \(limit 4\)"):
        told(late, 20_000, lambda turn: 1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"limit": 4.0, "threshold": 2.0}, "either a threshold"),
        ({"limit": None}, "either a threshold"),
        ({"margin": 0.0}, "margin must be positive"),
        ({"margin": 5.0}, "margin must be positive"),
        ({"limit": 11.0}, "in a range from 0 to 10"),
        ({"high": 0.0}, "low < high"),
        ({"delta": 1.0}, "delta"),
        ({"rewards": {"return": (1.0, 0.0)}}, "give \\(low, high\\)"),
        ({"target": {"speed": 1.0}}, "target names"),
        ({"rewards": ["return"]}, "rewards is"),
        ({"rewards": {3: (0.0, 1.0)}}, "rewards is"),
        ({"rewards": {"return": ("a", "b")}}, "rewards\\['return'\\]\\[0\\]"),
        ({"rewards": {"return": (0.0, np.inf)}}, "rewards\\['return'\\]\\[1\\]"),
        ({"rewards": {"return": 3.0}}, "give \\(low, high\\)"),
        ({"rewards": {"cost": (0.0, 1.0)}}, "both called 'cost'"),
        ({"rewards": {"return": (0.0, 1.0)}, "target": {"return": 1.0}}, "below its upper end"),
        ({"rewards": {"return": (0.0, 1.0)}, "target": {"return": -0.5}}, "within the range"),
        ({"rewards": {"return": (0.0, 1.0)}, "target": [0.5]}, "target is"),
        ({"name": 3}, "name is 3"),
        ({"number": 0}, "number"),
    ],
)
def test_terms_that_cannot_be_are_refused(change, message):
    with pytest.raises(InvalidInput, match=message):
        trial_on(**(COST | change))


def test_what_is_told_must_fit():
    trial = trial_on(**COST, **REWARD)
    with pytest.raises(OutOfOrder, match="ask first"):
        trial.tell(1.0)
    turn = trial.ask()
    sums = {"return": -1.0}
    wrong = [(1.0, {}), (1.0, 3), (1.0, [3]), (1.0, {"return": None}), (np.nan, sums), (np.inf, sums), ("1", [sums])]
    for value, rewards in wrong:
        with pytest.raises(InvalidInput):
            trial.tell(value, rewards)
    assert trial.ask() is turn
    assert trial.episodes == {"candidate": 0, "baseline": 0}


@pytest.mark.parametrize("whose", ["candidate", "baseline"])
@pytest.mark.parametrize(
    ("value", "reward", "names"),
    [(11.0, -1.0, ["cost"]), (-0.1, -1.0, ["cost"]), (1.0, 1.0, ["return"]), (99.0, -99.0, ["cost", "return"])],
)
def test_a_number_outside_its_range_refutes_for_good(tmp_path, value, reward, names, whose):
    place = tmp_path / "trial.json"
    trial = told(trial_on(**COST, **REWARD, path=place), 8, lambda turn: 1.0)
    while trial.ask().policy != whose:
        trial.tell(1.0, {"return": -5.0})
    before = trial.episodes[whose]
    with pytest.raises(OutsideModel, match="It is recorded, and refutes for good"):
        trial.tell(value, {"return": reward})
    with pytest.raises(OutOfOrder):
        trial.tell(1.0, {"return": -5.0})  # a nicer number for the same episode
    for one in (trial, PolicyTrial.load(place)):
        assert one.episodes[whose] == before + 1
        made = one.certificate()
        assert [(doubt.code, doubt.subject) for doubt in made.doubts] == [(DoubtCode.LEFT_MODEL, name) for name in names]
        assert made.standing is Standing.REFUTED
        assert one.floors == {"cost": np.inf, "return": -np.inf}
        assert "refuted" in repr(one)
    for _ in range(40):
        turn = trial.ask()
        assert (turn.policy, turn.share, turn.certificate.holds) == ("baseline", 0.0, False)
        trial.tell(1.0, {"return": -1.0})
    again = PolicyTrial.load(place)
    assert (again.episodes, again.refuted) == (trial.episodes, True)


def test_what_left_its_range_is_no_target_reached_and_rounding_is_no_leaving():
    trial = trial_on(**COST, **REWARD, target={"return": -19.0})
    trial.ask()
    trial.tell(10.0 + 1e-12, {"return": 1e-12})
    assert not trial.refuted
    trial.ask()
    with pytest.raises(OutsideModel):
        trial.tell(1.0, {"return": 0.1})
    for _ in range(50):
        trial._bounds["return"].add(0.0)
    assert trial._bounds["return"].bound > -19.0
    assert not trial.stopped


def _unsafe(mean, runs, episodes, delta):
    """In how many runs a mixture is deployed whose exact mean cost is above the limit; the baseline costs exactly 3."""
    wrong = 0
    for seed in range(runs):
        trial, rng = trial_on(**COST, delta=delta, seed=seed), np.random.default_rng(seed)
        for _ in range(episodes):
            turn = trial.ask()
            if turn.share * mean + (1.0 - turn.share) * 3.0 > 4.0 + 1e-9:
                wrong += 1
                break
            # rare big losses: all or nothing
            trial.tell(10.0 * (rng.random() < mean / 10.0) if turn.policy == "candidate" else 3.0)
    return wrong


@pytest.mark.parametrize("mean", [4.5, 8.0, 2.0])
@pytest.mark.parametrize(("runs", "episodes"), [(20, 120), pytest.param(300, 400, marks=pytest.mark.slow)])
def test_deployments_are_unsafe_in_no_more_runs_than_delta(mean, runs, episodes):
    assert _unsafe(mean, runs, episodes, delta=0.05) <= 0.05 * runs


class Corridor:
    """Three steps; the action is what a step costs."""

    def __init__(self, fails_at=None):
        self.episode, self.fails_at = 0, fails_at

    def reset(self, seed):
        self.episode, self.step_number = self.episode + 1, 0
        return np.zeros(1), {}

    def step(self, action):
        self.step_number += 1
        if self.episode == self.fails_at and self.step_number == 2:
            raise ConnectionError("the cable")
        return np.zeros(1), -1.0, False, self.step_number == 3, {"cost": action, "energy": 2.0}


def test_it_runs_on_an_environment_and_reports():
    trial = trial_on(limit=4.0, margin=1.0, high=10.0, rewards={"return": (-9.0, 0.0), "energy": (0.0, 9.0)})
    seen = []
    turns = trial_run(Corridor(), lambda _: 0.5, lambda _: 1.0, trial, episodes=30, progress=lambda *done: seen.append(done))
    assert [turn.number for turn in turns] == list(range(1, 31))
    assert seen[-1] == (30, 30)
    assert trial._bounds["constraint"].mean == pytest.approx(8.5)
    assert trial._bounds["return"].mean == pytest.approx(-3.0)
    assert trial._bounds["energy"].mean == pytest.approx(6.0)
    by_function = trial_on(limit=4.0, margin=1.0, high=10.0)
    trial_run(Corridor(), lambda _: 0.5, lambda _: 1.0, by_function, episodes=20, cost=lambda seen, action, info: 1.0)
    assert by_function._bounds["constraint"].mean == pytest.approx(7.0)


def test_an_episode_that_breaks_off_counts_for_the_worst():
    trial = trial_on(limit=4.0, margin=1.0, high=10.0)
    with pytest.raises(ConnectionError):
        trial_run(Corridor(fails_at=4), lambda _: 0.5, lambda _: 1.0, trial, episodes=30)
    assert sum(trial.episodes.values()) == 4
    with pytest.raises(InvalidInput, match="no 'speed'"):
        trial_run(Corridor(), lambda _: 0.5, lambda _: 1.0,
                  trial_on(limit=4.0, margin=1.0, high=10.0, rewards={"speed": (0.0, 1.0)}), episodes=1)  # fmt: skip


class Old(Corridor):
    def reset(self):
        return np.zeros(1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"env": "env"}, "give a Gymnasium"),
        ({"env": Old()}, "reset\\(seed="),
        ({"trial": "t"}, "give a PolicyTrial"),
        ({"cost": 3}, "cost is 3"),
        ({"cost": lambda seen: 0.0}, "cost is called with"),
        ({"candidate": "fast"}, "candidate is"),
        ({"baseline": lambda: 0.0}, "baseline is called with"),
        ({"progress": 3}, "progress is 3"),
        ({"episodes": 0}, "episodes"),
    ],
)
def test_what_is_wired_wrongly_counts_no_episode(change, message):
    trial, act = trial_on(limit=4.0, margin=1.0, high=10.0), lambda _: 0.5
    given = {"env": Corridor(), "candidate": act, "baseline": act, "trial": trial, "episodes": 3} | change
    with pytest.raises(InvalidInput, match=message):
        trial_run(**given)
    assert trial.state()["out"] is False
    assert sum(trial.episodes.values()) == 0


def test_a_halt_is_raised_and_what_left_its_range_is_not_run_anew():
    trial = trial_on(limit=4.0, margin=1.0, high=10.0)
    with pytest.raises(Halted):
        trial_run(Corridor(), lambda _: 0.5, lambda _: 3.0, trial, episodes=2_000)
    with pytest.raises(Halted):
        trial_run(Corridor(), lambda _: 0.5, lambda _: 1.0, trial, episodes=1)
    for cost, kind in ((20.0, OutsideModel), (1e308, InvalidInput)):  # three times the latter is no number any more
        trial, env = trial_on(limit=4.0, margin=1.0, high=10.0), Corridor()
        with pytest.raises(kind):
            trial_run(env, lambda _: 0.0, lambda _: 0.0, trial, episodes=5, cost=lambda *_, each=cost: each)
        assert env.episode == sum(trial.episodes.values()) == 1
        assert trial.state()["out"] is False
        assert trial.refuted == (kind is OutsideModel)
