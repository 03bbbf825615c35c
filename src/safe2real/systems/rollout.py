"""Rollouts of plans: episodes in an environment, means with confidence intervals, compared with the plan's bounds.

The value is the sum of the reward that was planned for, the costs are those of the constraints, both by the model's tables
along what the environment did. All intervals hold together with probability 1 - delta, and at every number of episodes at
once (`evidence.mean_bounds`): look as often as you like. They are about the environment that was run, and nothing else.
"""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import repeat, zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safe2real.errors import InvalidInput
from safe2real.evidence.mean_bounds import mean_bounds
from safe2real.model.cmdp import CMDP, step_rewards
from safe2real.model.constraint_text import count, rounded_down, rounded_up
from safe2real.model.environment_seeds import entropy_of, unused_seed
from safe2real.model.policy import Agent, Translation, carried_out, fitted, mixture_of
from safe2real.model.trajectory import Trajectory, utilities_along, with_end
from safe2real.model.validation import ROUNDING, Floats, frozen, positive_integer, probability_of_failure
from safe2real.progress import Report, progress_bar
from safe2real.standing import Standing
from safe2real.systems.measure import spans

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Agreement(StrEnum):
    """The interval that was observed, compared with the bound that was promised."""

    CONFIRMED = "confirmed"
    """The whole interval keeps the promise."""
    CONSISTENT = "consistent"
    """The interval reaches to both sides of the promise: more episodes would tell."""
    CONTRADICTED = "contradicted"
    """The whole interval breaks the promise: an assumption is false here, or something that is unlikely has happened."""
    NOTHING_PROMISED = "nothing promised"


@dataclass(frozen=True, slots=True)
class Observed:
    """One quantity, in the user's words: the mean over episodes, and an interval for its expectation."""

    name: str
    mean: float
    low: float
    high: float
    relation: str  # ">=" or "<=": on which side of `promised` it was promised to be
    promised: float | None  # by the plan; None where nothing was

    @property
    def agreement(self) -> Agreement:
        """Whether the interval satisfies the bound, violates it, or leaves it open."""
        if self.promised is None:
            return Agreement.NOTHING_PROMISED
        sign = 1.0 if self.relation == ">=" else -1.0
        worst, best = sorted((sign * self.low, sign * self.high))
        if best < sign * self.promised - ROUNDING:
            return Agreement.CONTRADICTED
        return Agreement.CONFIRMED if worst >= sign * self.promised - ROUNDING else Agreement.CONSISTENT

    def describe(self) -> str:
        """Say the mean, its interval, and whether they agree with the promise.

        Returns:
            One line.
        """
        ends = f"[{rounded_down(self.low)}, {rounded_up(self.high)}]"
        found = f"{self.name}: {self.mean:.6g} on average, expected in {ends}"
        if self.promised is None:
            return f"{found}; nothing was promised"
        promised = rounded_down(self.promised) if self.relation == ">=" else rounded_up(self.promised)
        return f"{found}; promised {self.relation} {promised}: {self.agreement}"


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Rollout:
    """Measured episodes of a plan or a policy; `describe()` reports them in words."""

    episodes: int
    delta: float  # all intervals hold together with probability 1 - delta
    value: Observed | None  # of the reward that was planned for; None where there is none
    constraints: tuple[Observed, ...]  # [K] in the words in which they were written
    standing: Standing | None  # of the promises; None of a policy without a certificate
    values: Floats  # [n] of each episode; zeros without a reward
    sums: Floats  # [n, K] V_c of each episode: H minus the cost, where a constraint is a cost
    returns: Floats  # [n] the environment's own rewards, summed: no range of them is known, so no interval
    uncounted: Floats  # [K] mean cost of where the last step led to, least over actions: no part of any sum or promise
    trajectories: tuple[Trajectory, ...]  # [n] what happened: for `estimate_margin` and `Learner.import_episodes`
    seed: int  # that was given, or drawn: it gives the same episodes again

    def __repr__(self) -> str:
        return f"Rollout({count(self.episodes, 'episode')}: see describe())"

    @property
    def contradicted(self) -> tuple[Observed, ...]:
        """Quantities whose interval contradicts the plan's bound."""
        found = (*self.constraints, *(() if self.value is None else (self.value,)))
        return tuple(one for one in found if one.agreement is Agreement.CONTRADICTED)

    def describe(self) -> str:
        """Say what was observed, how certain it is, and whether it agrees with the promises.

        Returns:
            Some lines of text.
        """
        sure = f"all intervals hold with probability {1.0 - self.delta:g}, at every number of episodes (betting)"
        head = f"{count(self.episodes, 'episode')} of this environment; {sure}."
        lines = [head, *(f"  {one.describe()}" for one in (self.value, *self.constraints) if one is not None)]
        for one, more in zip(self.constraints, self.uncounted.tolist(), strict=True):
            if more > 0.0:
                lines.append(f"  {one.name}, NOT COUNTED: {more:.6g} on average for where the last step led to")
        lines.append(f"  its own rewards: {self.returns.mean():.6g} on average (no interval: no range is known)")
        if self.standing is not None and not self.standing.is_guarantee:
            lines.append(f"  The promises are {self.standing}, not a guarantee.")
        return "\n".join(lines)


