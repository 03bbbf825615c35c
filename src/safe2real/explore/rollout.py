"""Run a learner on a Gymnasium environment, one episode after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from safe2real.errors import InvalidInput, OutsideModel
from safe2real.explore import _kernels
from safe2real.explore.learner import Learner, Proposal, Reason
from safe2real.model.checks import positive_integer
from safe2real.model.trajectory import Trajectory


def explore(
    learner: Learner,
    env: Any,
    *,
    max_rounds: int,
    progress: Callable[[Proposal], None] | None = None,
) -> Proposal:
    """Propose, roll out on `env` and observe until the stop or for `max_rounds` rounds; returns the last proposal.

    `env` is any Gymnasium environment with discrete observations and actions of the learner's sizes. An episode that
    terminates early stays in its last state, as the simulator's absorbing rows say. The environment's rewards and costs
    are not read.

    Where the environment shows a state that the system does not have, `OutsideModel` is raised; what was seen of the
    episode is counted before that, and the learner certifies nothing any more.
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
        if proposal.reason is Reason.STOP:
            return proposal
        learner.observe(_episode(learner, env, proposal))
    return learner.propose()


def _episode(learner: Learner, env: Any, proposal: Proposal) -> Trajectory:
    model, settings = learner.simulator, learner.settings
    policy = proposal.draw().probabilities
    seed = np.uint64(settings.seed)
    # Every round seeds the environment anew, so that a run can be repeated from any round on.
    states: list[int] = []
    actions: list[int] = []
    try:
        state, _ = env.reset(seed=int(_kernels.draw(seed, proposal.round, 1) * 2**31))
    except OutsideModel:
        learner.leave_model(states, actions)
        raise
    states.append(int(state))
    terminated = False
    for h in range(model.horizon):
        action = int(_kernels.pick(policy[h, states[-1]], _kernels.draw(seed, proposal.round, 2 + 2 * h)))
        if not terminated:
            try:
                state, _, terminated, truncated, _ = env.step(action)
            except OutsideModel:
                learner.leave_model(states, [*actions, action])
                raise
            if terminated and h + 1 < model.horizon and not _absorbs(learner, int(state), h + 1):
                raise InvalidInput(
                    f"the environment ended the episode in state {int(state)} after {h + 1} steps, but the simulator's "
                    "rows there are not self-loops; add an absorbing state for the end of the episode"
                )
            if truncated and not terminated and h + 1 < model.horizon:
                raise InvalidInput(
                    f"the environment cut the episode off after {h + 1} steps, before the horizon of {model.horizon}; "
                    "raise its max_episode_steps to the horizon"
                )
        actions.append(action)
        states.append(int(state))
    return Trajectory.of(model, states, actions)


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
