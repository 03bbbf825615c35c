"""Explore for a few declared rewards, and stop when each of them has a certified plan that is near the best.

Problem: as in `sim_to_real`, but accuracy is asked for named rewards instead of for every one there could be, which needs
far fewer episodes. Algorithm: bound every reward's best safe value from both sides over the confidence sets (`intervals`);
see which rows the ends depend on (`stake_of`); among the mixtures whose worst V_c over the sets reaches every threshold
deploy the one that visits those rows most, by the same search as for plans. Stopping rule: U - L <= accuracy for every
reward, of U where the accuracy is relative. Where no visit can narrow an interval any more the best certified plan is
deployed, and a notice states the accuracy that it reaches. Statement and proof: docs/declared-rewards.md.

Where to look: the stake of a row is how far the two ends of a reward's interval depend on it, that is, the occupancy of the
policy that attains an end, times the width that the row's set leaves in the values behind it, summed over steps. Three
parts: the optimistic values of the policy that attains the upper end; the pessimistic values of that same policy, for what
keeps it from being the plan; and those of the plan. All use a guess of the real system, which decides where to look and
nothing else: no certificate rests on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safe2real._compiled import codes, row_update
from safe2real.errors import InvalidInput
from safe2real.evidence.evidence import Evidence, evidence_for
from safe2real.evidence.mismatch_map import visits_to_clear
from safe2real.methods.base import Decision, Interval, Method, Reason, Recorded, candidate_share, refuted_decision
from safe2real.model.cmdp import CMDP, step_rewards, without_steps
from safe2real.model.constraint_text import rounded_down, rounded_up
from safe2real.model.policy import MarkovPolicy
from safe2real.model.serialization import array_from_json
from safe2real.model.validation import ROUNDING, Declared, Floats, by_name, finite_number, frozen, reward_floats, shown
from safe2real.planning.certified_mixture import CertifiedMixture, best_mixture, column_of, trusted_column
from safe2real.planning.evaluate import occupancy
from safe2real.planning.robust import Ceiling, RowSets, add_open, ceiling, optimistic_policy, worst_values
from safe2real.planning.solve import solve
from safe2real.problem.problem import Problem

# The interval of one reward. Lower end: the certified mixture with the best worst case (`planning.certified_mixture`).
# Upper end: Lagrangian duality over the optimistic kernels (`planning.robust`). Both are functions of the evidence; where a
# search begins may be remembered from the last one.

_NEAR = 0.02  # of the accuracy that is asked for: nearer the two ends need not be sought


@dataclass(frozen=True, eq=False, slots=True)
class IntervalSearch:
    """Both ends of the interval of one reward as found by their searches, and where the next searches start."""

    plan: CertifiedMixture
    top: Ceiling

    @property
    def start(self) -> SearchStart:
        policies = tuple(column.policy for column in self.plan.used if column is not self.plan.columns[0])
        return SearchStart(self.plan.prices, self.top.prices, policies)


@dataclass(frozen=True, eq=False, slots=True)
class SearchStart:
    """The starting point of a search: the result of the previous one."""

    plan_prices: Floats  # [K]
    top_prices: Floats  # [K]
    policies: Sequence[MarkovPolicy]


def search(
    sets: RowSets, reward: Floats, baseline: MarkovPolicy, trusted: Floats, accuracy: float, start: SearchStart | None
) -> IntervalSearch:
    """Search both bounds of one reward [1 or H, S, A]; without a `start` it begins from the model's own optimum.

    `trusted` [K] are lower bounds on V_c of the baseline, `accuracy` is the share of the value that matters.
    """
    if start is None:
        optimum = solve(sets.model, reward if reward.shape[0] > 1 else reward[0])
        prices = np.where(np.isfinite(optimum.multipliers), optimum.multipliers, 0.0)
        start = SearchStart(prices, prices, optimum.policy.policies)
    first = trusted_column(sets, baseline, reward, trusted)
    columns = [first, *(column_of(sets, policy, reward) for policy in start.policies)]
    plan = best_mixture(sets, reward, columns, prices=start.plan_prices, gain=_NEAR * accuracy)
    return IntervalSearch(plan, ceiling(sets, reward, start.top_prices, near=_NEAR * accuracy))


def interval_of(name: str, reward: Floats, found: IntervalSearch, accuracy: float, *, relative: bool) -> Interval:
    """Return the interval of a reward; `accuracy` is a share of the upper end if `relative`, else a difference."""
    lower = found.plan.value
    upper = max(lower, found.top.value)
    allowed = accuracy * upper if relative else accuracy
    return Interval(name, reward, lower, upper, found.plan.policy, found.plan.lower_bounds, allowed)


# Where to look: which rows the ends of an interval depend on.

_FALL = 0.8  # the radius that is waited for, as a share of the present one
_SETTLED = 0.9  # share of a row's stake that clearing it settles
_VISITS = np.unique(np.rint(np.geomspace(1.0, 1e8, 160)))  # [G] at which radii are tabulated
_NOISE = 0.4  # expected TV distance of n observations to their own distribution: this times sum sqrt(p (1 - p) / n)
_LUCK = 1.3  # the sequential test takes longer than its slowest set is expected to


def guess_of(evidence: Evidence) -> CMDP:
    """Return a guess of the real system: the simulator's rows, and the observed ones where the simulator's are proved wrong.

    In unvisited rows the simulator is a better guess than a uniform row, which would make everything reachable.
    """
    return evidence.problem.simulator.with_kernel(evidence.view(proved_wrong(evidence)))


def proved_wrong(evidence: Evidence) -> NDArray[np.bool_]:
    """[R] suspect rows that are proved to lie farther from the simulator's than a right row may."""
    belief = evidence.belief
    return np.asarray(belief.suspect & (belief.low > evidence.rule.cleared_gap + ROUNDING))


