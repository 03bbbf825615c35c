"""Run a learner on a Gymnasium environment, one episode after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from safe2real._compiled import draws
from safe2real.errors import InvalidInput, OutsideModel
from safe2real.exploration.learner import Learner, Proposal, Reason
from safe2real.model.checks import bare, positive_integer
from safe2real.model.cmdp import CMDP
from safe2real.model.trajectory import Trajectory


def explore(
    learner: Learner,
    env: Any,
    *,
    max_rounds: int,
    faults: tuple[type[BaseException], ...] = (),
    progress: Callable[[Proposal], None] | None = None,
) -> Proposal:
    """Propose, roll out on `env` and observe until the stop or for `max_rounds` rounds; returns the last proposal.

    `env` is any Gymnasium environment with discrete observations and actions of the learner's sizes. An episode that
    terminates early stays in its last state, as the simulator's absorbing rows say. The environment's rewards and costs
    are not read. The reason of the last proposal is STOP after the stop, and HALT if the data refute the baseline's margin:
    stop the machine then.

    Whatever the environment raises, what was seen of the episode is counted first. An exception is taken for something that
    the system did and the model does not have (`OutsideModel` says just that): the learner certifies nothing any more.
    `faults` names exceptions that are faults of the environment and not of the system, say a lost connection: such an
    episode is only cut short, and that the fault had nothing to do with what the system would have done next becomes an
    assumption of every certificate. An interrupt from the keyboard is taken so. The exception is raised in every case.
    """
    model, max_rounds = learner.simulator, positive_integer("max_rounds", max_rounds)
    if not (hasattr(env, "observation_space") and hasattr(env, "action_space")):
        raise InvalidInput(f"env is a {type(env).__name__}; give a Gymnasium environment")
    _check_space("observation", env.observation_space, model.num_states)
    _check_space("action", env.action_space, model.num_actions)
    for _ in range(max_rounds):
        proposal = learner.propose()
        if progress is not None:
            progress(proposal)
        if proposal.reason in (Reason.STOP, Reason.HALT):
            return proposal
        learner.observe(_episode(learner, env, proposal, (*faults, KeyboardInterrupt)))
    return learner.propose()


class StepLimit(InvalidInput):
    """The environment has a limit of steps below the horizon: its fault, and nothing that the system did."""


class _Watched:
    """One episode on its way; when it breaks off, what was seen of it is told to the learner."""

    def __init__(self, learner: Learner, proposal: Proposal, faults: tuple[type[BaseException], ...]) -> None:
        self.learner, self.faults = learner, faults
        self.of_baseline = proposal.draw() is learner.baseline
        self.states: list[int] = []
        self.actions: list[int] = []
        self.acting: int | None = None  # the action whose outcome is not known yet

    def __enter__(self) -> _Watched:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            return
        # What is raised here, not by the environment, says that the two do not fit: no fault that a user can have meant.
        if issubclass(kind, StepLimit) or (issubclass(kind, self.faults) and not issubclass(kind, InvalidInput)):
            self.learner.cut_short(self.states, self.actions, kind.__name__, of_baseline=self.of_baseline)
        else:
            unfinished = [] if self.acting is None else [self.acting]
            self.learner.leave_model(self.states, [*self.actions, *unfinished], of_baseline=self.of_baseline)


def _episode(learner: Learner, env: Any, proposal: Proposal, faults: tuple[type[BaseException], ...]) -> Trajectory:
    model, settings = learner.simulator, learner.settings
    policy = bare(proposal.draw().probabilities)
    seed = np.uint64(settings.seed)
    # Every round seeds the environment anew, so that a run can be repeated from any round on.
    with _Watched(learner, proposal, faults) as seen:
        observed, _ = env.reset(seed=int(draws.draw(seed, proposal.round, 1) * 2**31))
        begun = _state(observed, model.num_states, "env.reset")
        if model.start[begun] == 0.0:
            raise OutsideModel(f"env.reset showed state {begun}; episodes of the model start in {_starts(model)}")
        seen.states.append(begun)
        terminated = False
        for h in range(model.horizon):
            here = seen.states[-1]
            seen.acting = int(draws.pick(policy[h, here], draws.draw(seed, proposal.round, 2 + 2 * h)))
            if not terminated:
                observed, _, terminated, truncated, _ = env.step(seen.acting)
                here = _state(observed, model.num_states, "env.step")
                if terminated and h + 1 < model.horizon and not _absorbs(learner, here, h + 1):
                    raise InvalidInput(
                        f"the environment ended the episode in state {here} after {h + 1} steps, but the simulator's "
                        "rows there are not self-loops; add an absorbing state for the end of the episode"
                    )
                if truncated and not terminated and h + 1 < model.horizon:
                    seen.actions.append(seen.acting)
                    seen.states.append(here)
                    raise StepLimit(
                        f"the environment cut the episode off after {h + 1} steps, before the horizon of {model.horizon}; "
                        "raise its max_episode_steps to the horizon"
                    )
            seen.actions.append(seen.acting)
            seen.states.append(here)
            seen.acting = None
        return Trajectory.of(model, seen.states, seen.actions)


def _starts(model: CMDP) -> list[int]:
    return [int(state) for state in np.flatnonzero(model.start)[:10]]


def _state(observed: Any, num_states: int, place: str) -> int:
    state = int(observed)
    if not 0 <= state < num_states:
        raise OutsideModel(f"{place} showed state {state}; the model has {num_states} states, from 0 to {num_states - 1}")
    return state


def _absorbs(learner: Learner, state: int, step: int) -> bool:
    """Whether the simulator stays in `state` from `step` on, whatever the action."""
    kernel, actions = learner.simulator.kernel, learner.simulator.num_actions
    steps = [0] if kernel.is_stationary else range(step, learner.simulator.horizon)
    rows = [(h * kernel.num_states + state) * actions + a for h in steps for a in range(actions)]
    return all(kernel.row(row)[0].tolist() == [state] for row in rows)


def _check_space(name: str, space: Any, size: int) -> None:
    if not hasattr(space, "n"):
        raise InvalidInput(f"the {name} space is {space}; it must be Discrete({size}): bin it first")
    if int(space.n) != size or int(getattr(space, "start", 0)) != 0:
        raise InvalidInput(f"the {name} space is {space}; the learner's system needs Discrete({size}) starting at 0")
