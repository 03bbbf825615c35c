"""Progress: on a terminal, after a second, with the time left; nowhere else unless it is asked for."""

import io
import itertools
import sys

import gymnasium
import numpy as np
import pytest

import safe2real as s2r
from safe2real import progress
from safe2real.errors import InvalidInput
from safe2real.exploration.explore import explore
from safe2real.progress import progress_bar
from safe2real.testing.systems import random_case


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """Time that passes when it is told to."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_nobody_is_told_where_nobody_watches(monkeypatch):
    for stream, wanted, shows in (
        (Terminal(), None, True),
        (Terminal(), False, False),
        (io.StringIO(), None, False),
        (io.StringIO(), True, True),
        (None, True, False),
    ):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress_bar("episodes", wanted) as report:
            assert (report is not None) == shows


def test_a_function_is_told_itself():
    told = []
    with progress_bar("episodes", lambda done, total: told.append((done, total))) as report:
        report(1, 2)
    assert told == [(1, 2)]


def test_what_is_neither_is_refused():
    with pytest.raises(InvalidInput, match="progress is 'yes'; give True, False, None"), progress_bar("episodes", "yes"):
        pass


def test_what_is_quick_is_not_shown(monkeypatch, clock):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_bar("episodes") as report:
        report(1, 100)
        clock[0] = 0.9
        report(50, 100)
    assert sys.stderr.getvalue() == ""


def test_a_bar_of_rich_shows_what_is_left(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_bar("episodes", after=0.0) as report:
        report(50, 100)
    assert "50/100" in sys.stderr.getvalue()
    assert "left" in sys.stderr.getvalue()


def test_without_rich_there_is_one_line_with_the_time_left(monkeypatch, clock):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_bar("episodes") as report:
        clock[0] = 2.0
        report(1_000, 5_000)
        clock[0] = 12.0
        report(2_000, 5_000)
    first, second, *wiped = sys.stderr.getvalue().split("\r")[1:]
    assert first.strip() == "episodes: 1,000 of 5,000"
    assert second.strip() == "episodes: 2,000 of 5,000, 0:30 left"
    assert [part.strip() for part in wiped] == ["", ""]  # it leaves nothing behind
    assert len(wiped[0]) == len(second)


def test_into_a_file_it_is_a_line_now_and_then(monkeypatch, clock):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress_bar("rows", True) as report:
        for second in range(2, 16):
            clock[0] = float(second)
            report(second, 5_000)
    assert sys.stderr.getvalue().splitlines() == ["rows: 2 of 5,000", "rows: 12 of 5,000, 1:23:08 left"]


def test_off_a_terminal_the_log_has_a_line_a_second_at_most(monkeypatch, clock, caplog):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with caplog.at_level("INFO", logger="safe2real"), progress_bar("episodes") as report:
        for tenth in range(41):
            clock[0] = tenth / 10.0
            report(tenth, 100)
    said = [record.getMessage() for record in caplog.records]
    assert said == ["episodes: 10 of 100", "episodes: 20 of 100, 0:08 left", "episodes: 30 of 100, 0:07 left",
                    "episodes: 40 of 100, 0:06 left"]  # fmt: skip
    assert sys.stderr.getvalue() == ""
    with caplog.at_level("INFO", logger="safe2real"), progress_bar("episodes", False) as report:
        assert report is None


def test_exploring_off_a_terminal_is_logged(monkeypatch, caplog):
    ticks = itertools.count(step=2)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(ticks)))
    problem, real, _ = s2r.examples.lake(seed=0)
    with caplog.at_level("INFO", logger="safe2real"):
        explore(s2r.Learner(problem), real, max_rounds=2)
    said = [record.getMessage() for record in caplog.records]
    assert [line.split(",")[0] for line in said] == ["episodes: 0 of 2", "episodes: 1 of 2", "episodes: 2 of 2"]


# Where it is used


def test_everything_long_reports_how_far_it_is():
    told = []
    case = random_case(2)
    s2r.check_problem(
        case.problem, effort=s2r.preflight.Effort(runs=1, max_rounds=3), progress=lambda *one: told.append(("check", *one))
    )
    s2r.Learner(case.problem).plan(np.ones((4, 2)), progress=lambda *one: told.append(("plan", *one)))
    env = gymnasium.make("FrozenLake-v1", max_episode_steps=4)
    s2r.estimate_by_running(env, 4, episodes=3, progress=lambda *one: told.append(("run", *one)))

    class Still:
        num_states, num_actions = 2, 2

        def sample(self, state, action, rng):
            return state, 0.0, False

    s2r.estimate_by_sampling(
        Still(), 2, s2r.SystemDescription(start=0), samples_per_row=1, progress=lambda *one: told.append(("rows", *one))
    )
    assert ("check", 12, 12) in told  # the method and the other one, and what is advised
    assert [one for one in told if one[0] == "plan"][-1] == ("plan", 7, 8)
    assert [one for one in told if one[0] == "run"] == [("run", 1, 3), ("run", 2, 3), ("run", 3, 3)]
    assert [one[1:] for one in told if one[0] == "rows"] == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_explore_shows_a_bar_or_tells_a_function(monkeypatch):
    lake = gymnasium.make("FrozenLake-v1", max_episode_steps=2)
    system = s2r.from_gymnasium(lake, 2, s2r.SystemDescription(ended=0.0))
    baseline = s2r.MarkovPolicy.uniform(horizon=2, num_states=system.model.num_states, num_actions=4)
    settings = s2r.Settings(margin=0.5, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.01)
    problem = s2r.Problem(system.model, baseline, settings)
    told, events = [], []
    monkeypatch.setattr(progress._Bar, "__call__", lambda self, done, total: told.append((done, total)))
    explore(s2r.Learner(problem), system.as_env(lake), max_rounds=3, progress=True)
    explore(s2r.Learner(problem), system.as_env(lake), max_rounds=2, progress=events.append)
    explore(s2r.Learner(problem), system.as_env(lake), max_rounds=2)
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
    monkeypatch.setattr(sys, "stderr", Terminal())
    explore(s2r.Learner(problem), system.as_env(lake), max_rounds=1)  # on a terminal without being asked to
    explore(s2r.Learner(problem), system.as_env(lake), max_rounds=1, progress=False)
    assert told[4:] == [(0, 1), (1, 1)]
    assert [(one.proposal.round, one.episodes, one.samples, one.over) for one in events] == [
        (1, 0, 0, False),
        (2, 1, 2, False),
        (3, 2, 4, True),
    ]
    assert str(events[-1]).startswith("2 of 2 episodes, 4 samples, certified: ")


def test_the_last_event_is_what_explore_returns_also_at_a_stop():
    problem, real, reward = s2r.examples.lake(seed=0)
    method, events = s2r.methods.ForRewards({"goal": reward}, accuracy=0.9), []
    last = explore(s2r.Learner(problem, method), real, max_rounds=5_000, progress=events.append)
    assert last.is_last
    assert events[-1].proposal is last
    assert [one.over for one in events] == [False] * (len(events) - 1) + [True]
    assert all(getattr(one, field) is not None for one in events for field in one.__slots__)