def stake_of(sets: RowSets, guess: CMDP, reward: Floats, found: IntervalSearch) -> Floats:
    """[R] how far the interval of one reward [1 or H, S, A] depends on each row, as a share of its upper end."""
    model, stake = sets.model, np.zeros(sets.gaps.size)
    unit = 1.0 / max(found.top.value, ROUNDING)
    utilities, rows = list(model.compiled_arrays.utilities), guess.kernel.compiled_rows

    def add(values: Floats, visits: Floats, weight: float) -> None:
        if weight > 0.0:
            add_open(sets, rows, values, visits, weight, stake)

    prices = found.top.prices
    weighted = reward + np.tensordot(prices, model.utilities, axes=1) if prices.size else reward
    best, values = optimistic_policy(sets, weighted)
    visits = occupancy(guess, best)
    add(-values, visits, unit)
    add(worst_values(sets, best, reward), visits, unit)
    for price, utility in zip(prices, utilities, strict=True):
        if price > 0.0:
            add(worst_values(sets, best, utility), visits, unit * price)
    first = found.plan.columns[0]
    for column, share in zip(found.plan.columns, found.plan.weights, strict=True):
        if share <= 0.0:
            continue
        visits = occupancy(guess, column.policy)
        add(worst_values(sets, column.policy, reward), visits, unit * share)
        for price, utility in zip(found.plan.prices if column is not first else (), utilities, strict=False):
            if price > 0.0:  # of the baseline, V_c is trusted
                add(worst_values(sets, column.policy, utility), visits, unit * share * price)
    return stake


def rates(evidence: Evidence) -> Floats:
    """[R] the share of a row's stake that one visit is expected to settle; 0 where visits change nothing."""
    visits, belief = evidence.visits.reshape(-1).astype(np.float64), evidence.belief
    radius, clearing = _tables(evidence.problem, evidence.reuses_simulator)
    target = _FALL * np.minimum(belief.gap, 1.0)
    shrinks = _visits_for(radius, target) - visits
    cleared = clearing - visits
    rate = (1.0 - _FALL) / np.maximum(shrinks, 1.0)
    rate = np.maximum(rate, np.where(proved_wrong(evidence), 0.0, _SETTLED / np.maximum(cleared, 1.0)))
    return np.where(belief.suspect & (belief.gap > 0.0), rate, 0.0)


