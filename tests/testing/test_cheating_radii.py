"""Radii that are certified in name only are refused by the contract, whatever valid radius they are made of."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from safe2real import radii
from safe2real.radii import Radius
from safe2real.testing import RadiusContract
from safe2real.testing.radii import _ever_leaves
from tests.testing.test_toy_radius import Cautious

VALID = [radii.Literal(), radii.KL(), radii.Union(), radii.Stitched(), radii.Adaptive(), Cautious()]


@dataclass(frozen=True)
class Cheat(Radius):
    """A valid radius, and what is done to it."""

    valid: Radius
    name: ClassVar[str] = "cheat"
    certified: ClassVar[bool] = True
    counts_successors: ClassVar[bool] = True

    def after(self, visits: Any, seen: Any, row: Any) -> Any:
        return self.valid.after(visits, seen, row)


class ForgetsRows(Cheat):
    def after(self, visits, seen, row):
        actions = row.system.num_actions**0.1
        return super().after(visits, seen, replace(row, rows=row.rows**0.1, system=replace(row.system, num_actions=actions)))


class ForgetsDelta(Cheat):
    def after(self, visits, seen, row):
        return super().after(visits, seen, replace(row, delta=max(row.delta, 0.2)))


@dataclass(frozen=True)
class Smaller(Cheat):
    factor: float = 0.9

    def after(self, visits, seen, row):
        return self.factor * super().after(visits, seen, row)


@dataclass(frozen=True)
class ShrinksLate(Cheat):
    after_visits: int = 4_000
    factor: float = 0.5

    def after(self, visits, seen, row):
        return np.where(visits > self.after_visits, self.factor, 1.0) * super().after(visits, seen, row)


class SmallerForMany(Cheat):
    """For rows of more than two successors only."""

    def after(self, visits, seen, row):
        return (0.8 if row.possible > 2 else 1.0) * super().after(visits, seen, row)


class ForgetsSteps(Cheat):
    """Takes the rows of one step for all of them."""

    def after(self, visits, seen, row):
        return super().after(
            visits, seen, replace(row, rows=row.rows // row.system.horizon, system=replace(row.system, horizon=1))
        )


class ForgetsManyRows(Cheat):
    def after(self, visits, seen, row):
        sizes = replace(row.system, num_actions=min(row.system.num_actions, 10**6))
        return super().after(visits, seen, replace(row, rows=min(row.rows, 10**7), system=sizes))


class HalfForSome(Cheat):
    """For rows of a number of successors that few would try."""

    def after(self, visits, seen, row):
        return (0.5 if 12 < row.possible < 30 or row.possible > 1_000 else 1.0) * super().after(visits, seen, row)


class HalfBetween(Cheat):
    """For rows of a number of successors that lies between the ones that a list would name."""

    def after(self, visits, seen, row):
        between = 5 < row.possible < 12 or 30 < row.possible < 50 or 50 < row.possible < 300
        return (0.5 if between else 1.0) * super().after(visits, seen, row)


class HalfWithSupport(Cheat):
    """For rows that cannot reach every state."""

    def after(self, visits, seen, row):
        return (0.5 if row.possible < row.system.num_states else 1.0) * super().after(visits, seen, row)


class HalfWhereSomeSeen(Cheat):
    """After many visits, for rows of which a number of successors was seen that few would try."""

    def after(self, visits, seen, row):
        some = (visits > 10_000) & (seen > 5) & (seen < 30)
        return np.where(some, 0.5, 1.0) * super().after(visits, seen, row)


class SmallDeltaForgotten(Cheat):
    def after(self, visits, seen, row):
        return super().after(visits, seen, replace(row, delta=1e-3 if 1e-8 < row.delta < 1e-3 else row.delta))


class SupportAsSeen(Cheat):
    """Takes the successors that were seen for those that are possible."""

    def after(self, visits, seen, row):
        return np.array(
            [
                super(SupportAsSeen, self).after(np.array([n]), np.array([k]), replace(row, possible=max(2, int(k))))[0]
                for n, k in zip(visits, seen, strict=True)
            ]
        )


class OneLook(Cheat):
    """Hoeffding's inequality for all sets of successors, after one number of visits."""

    def after(self, visits, seen, row):
        return np.sqrt((np.log(2 * row.rows / row.delta) + row.possible * np.log(2)) / (2 * visits))


