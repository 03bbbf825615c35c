"""Run a `PolicyTrial` on a Gymnasium environment: any observations, any actions, policies that are functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from safe2real.errors import InvalidInput, OutsideModel, Stopped
from safe2real.exploration.policy_trial import CANDIDATE, PolicyTrial, Turn
from safe2real.model.validation import check_function, check_reset, finite_number, positive_integer, shown
from safe2real.progress import Report, progress_bar

Act = Callable[[Any], Any]  # observation -> action
Cost = Callable[[Any, Any, dict[str, Any]], float]  # (observation, action, info) -> what the step costs, or is worth
RETURN = "return"


def trial_run(
    env: Any,
    candidate: Act,
    baseline: Act,
    trial: PolicyTrial,
    *,
    episodes: int,
    cost: Cost | None = None,
    progress: Report | bool | None = None,
) -> list[Turn]:
    """Ask, run the one whose turn it is, tell; until the trial stops, or for `episodes` episodes.

    The constraint value of an episode is the sum of info["cost"] over its steps, or of `cost`. A reward of the trial that is
    called "return" is the sum of the environment's rewards; any other is the sum of info[its name]. Whatever the environment
    or a policy raises, an interrupt too, the episode counts for the worst and the exception is raised again. What can be
    seen to be wired wrongly without a step of the environment is refused before an episode is asked for.

    Args:
        env: a Gymnasium environment, the real one; it is reset with a function of the trial's seed and number and of the
            episode, never twice with the same.
        candidate: observation -> action.
        baseline: observation -> action, the one whose margin is known.
        trial: it is changed, by every episode.
        episodes: at most.
        cost: (observation before the step, action, info) -> number, for environments that report none.
        progress: shows a bar with the time left: True always, False never, None on a terminal; or a function that is told
            (episodes done, in all).

    Returns:
        The turns in order, each with its certificate.

    Raises:
        InvalidInput: an argument is not what it should be, or the environment reports no cost.
        OutsideModel: an episode left a range that was stated; it is recorded, and nothing is certified any more.
        Halted: the data refute the baseline's margin: stop the machine. `trial` has all that happened.
        Exception: whatever the environment or a policy raised.

    Example:
        >>> trial_run(env, lambda seen: model.predict(seen)[0], damping, trial, episodes=1_000)
    """
    _check_wiring(env, trial, cost)
    for name, act in (("candidate", candidate), ("baseline", baseline)):
        check_function(name, act, "observation")
    if callable(progress):
        check_function("progress", progress, "done, total")
    episodes, turns = positive_integer("episodes", episodes), list[Turn]()
    seeds = trial.seeds()
    with progress_bar("episodes", progress) as report:
        for done in range(episodes):
            try:
                turn = trial.ask()
            except Stopped:
                break
            turns.append(turn)
            act = candidate if turn.policy == CANDIDATE else baseline
            try:
                value, sums = _episode(env, act, trial, seeds.of_round(turn.number), cost)
            except BaseException:
                trial.tell(None)
                raise
            try:
                trial.tell(value, sums)
            except OutsideModel:  # it is recorded
                raise
            except InvalidInput:  # a sum that is no finite number; it was run, so it is not to be run anew
                trial.tell(None)
                raise
            if report is not None:
                report(done + 1, episodes)
    return turns


def _check_wiring(env: Any, trial: Any, cost: Any) -> None:
    """Refuse what could not run; the environment is not touched, since what it does is an episode."""
    if not (callable(getattr(env, "reset", None)) and callable(getattr(env, "step", None))):
        raise InvalidInput(f"env is a {type(env).__name__}; give a Gymnasium environment")
    check_reset(env)
    check_function("env.step", env.step, "action")
    if not isinstance(trial, PolicyTrial):
        raise InvalidInput(f"trial is {shown(trial)}; give a PolicyTrial")
    if cost is not None:
        check_function("cost", cost, "observation, action, info")


def _episode(env: Any, act: Act, trial: PolicyTrial, seed: int, cost: Cost | None) -> tuple[float, dict[str, float]]:
    """(constraint value, sums of the rewards) of one episode."""
    total, sums = 0.0, dict.fromkeys(trial.terms.rewards, 0.0)
    seen, _ = env.reset(seed=seed)
    over = False
    while not over:
        action = act(seen)
        after, reward, terminated, truncated, info = env.step(action)
        total += finite_number("the cost of a step", _read(info, "cost") if cost is None else cost(seen, action, info))
        for name in sums:
            sums[name] += finite_number(name, reward if name == RETURN else _read(info, name))
        seen, over = after, terminated or truncated
    return total, sums


def _read(info: Any, name: str) -> Any:
    if not isinstance(info, dict) or name not in info:
        cure = "; give cost=function(observation, action, info)" if name == "cost" else f"; is it called {RETURN!r}?"
        raise InvalidInput(f"the environment's info has no {name!r}{cure}")
    return info[name]