@lru_cache(maxsize=8)
def _tables(problem: Problem, reuses_simulator: bool) -> tuple[Floats, Floats]:
    """Return (radii [G, R] by visits, visits [R] after which a right row is expected to be cleared)."""
    evidence = evidence_for(problem, reuses_simulator=reuses_simulator, keeps_safe=True)
    rule, tally = evidence.rule, evidence.counts.tally
    seen = np.maximum(tally.simulator_length.astype(np.int64), 1)
    radius = np.empty((_VISITS.size, seen.size))
    for line, visits in zip(radius, _VISITS, strict=True):
        row_update.radii(rule, np.full(seen.size, visits), seen, np.ones(seen.size, dtype=np.bool_), line)
    kernel = problem.simulator.kernel
    rows, _, probability = kernel.transitions()
    noise = np.bincount(rows, np.sqrt(probability * (1.0 - probability)), minlength=seen.size)
    expected = radius + _NOISE * noise / np.sqrt(_VISITS)[:, None]
    if rule.clearing == codes.SEQUENTIAL:
        return radius, _LUCK * visits_to_clear(evidence, np.zeros(seen.size), as_seen=False)
    limit = rule.threshold if rule.clearing == codes.HALFWAY else rule.clearing_gap
    return radius, _visits_for(expected, np.full(seen.size, limit))


def _visits_for(table: Floats, target: Floats) -> Floats:
    """[R] visits at which the falling columns of `table` [G, R] reach `target` [R]; inf where they do not."""
    at = (table > target).sum(axis=0)
    return np.where(at < _VISITS.size, _VISITS[np.minimum(at, _VISITS.size - 1)], np.inf)


MOST_REWARDS = 100
_GROWTH, _MORE = 1.1, 3  # a plan stands until a row that matters has over _GROWTH times its visits plus _MORE
_LATEST = 1.5  # and at the latest until there are over _LATEST times the samples, plus _MORE for every row
_LEAST = ROUNDING  # share of a policy in a mixture, below which it is left out
_INDEX_ROUNDS, _INDEX_GAIN = 4, 1e-2  # exploring needs no exact optimum


@dataclass(frozen=True, eq=False, slots=True)
class SearchMemory:
    """The starting points of the next search, and the rows that this decision depends on."""

    starts: dict[str, SearchStart]  # by reward
    exploring: SearchStart | None
    matters: NDArray[np.bool_]  # [R] rows for which the decision was made
    suspects: NDArray[np.bool_]  # [R] at that time


