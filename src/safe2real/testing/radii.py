"""The contract of a radius."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod

import numpy as np

from safe2real._compiled import radii as compiled
from safe2real.evidence.rule import rule_of
from safe2real.exploration.learner import Learner
from safe2real.exploration.simulate import simulate
from safe2real.model.checks import Floats
from safe2real.problem.problem import Problem
from safe2real.radii.base import Radius, RowShape, System
from safe2real.standing import Standing
from safe2real.testing.systems import check_named, random_case

_SYSTEM = System(5, 2, 4)
_VISITS = np.unique(np.rint(np.geomspace(1, 10**7, 400)).astype(np.int64))
_LEVEL = 0.2  # of the coverage runs: high, so that few runs show much
_RUNS, _LENGTH = 300, 2_000


class RadiusContract(ABC):
    """Subclass it, say how to make a radius, and let pytest find the tests."""

    @abstractmethod
    def make(self) -> Radius:
        """The radius under test."""

    def test_it_has_a_name_a_revision_and_a_label(self) -> None:
        radius = self.make()
        assert isinstance(radius, Radius), "a radius is a subclass of safe2real.radii.Radius"
        check_named(radius)
        assert isinstance(radius.certified, bool), "certified is True or False: whether it is proved to cover"

    def test_it_never_grows_with_the_visits(self) -> None:
        radius = self.make()
        for possible in (2, 3, 5):
            for seen in range(1, possible + 1):
                found = radius.after(_VISITS, np.full(_VISITS.size, seen), RowShape(possible, 10, _SYSTEM, 0.05))
                assert found.shape == _VISITS.shape, f"{found.shape} radii for {_VISITS.shape} visits"
                assert (found >= 0.0).all(), "a radius is not negative, and a number"
                assert (np.diff(np.minimum(found, 1.0)) <= 1e-12).all(), "what holds at all times may only shrink"

    def test_a_smaller_probability_of_failure_needs_a_larger_radius(self) -> None:
        radius = self.make()
        seen = np.full(_VISITS.size, 2)
        loose, strict = (radius.after(_VISITS, seen, RowShape(3, 10, _SYSTEM, delta)) for delta in (0.3, 1e-6))
        assert (strict >= loose - 1e-12).all(), "the radius does not grow when delta shrinks"

    def test_more_rows_need_a_larger_radius(self) -> None:
        """All rows have to hold at once: one that does not know how many there are cannot cover them."""
        radius = self.make()
        if radius.certified:
            seen = np.full(_VISITS.size, 2)
            few, many = (radius.after(_VISITS, seen, RowShape(3, rows, System(rows, 1, 4), 0.05)) for rows in (10, 10**6))
            assert (many >= few - 1e-12).all(), "the radius shrinks when more rows have to hold"
            assert (many > few).any(), "the radius does not grow with the number of rows"

    def test_it_does_not_shrink_faster_than_chance(self) -> None:
        """A fair coin is about 1 / sqrt(n) off: no radius that covers at all times is smaller than that for long."""
        radius = self.make()
        if radius.certified:
            visits = np.unique(np.rint(np.geomspace(1, 10**12, 600)).astype(np.int64))
            found = radius.after(visits, np.full(visits.size, 2), RowShape(2, 1, System(2, 1, 1), _LEVEL))
            assert (visits * np.minimum(found, 1.0) ** 2 >= 0.1).all(), "it shrinks faster than 1 / sqrt(n)"

    def test_it_covers_at_its_level(self) -> None:
        """Rows of known probabilities, watched at every visit: the share of rows that ever leave the ball."""
        radius = self.make()
        if not radius.certified:
            return  # it promises nothing, and everything computed with it says so
        rng = np.random.default_rng(20)
        for probabilities in ([0.5, 0.5], [0.7, 0.2, 0.1], [0.2] * 5, [0.97, 0.01, 0.01, 0.005, 0.005], [1 / 30] * 30):
            row = np.array(probabilities)
            shape = RowShape(row.size, 1, System(row.size, 1, 1), _LEVEL)
            left = sum(_ever_leaves(radius, row, shape, rng) for _ in range(_RUNS))
            most = _LEVEL * _RUNS + 4.0 * np.sqrt(_LEVEL * (1.0 - _LEVEL) * _RUNS)
            assert left <= most, f"{left} of {_RUNS} rows {probabilities} left a radius that fails {_LEVEL:.0%} of the time"

    def test_compiled_code_uses_no_smaller_one(self) -> None:
        radius, sizes = self.make(), np.array([2, 3, 5, 30], dtype=np.int64)
        rule = rule_of(radius, _SYSTEM, sizes, 0.05)
        for visits in (1, 2, 17, 1_000, 4_097, 123_456):
            found = np.empty(sizes.size)
            near = np.ones(sizes.size, dtype=np.bool_)
            compiled.radii(rule, np.full(sizes.size, float(visits)), np.full(sizes.size, 2), near, found)
            for possible, used in zip(sizes.tolist(), found.tolist(), strict=True):
                shape = RowShape(possible, sizes.size, _SYSTEM, 0.05)
                plain = min(1.0, float(radius.after(np.array([visits]), np.array([2]), shape)[0]))
                assert plain - 1e-12 <= used <= plain + 0.01, f"{used} is used after {visits} visits, not {plain}"

    def test_a_record_keeps_it(self) -> None:
        radius = self.make()
        problem = random_case(0, radius=radius).problem
        read = Problem.from_text(problem.to_text(), extensions=(type(radius),))
        assert type(read.settings.radius) is type(radius), "the record names another radius"
        assert dataclasses.asdict(read.settings.radius) == dataclasses.asdict(radius)  # type: ignore[call-overload]

    def test_a_run_with_it_is_labelled_and_repeats(self) -> None:
        case = random_case(1, radius=self.make())
        runs = []
        for _ in range(2):
            learner = Learner(case.problem)
            simulate(learner, case.real, max_rounds=200)
            runs.append(learner.evidence.counts.visits)
            expected = Standing.CERTIFIED if case.problem.settings.radius.certified else Standing.HEURISTIC
            assert learner.standing is expected, f"the run is {learner.standing}, not {expected}"
        assert np.array_equal(runs[0], runs[1]), "two runs of the same problem differ"


def _ever_leaves(radius: Radius, row: Floats, shape: RowShape, rng: np.random.Generator) -> bool:
    drawn = rng.choice(row.size, size=_LENGTH, p=row)
    counts = np.cumsum(np.eye(row.size)[drawn], axis=0)
    visits = np.arange(1, _LENGTH + 1)
    distance = 0.5 * np.abs(counts / visits[:, None] - row).sum(axis=1)
    radii = np.minimum(1.0, radius.after(visits, (counts > 0).sum(axis=1), shape))
    return bool((distance > radii + 1e-12).any())
