"""The warehouse study itself: explore once, safely, then plan one errand after the other from what was learnt."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

import safe2real as s2r
from experiments.oracles.linear_program import solve_linear_program
from experiments.studies.warehouse_floor import ACTIONS, FLOOR, GAP, SMALL_FLOOR, Warehouse
from safe2real.evidence import MismatchMap, map_mismatch
from safe2real.systems.finite import SystemDescription, from_gymnasium

ROUNDING = 1e-8  # of exact values; V_c sums 37 steps
PEEK = 12  # errands planned at every checkpoint on the way


@dataclass(frozen=True)
class Case:
    """A floor, how long an episode is, and how many expected steps among people are allowed."""

    floor: tuple[str, ...]
    horizon: int
    limit: float
    rounds: int
    checkpoints: tuple[int, ...]  # samples
    shown: str  # the errand whose plans are drawn


FULL = Case(FLOOR, 36, 4.0, 20, (100_000, 200_000, 400_000, 700_000, 1_000_000, 2_000_000, 4_000_000), "shelf 1,23")
QUICK = Case(SMALL_FLOOR, 14, 2.0, 5, (20_000, 100_000), "shelf 1,2")


@dataclass(frozen=True)
class Errand:
    """What the robot is wanted for: a reward [S, A] or [H, S, A] in [0, 1]."""

    kind: str
    place: str
    reward: NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """One planned errand: what is promised, and what is true of it on the real system, by exact evaluation."""

    kind: str
    place: str
    bound: float  # certified: at most this far from the best feasible policy
    suboptimality: float  # how far it really is
    value: float
    best: float  # of the best policy that is feasible in reality
    people: float  # expected steps among people
    certified: bool
    simulator_promise: float  # the best plan of the raw simulator, and what becomes of it
    simulator_value: float
    simulator_people: float
    baseline_value: float
    seconds: float

    def kept(self, limit: float) -> bool:
        """Whether all that was promised is true."""
        return self.certified and self.people <= limit + ROUNDING and self.suboptimality <= self.bound + ROUNDING


NUMBERS = tuple(field.name for field in fields(Outcome) if field.type == "float")


@dataclass(frozen=True)
class Checkpoint:
    """What some of the plans were worth on the way."""

    samples: int
    uncertainty: float  # Delta
    bounds: tuple[float, ...]
    suboptimalities: tuple[float, ...]


@dataclass(frozen=True)
class Exploration:
    """The run, with the exact constraint value of every mixture that was deployed."""

    stopped: bool
    episodes: int
    samples: int
    mixtures: int  # how often another mixture was deployed than before
    unsafe_episodes: int
    people: NDArray[np.float64]  # [T] for every entry of the log: expected steps among people, exact
    seconds: float
    checkpoints: tuple[Checkpoint, ...]


class Study:
    """The simulator, the reality, and a learner between them."""

    def __init__(self, case: Case, seed: int = 0) -> None:
        self.case = case
        self.simulator, self.real_env = Warehouse(case.floor), Warehouse(case.floor, real=True)
        self.system = from_gymnasium(
            self.simulator,
            case.horizon,
            SystemDescription(cost=self.simulator.people, limit=case.limit, name="steps among people"),
        )
        self.real = self.system.model.with_kernel(self.system.kernel_of(self.real_env))
        self.baseline = s2r.MarkovPolicy.stochastic(self.simulator.roaming(), horizon=case.horizon)
        # The baseline stays on its side of the fence, so all of the limit is its margin.
        settings = s2r.Settings(
            margin=case.limit,
            calibrated_gap=0.0,
            mismatch_gap=GAP,
            tolerance=case.limit / 4.0,
            replan_growth=0.25,
            seed=seed,
        )
        known, support = self.system.known | self.simulator.solid(), self.simulator.support()
        self.learner = s2r.Learner(s2r.Problem(self.system.model, self.baseline, settings, known=known, support=support))

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """[S, A] where simulator and reality differ: what the learner has to find out."""
        return np.asarray(self.real.kernel.distances_to(self.system.model.kernel) > 0.0)

    def errands(self) -> list[Errand]:
        """One reward for every shelf, every aisle and every charger, and rounds of three stops in time windows."""
        floor, index = self.case.floor, self.simulator.index
        places: list[tuple[str, str, list[int]]] = []
        for r, line in enumerate(floor):
            if all(mark == "." for mark in line):
                places.append(("count", f"aisle {r}", [index[r, c] for c in range(len(line))]))
            for c, mark in enumerate(line):
                beside = [index[side, c] for side in (r - 1, r + 1) if 0 <= side < len(floor) and (side, c) in index]
                if mark == "#" and not any(floor[side][c] in "pw" for side in (r - 1, r + 1) if 0 <= side < len(floor)):
                    places.append(("pick", f"shelf {r},{c}", beside))
        corners = [(r, c) for r in (0, len(floor) - 1) for c in (0, len(floor[0]) - 1)]
        places += [("charge", f"charger {r},{c}", [index[r, c]]) for r, c in corners]
        errands = [Errand(kind, place, self.system.where(states)) for kind, place, states in places]
        rng = np.random.default_rng(20_261_115)
        shelves = [states for kind, _, states in places if kind == "pick"]
        for i in range(self.case.rounds):
            stops = rng.choice(len(shelves), 3, replace=False)
            errands.append(Errand("round", f"round {i}", self._round([shelves[stop] for stop in stops])))
        return errands

    def _round(self, stops: list[list[int]]) -> NDArray[np.float64]:
        """[H, S, A] three stops, each in its quarter of the episode; the first quarter is for getting under way."""
        horizon = self.case.horizon
        reward = np.zeros((horizon, self.real.num_states, len(ACTIONS)))
        for i, states in enumerate(stops):
            reward[horizon * (i + 1) // 4 : horizon * (i + 2) // 4] = self.system.where(states)
        return reward

    def people(self, policy: s2r.model.Policy) -> float:
        """Expected steps among people in reality, exact."""
        return self.real.wordings[0].number(s2r.planning.constraint_values(self.real, policy)[0])

    def plan(self, errand: Errand) -> Outcome:
        """Plan from what was learnt, and compare with the truth, which the learner never sees."""
        began = time.perf_counter()
        plan = self.learner.plan(errand.reward)
        seconds = time.perf_counter() - began
        best = s2r.solve(self.real, errand.reward)
        raw = s2r.solve(self.system.model, errand.reward)
        value = s2r.evaluate(self.real, plan.policy, errand.reward)
        return Outcome(
            kind=errand.kind,
            place=errand.place,
            bound=plan.suboptimality,
            suboptimality=best.bound - value,
            value=value,
            best=best.value,
            people=self.people(plan.policy),
            certified=plan.certificate.certified and plan.certificate.holds,
            simulator_promise=raw.value,
            simulator_value=s2r.evaluate(self.real, raw.policy, errand.reward),
            simulator_people=self.people(raw.policy),
            baseline_value=s2r.evaluate(self.real, self.baseline, errand.reward),
            seconds=seconds,
        )

    def explore(self, progress: Callable[[float], None], most_episodes: int = 2_000_000) -> Exploration:
        """Explore to the certified stop. `progress` is told the share of the way, on the logarithm of Delta.

        `simulate` in pieces is the same run, bit for bit, as in one; the pieces are for checkpoints and the progress bar.
        """
        horizon, tolerance = self.real.horizon, self.learner.settings.tolerance  # H steps are summed, the end among them
        peeks = self.errands()
        peeks = peeks[:: max(1, len(peeks) // PEEK)]
        waiting = [samples // self.case.horizon for samples in self.case.checkpoints]
        runs: list[s2r.exploration.Run] = []
        checkpoints: list[Checkpoint] = []
        episodes, seconds, stopped = 0, 0.0, False
        while not stopped and episodes < most_episodes:
            rounds = min([max(200, episodes // 5), most_episodes - episodes, *(due - episodes for due in waiting[:1])])
            began = time.perf_counter()
            run = s2r.simulate(self.learner, self.real.kernel, max_rounds=rounds)
            seconds += time.perf_counter() - began
            runs.append(run)
            stopped, episodes = run.stopped or run.halted, episodes + run.rounds
            uncertainty = min(float(horizon), float(run.uncertainty[-1]))
            if stopped or episodes in waiting:
                waiting = waiting[1:]
                plans = [self.plan(errand) for errand in peeks]
                bounds, real = tuple(plan.bound for plan in plans), tuple(plan.suboptimality for plan in plans)
                checkpoints.append(Checkpoint(self.learner.samples, uncertainty, bounds, real))
            progress(1.0 if stopped else float(np.log(horizon / uncertainty) / np.log(horizon / tolerance)))
        people = horizon - np.concatenate([run.real_values[:, 0] for run in runs])
        deployed = np.concatenate([run.deployed for run in runs])
        weight = np.concatenate([run.exploration_weight[: len(run.deployed)] for run in runs])
        return Exploration(
            stopped=stopped,
            episodes=episodes,
            samples=self.learner.samples,
            mixtures=1 + int((np.diff(np.stack([people, weight]), axis=1) != 0.0).any(axis=0).sum()),
            unsafe_episodes=int(deployed[people > self.case.limit + ROUNDING].sum()),
            people=people,
            seconds=seconds,
            checkpoints=tuple(checkpoints),
        )

    def mismatch(self) -> MismatchMap:
        return map_mismatch(self.learner.evidence)

    def race(self, errand: Errand) -> tuple[float, float]:
        """(seconds of the planner, seconds of HiGHS) for one errand on the real system; ours is a median of 25."""
        runs = []
        for _ in range(25):
            began = time.perf_counter()
            ours = s2r.solve(self.real, errand.reward)
            runs.append(time.perf_counter() - began)
        began = time.perf_counter()
        theirs = solve_linear_program(self.real, errand.reward)
        seconds = time.perf_counter() - began
        if abs(theirs.value - ours.value) > 1e-6 * self.case.horizon:
            raise RuntimeError(f"HiGHS finds {theirs.value:.9g} for {errand.place}, the planner {ours.value:.9g}")
        return float(np.median(runs)), seconds