@dataclass(frozen=True, eq=False, slots=True)
class ForRewards(Method):
    """Explore until every declared reward has a certified plan within `accuracy` of the best safe policy.

    Guarantee: under the margin and the separation condition, with probability at least 1 - delta every proposed mixture
    meets every constraint on the real system, and at the stop, for every declared reward r, the certified plan is worth at
    least L_r, no safe policy more than U_r, and U_r - L_r <= accuracy, times U_r if `relative`. Plans for other rewards
    are possible at any time, with a bound of their own. Safety never depends on the rewards.

    Example:
        >>> method = s2r.methods.ForRewards({"goal": reward}, accuracy=0.05)
        >>> s2r.Learner(problem, method)
    """

    rewards: Mapping[str, ArrayLike]
    """By name, each [S], [S, A] or [H, S, A] in [0, 1]."""
    accuracy: float = 0.05
    relative: bool = True
    """Whether the accuracy is a share of the best value instead of a difference."""

    name: ClassVar[str] = "declared rewards"
    covers_any_reward: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.rewards, Mapping) or not 1 <= len(self.rewards) <= MOST_REWARDS:
            raise InvalidInput(
                f'rewards is {shown(self.rewards)}; give 1 to {MOST_REWARDS} by name, like {{"goal": reward}}'
            )
        # In the order of their names, in which records keep them: sums must not depend on who declared them when.
        checked = {name: _reward(name, reward) for name, reward in sorted(by_name("rewards", self.rewards).items())}
        object.__setattr__(self, "rewards", Declared(checked))
        accuracy = finite_number("accuracy", self.accuracy)
        if accuracy <= 0.0:
            raise InvalidInput(f"accuracy is {accuracy:g}; it must be positive, e.g. 0.05 for a twentieth of the best value")
        object.__setattr__(self, "accuracy", accuracy)
        if not isinstance(self.relative, bool):
            raise InvalidInput(f"relative is {shown(self.relative)}; give True or False")
        if self.relative and accuracy > 1.0:
            raise InvalidInput(
                f"accuracy is {accuracy:g} of the best value, so every policy would do; give a share of at most 1, or "
                "relative=False for a difference"
            )

    def changed(self, add: Mapping[str, ArrayLike], drop: Iterable[str] = ()) -> ForRewards:
        """Return the same method with rewards added or dropped.

        Args:
            add: rewards by name, each [S], [S, A] or [H, S, A] in [0, 1].
            drop: the names of rewards to leave out, or one name.

        Returns:
            The new method; this one stays as it is.

        Raises:
            InvalidInput: a name is declared already, is not declared, or no reward would be left.
        """
        if not isinstance(drop, Iterable):
            raise InvalidInput(f"drop is {shown(drop)}; give the names of the rewards to leave out")
        gone = [drop] if isinstance(drop, str) else list(drop)
        if not isinstance(add, Mapping):
            raise InvalidInput(f'rewards is {shown(add)}; give them by name, like {{"goal": reward}}')
        unknown = [name for name in gone if name not in self.rewards]
        if unknown:
            raise InvalidInput(f"no reward is called {shown(unknown[0])}; declared are {', '.join(self.rewards)}")
        kept = {name: reward for name, reward in self.rewards.items() if name not in gone}
        twice = [name for name in add if name in kept]
        if twice:
            raise InvalidInput(f"a reward is called {shown(twice[0])} already; drop that one, or choose another name")
        if not kept and not add:
            raise InvalidInput("no reward would be left; declare another one, or end the run")
        return replace(self, rewards={**kept, **add})

    def evidence(self, problem: Problem) -> Evidence:
        """Create evidence with nothing counted yet; see `Method.evidence`.

        Args:
            problem: the problem to explore.

        Returns:
            Evidence without episodes.

        Raises:
            InvalidInput: the rewards or settings do not fit, as `check` says.
        """
        self.check(problem)
        return Method.evidence(self, problem)

    def check(self, problem: Problem) -> None:
        """Refuse rewards of another shape, and settings that forbid the worst case over the confidence sets.

        Args:
            problem: the problem to explore.

        Raises:
            InvalidInput: a reward does not fit the simulator, or `robust_safety` is False.
        """
        if not problem.settings.robust_safety:
            raise InvalidInput("robust_safety is False; declared rewards rest on worst cases over the sets: set it to True")
        _steps_of(self, problem.simulator)

    # Deciding

    def propose(self, problem: Problem, evidence: Evidence, *, seed: int, round_number: int, memory: Any = None) -> Decision:
        """Decide one round: stop if every interval is accurate, otherwise visit the rows on which the intervals depend.

        Args:
            problem: the fixed inputs and assumptions.
            evidence: the data so far.
            seed: not used; the decision needs no random numbers.
            round_number: not used.
            memory: of the previous decision, to start the search from.

        Returns:
            The decision, with the interval of every declared reward.
        """
        over = refuted_decision(evidence)
        if over is not None:
            return over
        rewards, sets = _steps_of(self, problem.simulator), evidence.sets
        known = memory if isinstance(memory, SearchMemory) else None
        found = self._found(problem, evidence, sets, rewards, {} if known is None else known.starts)
        intervals = self._intervals(rewards, found)
        if known is not None and all(one.is_accurate for one in intervals):
            # A stop has to be found again from the data alone, wherever the search began here.
            found = self._found(problem, evidence, sets, rewards, {})
            intervals = self._intervals(rewards, found)
        uncertainty = self.accuracy * max(one.gap for one in intervals)
        starts = {name: one.start for name, one in found.items()}
        if all(one.is_accurate for one in intervals):
            nothing = np.zeros(sets.gaps.size, dtype=np.bool_)
            after = SearchMemory(starts, None, nothing, nothing)
            return Decision(Reason.STOP, uncertainty=uncertainty, memory=after, intervals=intervals)
        guess, stake = guess_of(evidence), np.zeros(sets.gaps.size)
        for one in intervals:
            if not one.is_accurate:
                stake += stake_of(sets, guess, one.reward, found[one.name])
        index = evidence.credit(stake) * rates(evidence)
        if not index.max() > 0.0:  # no stake that visits could settle: visit any open row
            index = evidence.credit(np.where(evidence.belief.suspect, sets.gaps, 0.0))
        if index.max() > 0.0:
            notice, before = "", None if known is None else known.exploring
            exploring = _exploring(problem, evidence, sets, guess, index, before)
        else:  # no row is open, so no visit narrows an interval: deploy the plan whose interval misses the accuracy most
            notice = _out_of_reach(intervals, evidence.rule.cleared_gap)
            exploring = found[max(intervals, key=lambda one: one.gap).name].plan
        others = [one.policy for one in exploring.used if one is not exploring.columns[0]]
        start = SearchStart(exploring.prices, exploring.prices, others)
        after = SearchMemory(starts, start, (index > 0.0) | bool(notice), evidence.belief.suspect.copy())
        decision = _decision(problem, evidence, exploring, uncertainty, after)
        return replace(decision, intervals=intervals, notice=notice)

    def is_due(self, evidence: Evidence, planned: NDArray[np.int64], memory: Any) -> bool:
        """Tell whether to plan again: a row that matters has a tenth and some more visits, or was cleared.

        At the latest it does when the samples have grown by half: the candidate was planned on a guess, and a real system
        that leads it elsewhere may never show the rows that it was made for.

        Args:
            evidence: with the episode counted.
            planned: [R] visits of each row when the standing decision was made.
            memory: of that decision.

        Returns:
            Whether to call `propose` again.
        """
        if not isinstance(memory, SearchMemory):
            return True
        suspect, visits = evidence.belief.suspect, evidence.pool(evidence.counts.tally.visits)
        before = evidence.pool(planned)
        if suspect.any() and visits.sum() > _LATEST * before.sum() + _MORE * suspect.size:
            return True
        visited = suspect & (visits > _GROWTH * before + _MORE)
        return bool((memory.matters & (visited | (memory.suspects & ~suspect))).any())

    def recheck(self, recorded: Recorded, evidence: Evidence, now: Decision) -> Floats:
        """Return the worst V_c of the recorded candidate over the sets; why it was chosen does not matter for safety.

        Args:
            recorded: the candidate and its claims, from the record.
            evidence: all episodes counted before the candidate was handed out.
            now: not used.

        Returns:
            [K] lower bounds on V_c of the candidate.
        """
        return evidence.lower_bounds(recorded.candidate)

    # Looking

    def stops_at(self, problem: Problem) -> float:
        """Return the accuracy: the uncertainty at or below which the method stops.

        Args:
            problem: not used.

        Returns:
            `accuracy`.
        """
        return self.accuracy

    def intervals(self, problem: Problem, evidence: Evidence) -> tuple[Interval, ...]:
        """Return the interval of every declared reward, computed from the data alone.

        Args:
            problem: the problem that is explored.
            evidence: the data so far.

        Returns:
            One interval for each declared reward; empty once an assumption is refuted.
        """
        if evidence.is_refuted:
            return ()
        rewards = _steps_of(self, problem.simulator)
        return self._intervals(rewards, self._found(problem, evidence, evidence.sets, rewards, {}))

    def _found(
        self, problem: Problem, evidence: Evidence, sets: RowSets, rewards: dict[str, Floats], starts: dict[str, SearchStart]
    ) -> dict[str, IntervalSearch]:
        baseline, trusted, accuracy = problem.baseline, evidence.trusted, self.accuracy
        if not self.relative:
            accuracy /= problem.simulator.horizon
        return {
            name: search(sets, reward, baseline, trusted, accuracy, starts.get(name)) for name, reward in rewards.items()
        }

    def _intervals(self, rewards: dict[str, Floats], found: dict[str, IntervalSearch]) -> tuple[Interval, ...]:
        return tuple(
            interval_of(name, reward, found[name], self.accuracy, relative=self.relative) for name, reward in rewards.items()
        )


