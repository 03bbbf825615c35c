"""The contract of a radius: formulas and coverage at named and at drawn sizes, levels and visits.

It refuses mistakes and known cheats. It is no proof: a radius that is wrong only where nothing is tried passes. So a
certificate that rests on a radius from outside the package names that radius among its assumptions.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from itertools import product

import numpy as np
from numpy.typing import NDArray

from safe2real._compiled import row_update as compiled
from safe2real.evidence.row_rule import RowFacts, rule_of
from safe2real.exploration.learner import Learner
from safe2real.exploration.simulate import simulate
from safe2real.model.validation import Floats
from safe2real.problem.problem import Problem
from safe2real.radii import Radius, RowShape, System
from safe2real.standing import Standing
from safe2real.testing.systems import check_named, random_case

_SYSTEM = System(5, 2, 4)
_VISITS = np.unique(np.rint(np.geomspace(1, 10**7, 400)).astype(np.int64))
_LEVEL = 0.2  # of the coverage runs: high, so that few runs show much
_RUNS = 1_000
_CHECKED = np.unique(np.rint(np.geomspace(1, 10**6, 100)).astype(np.int64))
_LOOKS = np.unique(np.rint(np.geomspace(1, 3 * 10**9, 160)).astype(np.int64))
_DRAWN = 60  # sizes and delta between those that are named, so that a formula cannot be right at a list of points alone

Counts = NDArray[np.int64]


class RadiusContract(ABC):
    """Subclass it, say how to make a radius, and let pytest find the tests."""

    @abstractmethod
    def make(self) -> Radius:
        """Return a new instance of the radius under test.

        Returns:
            The radius.
        """

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
                assert (np.diff(np.minimum(found, 1.0)) <= 1e-12).all(), "a bound that holds at all times may only shrink"

    def test_a_smaller_probability_of_failure_needs_a_larger_radius(self) -> None:
        radius = self.make()
        seen = np.full(_VISITS.size, 2)
        loose, strict = (radius.after(_VISITS, seen, RowShape(3, 10, _SYSTEM, delta)) for delta in (0.3, 1e-6))
        assert (strict >= loose - 1e-12).all(), "the radius does not grow when delta shrinks"

    def test_its_level_is_shared_by_all_rows(self) -> None:
        """A union over R rows at delta puts log(R / delta) into 2 n radius(n)^2, to first order, whatever else is in it.

        A loose radius could forget R or delta and still cover small systems, so this is asked of the formula itself.
        """
        radius = self.make()
        if not radius.certified:
            return  # it promises nothing, and everything computed with it says so
        named = ((2, 2), (12, 3), (20, 2), (50, 50), (700, 30), (100_000, 4))
        points = [(possible, seen, 10**6, 1) for possible, seen in named]
        points += [(one.possible, one.seen, one.visits, one.others) for one in _drawn_points()]
        for possible, seen, early, others in points:
            visits = np.array([early, 10**9])
            first = _capped(radius, visits, seen, _shape(possible, 1, 0.2, others=others))
            most = 10**9 // (possible * others)
            more = ((10**3, 1, 0.2), (most, 1, 0.2), (1, 1, 1e-3), (1, 1, 1e-9), (1, 10**3, 0.2), (1, most, 0.2))
            for actions, steps, delta in more:
                needed = np.log(actions * steps * 0.2 / delta)
                shape = _shape(possible, actions, delta, steps, others=others)
                gained = 2.0 * visits * (_capped(radius, visits, seen, shape) ** 2 - first**2)
                assert (gained >= 0.95 * needed).all(), (
                    f"from {possible} rows, delta 0.2 to {shape.rows} rows, delta {delta:g} "
                    f"2 n radius(n)^2 grows by {gained.min():.3g}; "
                    f"all rows hold together only if it grows by log(rows / delta), {needed:.3g}"
                )

    def test_it_holds_at_all_visits_at_once(self) -> None:
        """By the law of the iterated logarithm 2 n radius(n)^2 must grow at least like log log n, for a fair coin already.

        A bound for one number of visits has a constant there. Such a bound covers for as long as a simulation can wait.
        """
        radius, visits = self.make(), np.array([10**2, 10**9])
        if not radius.certified:
            return
        needed = np.log(np.log(visits[1]) / np.log(visits[0]))
        for possible, seen, delta in ((2, 2, 0.2), (2, 2, 1e-6), (12, 3, 0.05)):
            first, last = 2.0 * visits * radius.after(visits, np.full(2, seen), _shape(possible, 25, delta)) ** 2
            assert last - first >= 0.95 * needed, (
                f"2 n radius(n)^2 grows by {last - first:.3g} from {visits[0]} to {visits[1]:,} visits, and log log n by "
                f"{needed:.3g}: this is a bound for one number of visits, not for all of them"
            )

    def test_no_single_look_is_outside_too_often(self) -> None:
        """Exact binomial tails: R rows, half of whose successors are one fair coin, looked at once after n visits.

        One look is less than all of them, so a radius that fails here cannot cover. At very small delta it shows what no
        simulation can: the share of a row must fall with R and delta, and no constant below 1 can be put before the root.
        """
        radius = self.make()
        if not radius.certified:
            return
        named = [(*one, 1) for one in product((2, 3, 12), (1, 10**3, 10**6), (0.5, 0.05, 1e-3, 1e-9, 1e-200))]
        drawn = [(min(one.possible, 12), one.actions, one.delta, one.others) for one in _drawn_points()]
        for possible, actions, delta, others in named + drawn:
            shape = _shape(possible, actions, delta, others=others)
            found = np.max([_capped(radius, _LOOKS, seen, shape) for seen in range(1, possible + 1)], axis=0)
            # So many looks show all successors, which are equally likely, with near certainty.
            all_seen = possible * (1.0 - 1.0 / possible) ** _LOOKS < 1e-9 * _share(shape)
            found = np.where(all_seen, _capped(radius, _LOOKS, possible, shape), found)
            heads = possible // 2 / possible
            outside = _tail(_LOOKS, heads, found)
            worst = int(np.argmax(outside))
            assert outside[worst] <= _share(shape) * (1.0 + 1e-6), (
                f"with {shape.rows} rows and delta {delta:g} a row of {possible} successors is outside {found[worst]:.3g} "
                f"after {_LOOKS[worst]} visits with probability {outside[worst]:.2g}; all rows hold together only up to "
                f"{_share(shape):.2g}: the radius must grow like sqrt(log(rows / delta) / (2 n))"
            )

    def test_a_coin_stays_inside_at_every_visit(self) -> None:
        """The exact probability that a row of two successors EVER leaves the ball, by induction over the visits."""
        radius = self.make()
        if not radius.certified:
            return
        for heads, actions, delta, length in ((0.5, 1, 0.2, 6_000), (0.5, 25, 0.02, 3_000), (0.1, 1, 0.2, 1_000)):
            shape = _shape(2, actions, delta)
            left = _ever_leaves(radius, heads, shape, length)
            assert left <= _share(shape) * (1.0 + 1e-6), (
                f"one of {shape.rows} rows [{heads}, {1.0 - heads}] leaves the radius within {length} visits "
                f"with probability {left:.3g}; at delta {delta} at most {_share(shape):.3g} may"
            )

    def test_it_covers_at_its_level(self) -> None:
        """Simulated rows of known probabilities, looked at often up to a million visits: how many ever leave the ball."""
        radius = self.make()
        if not radius.certified:
            return
        rng = np.random.default_rng(20)
        for probabilities in (
            [0.5, 0.5],
            [0.7, 0.2, 0.1],
            [0.2] * 5,
            [0.97, 0.01, 0.01, 0.005, 0.005],
            [1 / 30] * 30,
            [1 / 300] * 300,
        ):
            left = _count_leaving(radius, np.array(probabilities), rng)
            most = _LEVEL * _RUNS + 4.0 * np.sqrt(_LEVEL * (1.0 - _LEVEL) * _RUNS)
            assert left <= most, f"{left} of {_RUNS} rows {probabilities} left a radius that fails {_LEVEL:.0%} of the time"

    def test_compiled_code_uses_no_smaller_one(self) -> None:
        radius, sizes = self.make(), np.array([2, 3, 5, 30], dtype=np.int64)
        rule = rule_of(radius, _SYSTEM, RowFacts(sizes), 0.05)
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
            learner = Learner(case.problem, trust_margin=True)
            simulate(learner, case.real, max_rounds=200)
            runs.append(learner.evidence.counts.visits)
            expected = Standing.CERTIFIED if case.problem.settings.radius.certified else Standing.HEURISTIC
            assert learner.standing is expected, f"the run is {learner.standing}, not {expected}"
        assert np.array_equal(runs[0], runs[1]), "two runs of the same problem differ"


def _shape(possible: int, actions: int, delta: float, steps: int = 1, *, others: int = 1) -> RowShape:
    """A system with `others` times as many states as a row has successors, whose rows are not all in doubt.

    With `others` = 1 every row has all states as successors, counted per step: R = S A H.
    """
    return RowShape(possible, possible * actions * steps, System(possible * others, actions, steps), delta)


@dataclasses.dataclass(frozen=True, slots=True)
class _Point:
    """Where a formula is looked at."""

    possible: int  # successors
    seen: int
    visits: int
    actions: int
    delta: float
    others: int  # states, in times the successors


def _drawn_points() -> list[_Point]:
    """Points that are spread evenly over their logarithms; the same in every run."""
    rng = np.random.default_rng(5)
    sizes, actions, deltas = (rng.uniform(low, high, _DRAWN) for low, high in ((1.0, 5.0), (0.0, 4.0), (-12.0, -0.3)))
    places = rng.random((_DRAWN, 3))
    points = []
    for size, action, delta, (seen, visits, others) in zip(sizes, actions, deltas, places, strict=True):
        possible = 2 + int(10.0**size) // 10
        early = 1e5 * possible  # before, radii are not small yet, or far from their first order
        points.append(
            _Point(
                possible,
                seen=min(possible, max(2, round(possible**seen))),
                visits=round(early * (1e9 / early) ** (0.9 * visits)) if early < 1e8 else 10**8,
                actions=round(10.0**action),
                delta=float(10.0**delta),
                others=1 if others < 0.5 else round(10.0 ** (2.0 * others)),
            )
        )
    return points


def _share(shape: RowShape) -> float:
    """The largest probability of failure of one row with which R independent rows hold together with 1 - delta."""
    return float(-np.expm1(np.log1p(-shape.delta) / shape.rows))


def _capped(radius: Radius, visits: Counts, seen: int, shape: RowShape) -> Floats:
    found = np.minimum(1.0, radius.after(visits, np.full(visits.size, seen), shape))
    assert (found >= 0.0).all(), f"a radius is not negative, and a number, also for {shape}"
    return found


def _tail(visits: Counts, heads: float, distance: Floats) -> Floats:
    """P(|frequency - heads| > distance) after each of `visits` tosses of a coin; exact."""
    from scipy.special import betainc  # late: SciPy takes longer to import than all of this package

    result = np.zeros(visits.size)
    for chance in (heads, 1.0 - heads):  # P(at least k of n) is an incomplete beta function
        least = np.floor(visits * (chance + distance) * (1.0 + 1e-12)) + 1.0
        possible = least <= visits
        n, k = visits[possible], least[possible]
        result[possible] += betainc(k, n - k + 1.0, chance)
    return result


def _ever_leaves(radius: Radius, heads: float, shape: RowShape, length: int) -> float:
    """The probability that the frequency of `heads` is outside at any of the first `length` visits; exact."""
    visits = np.arange(1, length + 1)
    alone, both = (_capped(radius, visits, seen, shape) + 1e-12 for seen in (1, 2))
    least, inside, left = 0, np.ones(1), 0.0  # of rows that never left: how probable is each number of heads from `least` on
    for n in range(1, length + 1):
        inside = np.append((1.0 - heads) * inside, 0.0) + np.append(0.0, heads * inside)
        counts = np.arange(least, least + inside.size)
        outside = np.abs(counts / n - heads) > np.where(counts % n == 0, alone[n - 1], both[n - 1])
        if outside.any():
            left += float(inside[outside].sum())
            if outside.all():
                break
            inside[outside] = 0.0
            kept = np.flatnonzero(~outside)
            least, inside = least + int(kept[0]), inside[kept[0] : kept[-1] + 1]
    return left


def _count_leaving(radius: Radius, row: Floats, rng: np.random.Generator) -> int:
    """How many of `_RUNS` rows are outside at any of `_CHECKED` visits."""
    shape = RowShape(row.size, 1, System(row.size, 1, 1), _LEVEL)
    radii = np.array([_capped(radius, _CHECKED, seen, shape) for seen in range(1, row.size + 1)])  # [m, looks]
    counts, left = np.zeros((_RUNS, row.size), dtype=np.int64), np.zeros(_RUNS, dtype=bool)
    for look, (visits, more) in enumerate(zip(_CHECKED, np.diff(_CHECKED, prepend=0), strict=True)):
        counts += rng.multinomial(more, row, size=_RUNS)
        distance = 0.5 * np.abs(counts / visits - row).sum(axis=1)
        left |= distance > radii[(counts > 0).sum(axis=1) - 1, look] + 1e-12
    return int(left.sum())