def _after_the_last(model: CMDP, seen: Sequence[Trajectory]) -> Floats:
    """[K] mean cost of the states that the last steps led to, least over actions; 0 for a constraint that is no cost."""
    if model.counts_end:
        return frozen(np.zeros(model.num_constraints))
    ends = np.array([one.states[-1] for one in seen], dtype=np.int64)
    least = 1.0 - model.utilities[:, -1].max(axis=2)[:, ends].mean(axis=1)
    return frozen(np.where(model.costs, least, 0.0))


def _episode(env: Any, agent: Agent, horizon: int, seed: int) -> tuple[list[int], list[int], float]:
    """(states [H + 1], actions [H], sum of the environment's rewards) of one episode."""
    agent.reset()
    observed, _ = env.reset(seed=seed)
    states, actions, total = [int(observed)], [], 0.0
    for _ in range(horizon):
        actions.append(agent(states[-1]))
        observed, reward, _, _, _ = env.step(actions[-1])
        states.append(int(observed))
        total += float(reward)
    return states, actions, total


def _reward_table(model: CMDP, plan: Any, reward: ArrayLike | None) -> Floats | None:
    """[1 or H, S, A] what the value is a sum of; None where it is not known."""
    if reward is None:
        made = getattr(plan, "origin", None)
        return None if made is None else made.reward
    return step_rewards(model, "reward", reward, unit_interval=True)


def _along(table: Floats, model: CMDP, states: NDArray[Any], actions: NDArray[Any]) -> float:
    if len(table) == model.horizon:  # which says what the end pays; one for all steps is for those with an action
        states, actions = with_end(model, states, actions)
    steps = np.arange(len(actions)) if len(table) > 1 else 0
    return float(table[steps, states[:-1], actions].sum())


def _check_wordings(model: CMDP, certificate: Any) -> None:
    """Refuse promises about other constraints: held against these, they would confirm or contradict nothing."""
    if certificate is None:
        return
    pairs = zip_longest(certificate.wordings[: len(certificate.lower_bounds)], model.wordings)
    for k, (promised, here) in enumerate(pairs):
        if promised is not None and promised != here:
            written = "none" if here is None else f"{here.quantity} {here.relation} ... over {here.horizon} steps"
            raise InvalidInput(
                f"constraint {k} of the plan's certificate is {promised.quantity} {promised.relation} ... over "
                f"{promised.horizon} steps, and that of this system is {written}; run the plan in the system that it was "
                "made for, or give its policy alone (plan.policy), of which nothing is promised"
            )


def _observed_value(
    values: Floats, table: Floats, model: CMDP, known: ArrayLike | None, alpha: float, plan: Any, planned: bool
) -> Observed:
    """The value beside the plan's lower bound, which is about the reward that was planned for."""
    paid = np.zeros(model.shape)
    paid[: len(table) if len(table) > 1 else model.steps] = table  # one for all steps is for those with an action
    ((least, most),) = spans(model, known=known, sums=[paid])
    low, high = mean_bounds(values, alpha, low=least, high=most)
    return Observed(
        "value", float(values.mean()), low, high, ">=", _finite(getattr(plan, "value", None) if planned else None)
    )


def _finite(promised: float | None) -> float | None:
    """A plan of an infeasible problem has no value and no bound: nothing is promised then."""
    return float(promised) if promised is not None and math.isfinite(promised) else None


def _observed_constraints(
    sums: Floats, model: CMDP, ranges: Sequence[tuple[float, float]], alpha: float, certificate: Any
) -> tuple[Observed, ...]:
    found = []
    bounds = None if certificate is None else certificate.lower_bounds
    for k, (words, (low, high)) in enumerate(zip(model.wordings, ranges, strict=True)):
        ends = mean_bounds(sums[:, k], alpha, low=low, high=high)
        least, most = sorted(words.number(end) for end in ends)
        promised = _finite(words.number(bounds[k])) if bounds is not None and k < len(bounds) else None
        found.append(Observed(words.label, words.number(sums[:, k].mean()), least, most, words.relation, promised))
    return tuple(found)


