"""A controller without a table on trial: Pendulum, continuous states and torques, certified by its own episodes.

    python examples/policy_trial.py [--out FOLDER] [--episodes N] [--seed N]

A swing-up controller is trained by random search on a simulator: Gymnasium's pendulum. The real one is heavier and longer,
and the controller is not told. The pendulum should rarely be fast: at most 15 of 100 steps above 5 rad/s, on average. A
cautious controller that only damps is the baseline; its margin is known from earlier. Neither has a table, no model of the
pendulum is used, and nothing is discretised: a `PolicyTrial` mixes the two, episode by episode, so that the mean cost of
what is deployed is certified at all times, and the new controller takes over when its own episodes have proved it.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from safe2real import PolicyTrial
from safe2real.exploration import TrialTerms, Turn, trial_run

HORIZON = 100  # steps of 0.05 s
FAST = 5.0  # rad/s
LIMIT, MARGIN = 15.0, 8.0  # mean steps above it; the baseline stays below LIMIT - MARGIN
WORST_REWARD = -(math.pi**2 + 0.1 * 8.0**2 + 0.001 * 2.0**2)  # of one step, by the environment's definition
MASS, LENGTH = 1.1, 1.05  # of the real pendulum; the simulator's are 1
TRIED, ROLLOUTS = 60, 4  # controllers in the random search, and simulated episodes of each
AFTERWARDS = 300  # episodes of each controller on the real pendulum, to see what was true

Observation = NDArray[np.float32]  # (cos, sin, speed)
Controller = Callable[[Observation], Observation]


def pendulum(mass: float = 1.0, length: float = 1.0) -> gymnasium.Env[Observation, Observation]:
    env = gymnasium.make("Pendulum-v1", max_episode_steps=HORIZON)
    env.unwrapped.m, env.unwrapped.l = mass, length  # type: ignore[attr-defined]
    return env


def fast(seen: Observation, action: Any, info: dict[str, Any]) -> float:
    """What a step costs: 1 where the pendulum is fast."""
    return float(abs(seen[2]) > FAST)


def damping(seen: Observation) -> Observation:
    """Torque against the motion: cautious, and it never gets up."""
    return np.clip(np.float32([-0.6 * seen[2]]), -2.0, 2.0)


@dataclass(frozen=True, slots=True)
class SwingUp:
    """Pump energy far from the top, a spring and a damper near it."""

    pump: float
    energy: float  # aimed at; 10 would be that of rest at the top for the simulator's mass
    spring: float
    damper: float

    def __call__(self, seen: Observation) -> Observation:
        cosine, sine, speed = (float(one) for one in seen)
        if cosine > 0.85:
            torque = -self.spring * sine - self.damper * speed
        else:
            torque = self.pump * (self.energy - speed**2 / 6.0 - 5.0 * (cosine + 1.0)) * (1.0 if speed >= 0.0 else -1.0)
        return np.float32([min(2.0, max(-2.0, torque))])


def measured(env: Any, act: Controller, episodes: int, seed: int) -> tuple[float, float]:
    """(mean return, mean cost) of an episode."""
    total, cost = 0.0, 0.0
    for episode in range(episodes):
        seen, _ = env.reset(seed=seed + episode)
        for _ in range(HORIZON):
            action = act(seen)
            cost += fast(seen, action, {})
            seen, reward, *_ = env.step(action)
            total += float(reward)
    return total / episodes, cost / episodes


def trained(seed: int, console: Console) -> SwingUp:
    """The best of some random controllers on the simulator, by return, among those that look safe there."""
    rng, env = np.random.default_rng(seed), pendulum()
    best, chosen = -math.inf, SwingUp(0.5, 10.0, 10.0, 2.0)
    for _ in track(range(TRIED), "training in the simulator", console=console, transient=True):
        one = SwingUp(rng.uniform(0.1, 2.0), rng.uniform(8.0, 12.0), rng.uniform(4.0, 16.0), rng.uniform(0.5, 4.0))
        value, cost = measured(env, one, ROLLOUTS, seed=1_000)
        if cost <= 0.7 * LIMIT and value > best:
            best, chosen = value, one
    return chosen


def say(turns: list[Turn], trial: PolicyTrial, console: Console) -> None:
    """The certificate over the episodes."""
    console.print("episode   share of the new one   its cost at most   its return at least   certified of what is deployed")
    for turn in turns:
        if turn.number in (1, 30, 100, 200, 300, 500, 1_000, 2_000) or turn is turns[-1]:
            console.print(
                f"{turn.number:7d}   {turn.share:20.3f}   {turn.floors['fast steps']:16.2f}   {turn.floors['return']:19.1f}"
                f"   {turn.certificate.statement()}"
            )
    console.print(trial.certificate().describe())


def draw(turns: list[Turn], truth: dict[str, tuple[float, float]]) -> Figure:
    """Draw the share of the new controller, and the certified upper bounds on the expected cost."""
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    number = [turn.number for turn in turns]
    left, right = figure.subplots(1, 2)
    left.plot(number, [turn.share for turn in turns], color="tab:blue")
    left.set(xlabel="episode", ylabel="probability of the new controller", ylim=(0.0, 1.05))
    left.set_title("How often the new controller is deployed", fontsize=11)
    new = [turn.floors["fast steps"] for turn in turns]
    deployed = [turn.certificate.words(0).number(turn.certificate.lower_bounds[0]) for turn in turns]
    right.plot(number, new, color="tab:blue", label="new controller: certified upper bound")
    right.plot(number, deployed, color="tab:green", linestyle="-.", label="deployed mixture: certified upper bound")
    right.axhline(LIMIT, color="black", linewidth=1.2, linestyle="--", label="limit")
    for name, colour in (("candidate", "tab:blue"), ("baseline", "tab:gray")):
        said = f"{'new controller' if name == 'candidate' else 'baseline'}: mean of {AFTERWARDS} episodes"
        right.axhline(truth[name][1], color=colour, linewidth=1.2, linestyle=":", label=said)
    right.set(xlabel="episode", ylabel=f"expected steps above {FAST:g} rad/s", ylim=(0.0, 4.0 * LIMIT))
    right.set_title(f"Cost of an episode of {HORIZON} steps", fontsize=11)
    right.legend(fontsize=9, frameon=False)
    return figure


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/policy_trial"), help="where the figure and the record go")
    parser.add_argument("--episodes", type=int, default=1_000, help="on the real pendulum")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    console, status = Console(width=None if sys.stdout.isatty() else 125), Console(stderr=True)
    candidate, real = trained(options.seed, status), pendulum(MASS, LENGTH)
    value, cost = measured(pendulum(), candidate, 50, seed=5_000)
    console.print(f"The new controller in the simulator: return {value:.0f}, {cost:.1f} fast steps (limit {LIMIT:g}).")
    options.out.mkdir(parents=True, exist_ok=True)
    record = options.out / "trial.json"
    record.unlink(missing_ok=True)  # a new demonstration; a real trial would go on with PolicyTrial.load
    terms = TrialTerms(
        limit=LIMIT,
        margin=MARGIN,
        high=float(HORIZON),
        rewards={"return": (HORIZON * WORST_REWARD, 0.0)},
        seed=options.seed,
        name="fast steps",
    )
    trial = PolicyTrial(terms, path=record)
    turns = trial_run(real, candidate, damping, trial, episodes=options.episodes, cost=fast)
    say(turns, trial, console)
    truth = {
        name: measured(real, act, AFTERWARDS, seed=9_000_000)
        for name, act in (("candidate", candidate), ("baseline", damping))
    }
    for name, (mean_return, mean_cost) in truth.items():
        console.print(f"Measured afterwards, the {name}: return {mean_return:.0f}, {mean_cost:.1f} fast steps.")
    draw(turns, truth).savefig(options.out / "policy_trial.png", dpi=110)
    console.print(f"figure: {options.out / 'policy_trial.png'}")
    worst = max(turn.share * truth["candidate"][1] + (1.0 - turn.share) * truth["baseline"][1] for turn in turns)
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    raise SystemExit(main())