@lru_cache(maxsize=8)
def _steps_of(method: ForRewards, model: CMDP) -> dict[str, Floats]:
    """The declared rewards as [1 or H, S, A], by name; validated once for a method and a system, which never change."""
    return {
        name: step_rewards(model, f"rewards.{name}", reward, unit_interval=True) for name, reward in method.rewards.items()
    }


def redeclared(method: Method, add: Mapping[str, ArrayLike] | None, drop: Iterable[str]) -> ForRewards:
    """Return the method with other rewards, as `ForRewards.changed` does.

    Raises:
        InvalidInput: the method is no `ForRewards`, nothing would change, or `changed` refuses the names.
    """
    if not isinstance(method, ForRewards):
        raise InvalidInput(
            f"the method {method.name!r} explores for every reward; to declare some, begin with methods.ForRewards(...)"
        )
    changed = method.changed({} if add is None else add, drop)
    if not add and changed.rewards.keys() == method.rewards.keys():
        raise InvalidInput("nothing is declared: there is no reward to add and none to drop; name one")
    return changed


def _reward(name: str, value: Any) -> Floats:
    place = f"rewards.{name}"
    reward = reward_floats(place, array_from_json(value, place))
    if reward.ndim not in (1, 2, 3) or 0 in reward.shape or not ((reward >= 0.0) & (reward <= 1.0)).all():
        extent = f"[{reward.min():g}, {reward.max():g}]" if reward.size else "nothing"
        raise InvalidInput(
            f"{place} has shape {reward.shape} and lies in {extent}; give (S,), (S, A) or (H, S, A) in [0, 1]: shift it, "
            "and divide it by its largest value, which leaves the best policies the best"
        )
    return frozen(reward)