class Runnable:
    """The methods of every system: a plot, an agent for the environment, and rollouts of plans with intervals."""

    __slots__ = ()

    @property
    @abstractmethod
    def translation(self) -> Translation:
        """Between the environment's observations and actions and the model's numbers."""

    def plot(self: Any, path: str | os.PathLike[str] | None = None) -> Figure:
        """The system: its states where they lie, with start, costs and ends; without positions, which leads to which.

        Args:
            path: where to keep it, e.g. "system.png"; nowhere if None.

        Returns:
            A matplotlib figure; no display is needed.

        Raises:
            MissingExtra: matplotlib is not installed.
            InvalidInput: the path cannot be written.
        """
        from safe2real.plots.style import kept
        from safe2real.plots.system import draw_system

        return kept(draw_system(self.model), path)

    def agent(self: Any, policy: Any, *, seed: int = 0) -> Agent:
        """Return an agent that follows a policy, or a plan's policy, in the environment's own observations and actions.

        Call `agent.reset()` before every episode, then `agent(observation)` for each action. Where states can be entered at
        several costs it has to be told the last step's reward too: `agent(observation, reward=reward)`.
        """
        return Agent(mixture_of(policy), seed=seed, system=self)

    def rollout(
        self: Any,
        plan: Any,
        env: Any,
        episodes: int,
        *,
        seed: int | None = None,
        reward: ArrayLike | None = None,
        delta: float = 0.05,
        progress: bool | Report | None = None,
    ) -> Rollout:
        """Run a plan, or a policy, for some episodes of `env`: this environment, or another that shows the same states.

        Args:
            plan: a plan, a Mixture or a MarkovPolicy. Each episode draws one policy of a mixture.
            env: as for `as_env`.
            episodes: how many; all of them count.
            seed: of the policy and of the environment: the same gives the same episodes again. None draws one, which
                `Rollout.seed` keeps. No episode of a rollout has the environment seed of another.
            reward: [S, A] or [H, S, A] in [0, 1]; the one that was planned for if None.
            delta: probability that some interval is wrong.
            progress: a bar with the time left: True, False, or None for one on terminals; or a function of (done, in all).

        Returns:
            Means and intervals, beside what the plan promises.

        Raises:
            InvalidInput: what does not fit; and what the environment raises, such as `OutsideModel`.

        Guarantee: if episodes are independent and alike, with probability at least 1 - `delta` every interval holds the
        expectation of its quantity in this environment. Reference: `evidence.mean_bounds`.
        """
        shown, model = self.as_env(env), self.model
        known = getattr(self, "known", None)  # of `from_dynamics` no row is known by construction
        seed = entropy_of(seed)
        agent = Agent(carried_out(fitted(mixture_of(plan), model, "the policy"), model), seed=seed)
        certificate = getattr(plan, "certificate", None)
        _check_wordings(model, certificate)
        episodes, delta = positive_integer("episodes", episodes), probability_of_failure("delta", delta)
        table = _reward_table(model, plan, reward)
        values, sums, returns = np.zeros(episodes), np.zeros((episodes, model.num_constraints)), np.zeros(episodes)
        seen: list[Trajectory] = []
        rng, used = np.random.default_rng((seed, 0x5EED)), set[int]()
        resets = (int(rng.integers(2**31)) for _ in repeat(None))
        with progress_bar("episodes", progress) as report:
            for i in range(episodes):
                own = unused_seed(resets, used)
                states, actions, returns[i] = _episode(shown, agent, model.steps, own)
                seen.append(Trajectory.of(model, states, actions, seed=own))
                sums[i] = utilities_along(model, states, actions).sum(axis=1)
                if table is not None:
                    values[i] = _along(table, model, np.asarray(states), np.asarray(actions))
                if report is not None:
                    report(i + 1, episodes)
        alpha = delta / (2 * (model.num_constraints + (table is not None)) or 1)
        return Rollout(
            episodes=episodes,
            delta=delta,
            value=None if table is None else _observed_value(values, table, model, known, alpha, plan, reward is None),
            constraints=_observed_constraints(sums, model, spans(model, known=known), alpha, certificate),
            standing=None if certificate is None else certificate.standing,
            values=frozen(values),
            sums=frozen(sums),
            returns=frozen(returns),
            uncounted=_after_the_last(model, seen),
            trajectories=tuple(seen),
            seed=seed,
        )