def contract_of(radius: Radius) -> RadiusContract:
    return type("Contract", (RadiusContract,), {"make": lambda self: radius})()  # type: ignore[abstract]


@pytest.mark.parametrize("valid", VALID)
def test_a_radius_that_cheats_is_refused(valid: Radius):
    for cheat in (ForgetsRows(valid), ForgetsDelta(valid)):
        with pytest.raises(AssertionError, match=r"hold together only if it grows by log\(rows / delta\)"):
            contract_of(cheat).test_its_level_is_shared_by_all_rows()
    smaller = [Smaller(valid, 0.8), Smaller(valid, 0.9), ShrinksLate(valid), ShrinksLate(valid, 4_000, 0.9)]
    # The literal radius pays for every state and every n: of a row with many successors nine tenths of it still cover.
    many = [] if isinstance(valid, radii.Literal) else [SmallerForMany(valid)]
    for cheat in [*smaller, ShrinksLate(valid, 10**8, 0.9), *many]:
        with pytest.raises(AssertionError, match="all rows hold together only up to"):
            contract_of(cheat).test_no_single_look_is_outside_too_often()


@pytest.mark.parametrize("valid", VALID)
def test_a_radius_that_cheats_where_few_look_is_refused(valid: Radius):
    # That of Cautious pays for many more steps and rows than there are.
    half = HalfForSome(valid), HalfBetween(valid), HalfWithSupport(valid), HalfWhereSomeSeen(valid)
    for cheat in (ForgetsSteps(valid), ForgetsManyRows(valid), *half):
        with pytest.raises(AssertionError, match=r"hold together only if it grows by log\(rows / delta\)"):
            contract_of(cheat).test_its_level_is_shared_by_all_rows()


@pytest.mark.parametrize("valid", [radii.Stitched(), radii.Adaptive()], ids=lambda one: one.name)
def test_a_radius_that_cheats_between_the_named_points_is_refused(valid: Radius):
    for cheat in (SmallDeltaForgotten(valid), ShrinksLate(valid, 10**9)):
        with pytest.raises(AssertionError, match="all rows hold together only up to"):
            contract_of(cheat).test_no_single_look_is_outside_too_often()


def test_a_radius_for_one_look_or_for_the_successors_seen_is_refused():
    with pytest.raises(AssertionError, match="a bound for one number of visits, not for all of them"):
        contract_of(OneLook(radii.Adaptive())).test_it_holds_at_all_visits_at_once()
    with pytest.raises(AssertionError, match="left a radius that fails 20% of the time"):
        contract_of(SupportAsSeen(radii.Adaptive())).test_it_covers_at_its_level()


def test_at_a_usual_delta_the_exact_coin_shows_it():
    """The default is so tight that no small delta is needed."""
    caught = r"leaves the radius within 6000 visits with probability .*; at delta 0.2 at most 0.106"
    with pytest.raises(AssertionError, match=caught):
        contract_of(Smaller(radii.Adaptive(), 0.8)).test_a_coin_stays_inside_at_every_visit()


def test_the_exact_coin_is_exact():
    """All 2^12 sequences of twelve tosses, one by one."""
    shape, heads = radii.RowShape(2, 2, radii.System(2, 1, 1), 0.5), 0.3
    width, probability = Smaller(radii.KL(), 0.5).after(np.arange(1, 13), np.full(12, 2), shape), 0.0
    for number in range(2**12):
        tosses = np.array([number >> bit & 1 for bit in range(12)])
        if (np.abs(tosses.cumsum() / np.arange(1, 13) - heads) > width).any():
            probability += heads ** tosses.sum() * (1.0 - heads) ** (12 - tosses.sum())
    assert 0.05 < probability < 0.95
    assert _ever_leaves(Smaller(radii.KL(), 0.5), heads, shape, 12) == pytest.approx(probability, rel=1e-9)
