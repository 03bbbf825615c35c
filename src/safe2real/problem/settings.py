"""Everything a run depends on besides the system and the baseline, checked before anything is deployed."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from safe2real.errors import InvalidInput
from safe2real.model.cmdp import CMDP
from safe2real.model.serialization import check_keys
from safe2real.model.validation import ROUNDING, Floats, finite_floats, finite_number, probability_of_failure, seed_number
from safe2real.radii import ALL, Adaptive, Literal, Radius
from safe2real.refinements import ALL as ALL_REFINEMENTS
from safe2real.refinements import CLEARINGS, DEFAULT, Refinement

Kind = TypeVar("Kind")


def _names_checked(kind: type[Kind]) -> type[Kind]:
    """A misspelt setting is answered as in a specification file: with the nearest one that there is."""
    begin, known = kind.__init__, tuple(inspect.signature(kind).parameters)

    @functools.wraps(begin)
    def checked(self: Kind, *positional: Any, **given: Any) -> None:
        check_keys(given, kind.__name__, required=(), optional=known)
        begin(self, *positional, **given)

    kind.__init__ = checked  # type: ignore[method-assign, assignment]
    return kind


@_names_checked
@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The numbers that are assumed, and the bounds that are used.

    The defaults are the tightest that are certified; `Settings.paper` has the paper's literal constants. A `radius` that is
    not certified or a `bonus_scale` below 1 makes a run heuristic, and everything it says is labelled so.

    Example:
        >>> s2r.Settings(margin=1.5, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.375)
    """

    margin: float | tuple[float, ...]
    """xi: by how much the baseline beats each limit or threshold on the real system; one number, or one each [K]."""
    calibrated_gap: float
    """eps_s: a row of the simulator that is right is within this TV distance of the real one; from 0 to `mismatch_gap`."""
    mismatch_gap: float
    """sigma_s: a row of the simulator that is wrong is at least this TV distance from the real one; at most 1."""
    tolerance: float
    """tau: a run stops when no feasible policy is more uncertain; above 0, at most margin / 4 with a certified radius."""
    delta: float = 0.05
    """The probability that anything promised is false, over the whole run; strictly between 0 and 1."""
    seed: int | None = None
    """Of every random number. None: coins and simulated runs are those of seed 0, and every learner draws a seed of its own
    for the environments that it runs in (`Learner.seeds`)."""
    radius: Radius = field(default_factory=Adaptive)
    """The bound on the distance between a row and its observations; `safe2real.radii`."""
    bonus_scale: float = 1.0
    """Times the bonus; below 1 nothing is proved."""
    span_bonus: bool = True
    """The bonus of step h is (H - 1 - h) times the radius, by the steps that follow, instead of H times."""
    robust_safety: bool = True
    """Safety of a candidate by its worst case over the TV balls where that is better than V_c - Delta."""
    replan_growth: float = 0.0
    """Plan again only when a suspect row has this fraction more visits than at the last plan; 0 plans every round."""

    refinements: tuple[Refinement, ...] = DEFAULT
    """Refinements that make the confidence sets smaller than the paper's (`safe2real.refinements`); () for none."""

    def __post_init__(self) -> None:
        """Refuse numbers that no guarantee can hold for; what depends on the simulator is for `Problem`.

        Raises:
            InvalidInput: with the setting, its value and the fix.
        """
        if not isinstance(self.radius, Radius):
            names = ", ".join(f"radii.{kind.__name__}()" for kind in ALL if kind.certified)
            raise InvalidInput(f"radius is {self.radius!r}; give one of {names}, or radii.Scaled(scale) for a heuristic run")
        for name in ("span_bonus", "robust_safety"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInput(f"{name} is {getattr(self, name)!r}; give True or False")
        if not 0.0 <= finite_number("replan_growth", self.replan_growth) <= 1.0:
            raise InvalidInput(f"replan_growth is {self.replan_growth:g}; give a fraction from 0 (plan every round) to 1")
        if self.seed is not None:
            seed_number("seed", self.seed)
        margin = finite_floats("margin", self.margin)
        if margin.ndim > 1:
            raise InvalidInput(f"margin has shape {margin.shape}; give one number, or one per constraint")
        if margin.ndim:  # the caller may go on changing its own list
            object.__setattr__(self, "margin", tuple(margin.tolist()))
        eps, sigma = (finite_number(name, getattr(self, name)) for name in ("calibrated_gap", "mismatch_gap"))
        if not 0.0 <= eps <= sigma <= 1.0:
            raise InvalidInput(
                f"calibrated_gap is {eps:g} and mismatch_gap {sigma:g}; the separation condition needs "
                "0 <= calibrated_gap <= mismatch_gap <= 1"
            )
        _check_refinements(self)  # which speaks of gaps that are in order
        probability_of_failure("delta", self.delta)
        tau = finite_number("tolerance", self.tolerance)
        if tau <= 0.0:
            raise InvalidInput(f"tolerance is {tau:g}; it must be positive")
        if finite_number("bonus_scale", self.bonus_scale) <= 0.0:
            raise InvalidInput(f"bonus_scale is {self.bonus_scale:g}; it must be positive (1 is the literal bonus)")

    @classmethod
    def paper(cls, *, radius: Radius | None = None, **others: Any) -> Settings:
        """Return the settings of the algorithm as the paper states it.

        The radius is literal, the bonus is H times the radius, safety goes by V_c - Delta, and no refinement is used.

        Args:
            radius: another radius than `radii.Literal()`.
            **others: further fields of `Settings`: margin, gaps, tolerance, delta, seed.

        Returns:
            The settings.

        Raises:
            InvalidInput: a value is out of its range; with the setting, its value and the fix.
        """
        return cls(radius=radius or Literal(), span_bonus=False, robust_safety=False, refinements=(), **others)

    @property
    def coin_seed(self) -> int:
        """The seed of the library's own random numbers, each a function of (seed, round, index)."""
        return 0 if self.seed is None else self.seed

    @property
    def certified(self) -> bool:
        """Whether results with these settings can be a guarantee: nothing is scaled."""
        return self.radius.certified and self.bonus_scale >= 1.0


def margins_for(settings: Settings, simulator: CMDP) -> Floats:
    """Return the stated margins, one per constraint; the settings have to fit the simulator's constraints.

    Args:
        settings: with one margin, or one per constraint.
        simulator: with K constraints.

    Returns:
        [K] margins.

    Raises:
        InvalidInput: a margin is not possible beside its threshold, or the tolerance too large for the margins.
    """
    constraints, horizon = simulator.num_constraints, simulator.horizon
    if np.shape(settings.margin) not in ((), (constraints,)):
        raise InvalidInput(f"margin is {settings.margin!r}; give one number, or one per constraint ({constraints})")
    margins = np.broadcast_to(np.asarray(settings.margin, dtype=np.float64), (constraints,)).copy()
    for k, (xi, words) in enumerate(zip(margins, simulator.wordings, strict=True)):
        room = horizon - simulator.thresholds[k]
        if not 0.0 < xi <= room + ROUNDING:
            most = "the limit itself" if words.is_cost else f"the room that the horizon {horizon} leaves above the threshold"
            raise InvalidInput(
                f"the margin of {words.label} is {xi:g}; it must be positive and at most {room:g}, {most}: "
                f"measure it with estimate_margin, or {words.loosen}"
            )
    limit = float(margins.min(initial=np.inf)) / 4.0
    if settings.certified and settings.tolerance > limit * (1.0 + 1e-12):
        raise InvalidInput(
            f"tolerance is {settings.tolerance:g}; with a certified radius it must be at most margin / 4 = {limit:g}: lower "
            "it to that"
        )
    return margins


def _check_refinements(settings: Settings) -> None:
    used = settings.refinements
    known = ", ".join(f"refinements.{kind.__name__}()" for kind in ALL_REFINEMENTS)
    if not isinstance(used, tuple) or not all(isinstance(one, ALL_REFINEMENTS) for one in used):
        raise InvalidInput(f"refinements is {used!r}; give a tuple of {known}, or () for none")
    if len({one.name for one in used}) < len(used) or sum(isinstance(one, CLEARINGS) for one in used) > 1:
        raise InvalidInput(f"refinements has {', '.join(one.name for one in used)}; give each once, and one way of clearing")
    for one in used:
        if isinstance(one, CLEARINGS) and settings.mismatch_gap / one.protection < settings.calibrated_gap:
            raise InvalidInput(
                f"protection is {one.protection:g}, so rows are cleared below {settings.mismatch_gap / one.protection:g}, "
                f"which is less than calibrated_gap, {settings.calibrated_gap:g}: no right row could be; lower it"
            )
