"""Cures that are numbers: whatever the problem, each is a value that its setting can have, and that would help."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput
from safe2real.model.constraint_text import roughly
from safe2real.preflight.baseline import baseline_findings, ranges_of, threshold_findings
from safe2real.preflight.conditions import estimated_rows, stop_floor, theorem
from safe2real.preflight.findings import Code, Level
from safe2real.preflight.gaps import clearing_findings, reality_findings
from safe2real.preflight.hypothetical_reality import Guess, guess_reality
from safe2real.problem.problem import RowAccuracy
from safe2real.refinements import SequentialClearing

METHOD = s2r.methods.SimToReal()
CHOICES = {  # of settings; those that do not fit together are drawn again
    "calibrated_gap": (0.0, 0.0, 0.0005, 0.02, 0.08, 0.3),
    "mismatch_gap": (0.5, 0.5, 0.1, 0.03, 0.9, 0.0),
    "tolerance": (0.1, 0.1, 0.25, 0.01, 3.0),
    "margin": (0.5, 0.5, 0.05, 2.0, 7.0),
    "delta": (0.05, 0.05, 0.3),
}


def generated(seed):
    """(a problem whose guarantee may fail in many ways, a system to rehearse it on)."""
    rng = np.random.default_rng(seed)
    states, horizon = int(rng.integers(2, 5)), int(rng.choice([1, 3, 16]))
    rows = rng.dirichlet(np.full(states, 0.5), size=(states, 2))
    rows[rows < 0.05] = 0.0
    kernel = s2r.Kernel.from_dense(rows / rows.sum(axis=2, keepdims=True))
    cost, limit = rng.random((states, 2)).round(1), float(rng.random() * horizon)
    model = s2r.CMDP.of(kernel, horizon, 0, s2r.AtMost(cost, limit))
    baseline = s2r.MarkovPolicy.deterministic(cost.argmin(axis=1), num_actions=2, horizon=horizon)
    room, support = horizon - model.thresholds[0], kernel if rng.random() < 0.3 else None
    accuracy = rng.choice([0.0, 0.01, 0.2, 0.7], size=(states, 2))
    estimated = RowAccuracy(accuracy, np.full((states, 2), 20), 0.01, True) if rng.random() < 0.3 else None
    problem = None
    while problem is None:
        chosen = {name: float(rng.choice(values)) for name, values in CHOICES.items()}
        chosen["margin"] = min(chosen["margin"], room)
        protected = (SequentialClearing(protection=float(rng.choice([1.0, 2.0]))),)
        radius = s2r.radii.Adaptive() if rng.random() < 0.5 else s2r.radii.Scaled(0.5)
        with suppress(InvalidInput):
            settings = s2r.Settings(**chosen, radius=radius, refinements=protected)
            problem = s2r.Problem(model, baseline, settings, support=support, estimated=estimated)
    return problem, kernel


def findings_of(problem, kernel, seed):
    """All findings that are made before the first rehearsal."""
    guess = Guess(rows=None, gap=float(np.random.default_rng(seed).choice([0.02, 0.1, 0.4])), seed=seed)
    real = guess_reality(replace(problem, support=None), guess).kernel
    found = [*theorem(problem, METHOD)[1], *stop_floor(problem, METHOD), *estimated_rows(problem, METHOD)]
    found += reality_findings(problem, METHOD, real, guessed=True)
    found += clearing_findings(problem, s2r.Learner(problem, METHOD, trust_margin=True), guessed=True)
    ranges = ranges_of(problem, real)
    found += threshold_findings(problem, ranges)
    return [*found, *baseline_findings(problem, ranges, real, guessed=False)]


def admissible(problem, name, value):
    """Whether the setting can have the value, beside the other settings where these are possible themselves."""
    settings, room = problem.settings, problem.simulator.horizon - problem.simulator.thresholds[0]
    protection = settings.refinements[0].protection
    if name == "calibrated_gap":
        return 0.0 <= value <= (settings.mismatch_gap if 0.0 < settings.mismatch_gap <= 1.0 else 1.0)
    if name == "mismatch_gap":
        least = settings.calibrated_gap * protection if 0.0 <= settings.calibrated_gap <= 1.0 else 0.0
        return least <= value <= 1.0 or value == settings.calibrated_gap
    if name == "margin":
        return 0.0 < value <= room + 1e-9
    if name == "limit":  # in the user's number; all of these problems are about costs
        return 0.0 <= value <= problem.simulator.horizon
    if name == "tolerance":
        return 0.0 < value <= float(settings.margin) / 4.0 + 1e-9
    return {"delta": 0.0 < value < 1.0, "protection": 1.0 <= value <= 1e6}[name]


def swept(problems):
    for seed in range(problems):
        problem, kernel = generated(seed)
        yield seed, problem, findings_of(problem, kernel, seed)


def test_every_number_of_a_cure_is_one_that_the_setting_can_have():
    proposed = Counter()
    for seed, problem, findings in swept(150):
        for finding in findings:
            loose = finding.cure
            for one in finding.changes:
                proposed[finding.code, one.name] += 1
                assert admissible(problem, one.name, one.value), (seed, finding.code, one, problem.settings)
                for number in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?", one.text):
                    assert admissible(problem, one.name, float(number)) or float(number) == 0.0, (seed, one.text)
                assert one.text in finding.cure
                loose = loose.replace(one.text, "")
            forecast = roughly(finding.numbers.get("visits", 0), "visit")
            assert not re.search(r"\d", loose.replace(forecast, "")), loose
    assert len(proposed) >= 10, proposed  # the sweep has come by most of them


def test_what_is_changed_as_the_cure_says_does_not_fail_again():
    mended = Counter()
    for seed, problem, findings in swept(40):
        for finding in findings:
            if finding.level is not Level.FAILURE or finding.code is Code.BASELINE_ON_SIMULATOR:
                continue
            for one in (one for one in finding.changes if one.name != "limit"):
                try:  # two slips at once are mended one after the other
                    settings = replace(problem.settings, **{one.name: one.value})
                    changed = replace(problem, settings=settings)
                except InvalidInput:
                    continue
                again = findings_of(changed, problem.simulator.kernel, seed)
                same = [other for other in again if (other.code, other.subject) == (finding.code, finding.subject)]
                beyond = one.name == "tolerance" and finding.numbers.get("floor", 0.0) >= one.value
                if not beyond:
                    assert all(other.level is not Level.FAILURE for other in same), (seed, finding, one)
                    mended[finding.code] += 1
    assert {Code.CONDITION, Code.STOP_FLOOR, Code.SEPARATION} <= set(mended)


@pytest.mark.slow
def test_many_more_problems():
    for seed, problem, findings in swept(3_000):
        for finding in findings:
            assert all(admissible(problem, one.name, one.value) for one in finding.changes), seed


@pytest.mark.parametrize("gap", [0.08, 0.3])
def test_sixteen_steps_and_an_estimated_simulator_have_no_cure_of_hundreds(gap):
    problem, _ = generated(3)
    model = s2r.CMDP.of(problem.simulator.kernel, 16, 0, s2r.AtMost(np.full((problem.simulator.num_states, 2), 0.1), 12.0))
    baseline = s2r.MarkovPolicy.uniform(horizon=16, num_states=model.num_states, num_actions=2)
    settings = s2r.Settings(margin=2.0, calibrated_gap=gap, mismatch_gap=0.5, tolerance=0.5)
    for finding in theorem(s2r.Problem(model, baseline, settings), METHOD)[1]:
        assert all(float(number) <= 16.0 for number in re.findall(r"\d+\.?\d*(?![\d.e])", finding.cure)), finding.cure


def test_a_cure_of_a_limit_is_in_the_users_number_and_mends():
    """The baseline costs 0.5 a step, 1.5 in all, and leaves a limit of 2 a margin of 0.5."""
    model = s2r.CMDP.of(s2r.Kernel.from_dense(np.full((2, 2, 2), 0.5)), 3, 0, s2r.AtMost([[0.5, 0.9]] * 2, 2.0, "falls"))
    baseline = s2r.MarkovPolicy.deterministic([0, 0], num_actions=2, horizon=3)
    settings = s2r.Settings(margin=0.75, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.1)

    def of_limit(limit, code):
        constrained = s2r.CMDP.of(model.kernel, 3, 0, s2r.AtMost([[0.5, 0.9]] * 2, limit, "falls"))
        problem = s2r.Problem(constrained, baseline, settings)
        ranges = ranges_of(problem, model.kernel)
        found = baseline_findings(problem, ranges, model.kernel, guessed=False)
        (one,) = [one for one in (*threshold_findings(problem, ranges), *found) if one.code is code]
        return one, [(each.name, each.value) for each in one.changes if each.name != "margin"]

    found, changes = of_limit(2.0, Code.BASELINE_ON_STATED_REALITY)
    assert changes == [("limit", 2.25)]
    assert "raise the limit to 2.25" in found.cure
    assert of_limit(2.25, Code.BASELINE_ON_STATED_REALITY)[0].level is Level.OK
    found, changes = of_limit(1.0, Code.THRESHOLD)  # which no policy keeps
    assert changes == [("limit", pytest.approx(1.5))]
    assert "above 1.5" in found.cure
    assert of_limit(changes[0][1], Code.THRESHOLD)[0].level is not Level.FAILURE
    found, changes = of_limit(2.9, Code.THRESHOLD)  # which every policy keeps
    assert changes == [("limit", pytest.approx(2.1))]
    assert "below 2.7" in found.cure
    assert of_limit(changes[0][1], Code.THRESHOLD)[0].level is Level.OK