def _out_of_reach(intervals: tuple[Interval, ...], cleared_gap: float) -> str:
    """Return the notice that the accuracy is out of reach: the accuracy reached, and the fix."""
    reached = "; ".join(
        f"the plan for {one.name!r} is within {rounded_up(one.upper - one.lower)} of the best (asked: "
        f"{rounded_down(one.allowed)})"
        for one in intervals
        if not one.is_accurate
    )
    gap = f", or state a calibrated_gap below {cleared_gap:.4g} in a new run if the simulator is that good"
    return (
        "the accuracy is out of reach: no row is open any more, so further episodes narrow no interval. Reached is: "
        f"{reached}. The best certified plan is deployed from now on, and the run does not stop by itself; ask for a larger "
        f"accuracy{gap if cleared_gap > 0.0 else ''}"
    )


def _exploring(
    problem: Problem, evidence: Evidence, sets: RowSets, guess: CMDP, index: Floats, start: SearchStart | None
) -> CertifiedMixture:
    """Return the certified mixture of the largest index [R] on the guess, with V_c at its worst over the sets."""
    model = sets.model
    steps = model.kernel.num_rows // (model.num_states * model.num_actions)
    table = (index / index.max()).reshape(steps, model.num_states, model.num_actions)
    reward = step_rewards(model, "index", without_steps(table), unit_interval=True)  # of visits: none is made at the end
    exactly = RowSets(guess, np.zeros(index.size), evidence.reach)
    first = trusted_column(sets, problem.baseline, reward, evidence.trusted, exactly)
    # The baseline counts for its trusted values alone, by which the deployed mixture is certified.
    first = replace(first, line=np.array([first.line[0], *evidence.trusted]))
    policies, prices = ((), None) if start is None else (start.policies, start.plan_prices)
    columns = [first, *(column_of(sets, policy, reward, exactly) for policy in policies)]
    return best_mixture(sets, reward, columns, prices=prices, reward_balls=exactly, rounds=_INDEX_ROUNDS, gain=_INDEX_GAIN)


def _decision(
    problem: Problem, evidence: Evidence, found: CertifiedMixture, uncertainty: float, memory: SearchMemory
) -> Decision:
    """Return a mixture, whose first column is the baseline, as candidate and share; without other columns the baseline."""
    others = [
        (weight, column) for weight, column in zip(found.weights[1:], found.columns[1:], strict=True) if weight > _LEAST
    ]
    total = float(sum(weight for weight, _ in others))
    if not total > 0.0:
        return Decision(Reason.BASELINE, uncertainty=uncertainty, memory=memory)
    weights = tuple(float(weight) / total for weight, _ in others)
    lower = np.array([weight * column.line[1:] for weight, (_, column) in zip(weights, others, strict=True)]).sum(axis=0)
    share = min(total, candidate_share(lower, problem.simulator.thresholds, evidence.margins))
    policies = tuple(column.policy for _, column in others)
    return Decision(Reason.MIXTURE, policies, weights, share, lower, uncertainty, memory)
