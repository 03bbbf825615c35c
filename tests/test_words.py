"""Sentences with numbers in them: one thing is not several, a range ends where values end, and nan is no promise."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import safe2real as s2r
from safe2real.cli.run import _kept
from safe2real.model.constraint_text import count, roughly
from safe2real.plots.map import draw_visits_needed
from safe2real.preflight.conditions import theorem
from safe2real.preflight.rehearsed_campaign import RehearsedPlan
from safe2real.systems.rollout import Agreement
from tests.preflight.specs import ring

SOURCES = sorted((Path(__file__).parent.parent / "src" / "safe2real").rglob("*.py"))
PACKAGE = Path(s2r.__file__).parent
TEXTS = sorted(path for kind in ("py", "html", "js", "toml", "jinja") for path in PACKAGE.rglob(f"*.{kind}"))
PEOPLE = re.compile(r"\b(nobody|somebody|whoever|everybody|anybody)\b", re.IGNORECASE)
COUNTED = "episode|round|deployment|sample|visit|transition|doubt|assumption|finding|failure"
BARE = re.compile(rf"(?<!of )(?<!of the )\{{[^{{}}]+\}} (?:{COUNTED})s\b(?! (?:are|were|can|would|have|look)\b)")


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 rows"), (1, "1 row"), (1.2, "1 row"), (1_234, "1,234 rows"), (1.6, "2 rows")]
)
def test_one_thing_is_not_several(number, said):
    assert count(number, "row") == said


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (1, "about 1 round"),
        (2.2, "about 3 rounds"),
        (99, "about 99 rounds"),
        (100.00000000001, "about 100 rounds"),
        (47_111, "about 48,000 rounds"),
        (999_001, "about 1 million rounds"),
        (37_689_895, "about 38 million rounds"),
        (1_230_000_000, "about 1.3 billion rounds"),
    ],
)
def test_a_forecast_has_two_digits(number, said):
    assert roughly(number, "round") == said
    page = (Path(s2r.__file__).parent / "service" / "page" / "words.js").as_uri()
    script = f"import('{page}').then((words) => console.log(words.roughly({round(number, 6)}, 'round')))"
    node = shutil.which("node")
    if node is not None:
        assert subprocess.run([node, "-e", script], capture_output=True, text=True, check=True).stdout.strip() == said


def test_what_is_forecast_goes_through_roughly():
    exact = re.compile(r"(?<!assumption )about \{|about \"$")
    lines = [(path.name, line.strip()) for path in SOURCES for line in path.read_text().splitlines()]
    assert [(name, line) for name, line in lines if exact.search(line) and "def " not in line and ":.2g}" not in line] == [
        ("constraint_text.py", 'said = f"about {rounded:,}" if scale == 1 else f"about {rounded / scale:,.10g} {word}"')
    ]


def test_what_is_counted_goes_through_count():
    about_the_past = {"paper", "testing", "_compiled"}  # tables of many runs, and assertions
    places = [path for path in SOURCES if not about_the_past & set(path.parts)]
    lines = [(path.name, line.strip()) for path in places for line in path.read_text().splitlines() if 'f"' in line]
    assert [(name, line) for name, line in lines if BARE.search(line)] == []


def reached():
    """A lake, where the goal ends the episode, and a policy that nearly always reaches it."""
    env = gymnasium.make("FrozenLake-v1", desc=["SFG"], success_rate=0.95)
    system = s2r.from_gymnasium(env, 8, s2r.SystemDescription(cost=[0.0, 0.0, 0.0], limit=0.5, ended=0.0))
    policy = s2r.MarkovPolicy.deterministic(system.per_state([2, 2, 2]), num_actions=4, horizon=8)
    return env, system, policy


def test_a_probability_is_not_expected_above_one():
    env, system, policy = reached()
    value = system.rollout(policy, env, 40, seed=0, reward=system.where([2])).value
    assert 0.9 < value.mean <= 1.0 == value.high
    assert "1 episode of" in system.rollout(policy, env, 1, seed=0).describe()


def test_a_plan_without_a_value_promises_nothing():
    env, system, policy = reached()
    settings = s2r.Settings(margin=0.4, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.1)
    learner = s2r.Learner(s2r.Problem(system.model, policy, settings, known=system.known))
    plan = dataclasses.replace(learner.plan(system.where([2])), value=float("nan"))
    value = system.rollout(plan, env, 5, seed=0).value
    assert value.agreement is Agreement.NOTHING_PROMISED
    assert "nan" not in value.describe()
    none = RehearsedPlan(dataclasses.replace(plan, suboptimality=float("nan")), 0.5, 0.6, 0.4, True)
    assert _kept(none) == "nothing was promised"
    promised = dataclasses.replace(none, plan=dataclasses.replace(plan, value=0.5, suboptimality=0.1))
    assert _kept(promised) == "promised within 0.1: as promised"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tolerance": 0.01}, "the tolerance 0.01 stands for an epsilon of 0.16;"),
        ({"tolerance": 0.1}, "stands for an epsilon of 1.6; the largest one, 1, is looked at instead"),
        ({"tolerance": 0.1, "calibrated_gap": 0.01}, "no epsilon belongs to the tolerance 0.1; the largest one, 1, is"),
    ],
)
def test_an_epsilon_that_nobody_stated_is_not_said_to_be_one(settings, said):
    findings = theorem(ring(**settings), s2r.methods.SimToReal())[1]
    (epsilon,) = [one for one in findings if one.subject == "epsilon"]
    assert said in epsilon.what
    assert "epsilon is" not in epsilon.what


def test_visits_that_are_needed_are_a_forecast_in_two_digits():
    found = s2r.Learner(ring()).mismatch_map
    needed = np.where(found.visits_needed > 0, 37_689_895.0, 0.0)
    drawn = draw_visits_needed(dataclasses.replace(found, visits_needed=needed))
    texts = {text.get_text() for text in drawn.axes[0].texts}
    assert texts == {"about 38 million more (0 so far)"}


def test_sentences_have_concrete_subjects():
    found = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in TEXTS
        for line in path.read_text().splitlines()
        if PEOPLE.search(line)
    ]
    assert found == []
