"""Related systems beside their public code: the same small system, the same counts, the same constants.

`OURS` computes this library's side of every number. The other side is data: `public_code.json` has what public programs
gave, with the repository, the commit and what was run of it. Numbers that no run is behind agree to rounding, sampled ones
to a few standard errors, or the file says why they differ.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments import related
from experiments.artefact import Table
from experiments.fluid_limit import run_in_batches
from experiments.related.barrier_evidence import expected_gradients
from experiments.related.base import empirical, own_bounds
from experiments.related.rf_express import Uncertainty
from experiments.store import Plain
from safe2real.evidence.evidence import Evidence
from safe2real.methods.base import Method
from safe2real.model.cmdp import CMDP, AtLeast
from safe2real.model.kernel import Kernel
from safe2real.model.policy import MarkovPolicy
from safe2real.model.validation import Floats
from safe2real.planning.evaluate import constraint_values
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings

STATES, ACTIONS, HORIZON, MARGIN, DELTA, EPISODES = 4, 2, 3, 0.5, 0.1, 10**9
STOP, SEEDS, REACHABILITY, ACCURACY = 20.0, 3, 0.5, 0.05
_FILE = Path(__file__).with_name("public_code.json")

Number = tuple[float, float]
"""(a number, its standard error; 0 where nothing is sampled)"""


@cache
def system() -> tuple[Problem, Kernel, Floats]:
    """(problem, real rows, reward [S, A]): every successor is possible; the simulator is wrong in two rows."""
    rng = np.random.default_rng(17)
    real = rng.dirichlet(np.full(STATES, 2.0), size=(STATES, ACTIONS))
    reward, utility = rng.random((2, STATES, ACTIONS))
    simulator = real.copy()
    for state, action in ((1, 0), (2, 1)):
        simulator[state, action] = np.roll(real[state, action], 1 + int(np.argmax(real[state, action]) == 0))
    gaps = 0.5 * np.abs(simulator - real).sum(axis=-1)
    baseline = MarkovPolicy.uniform(horizon=HORIZON, num_states=STATES, num_actions=ACTIONS)
    free = CMDP.of(Kernel.from_dense(real), HORIZON, 0, [AtLeast(utility, 0.0)])
    reality = free.with_thresholds(constraint_values(free, baseline) - MARGIN)
    settings = Settings(
        margin=MARGIN,
        calibrated_gap=0.0,
        mismatch_gap=float(gaps[gaps > 0.0].min()),
        tolerance=MARGIN / 4.0,
        delta=DELTA,
    )
    return Problem(reality.with_kernel(Kernel.from_dense(simulator)), baseline, settings), reality.kernel, reward


def counts_of(visits: int, *, sampled: bool = True) -> NDArray[np.int64]:
    """[S A, S] transitions of every row after so many visits: drawn, always the same, or as expected."""
    rows = system()[1].to_dense().reshape(STATES * ACTIONS, STATES)
    if not sampled:
        return np.rint(visits * rows).astype(np.int64)
    return np.asarray(np.random.default_rng(18).multinomial(visits, rows), dtype=np.int64)


def evidence_of(method: Method, visits: int, *, sampled: bool = True) -> Evidence:
    """What `method` knows after those visits."""
    evidence, counts = method.evidence(system()[0]), counts_of(visits, sampled=sampled)
    rows, successors = np.nonzero(counts)
    evidence.counts.add(rows, successors, counts[rows, successors])
    evidence.update()
    return evidence


def _bound() -> Number:
    method = related.RFExpress()
    known = Uncertainty.on(system()[0], evidence_of(method, 40_000), ours=False)
    return known.largest()[1], 0.0


def _stops(per_step: bool) -> Number:
    """Episodes of RF-Express until its bound is at most STOP / 2, over seeds."""
    problem, real, _ = system()
    model = problem.simulator
    if per_step:
        real, model = real.repeated(HORIZON), model.with_kernel(model.kernel.repeated(HORIZON))
    found = []
    for seed in range(SEEDS):
        settings = Settings(**{name: getattr(problem.settings, name) for name in _KEPT}, seed=seed)
        given = Problem(model, problem.baseline, settings)
        run, _ = run_in_batches(given, related.RFExpress(STOP), real, most=1e7, growth=0.002)
        found.append(int(run.episodes.sum()))
    return float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(SEEDS))


_KEPT = ("margin", "calibrated_gap", "mismatch_gap", "tolerance", "delta")


def _dope_value(visits: int = 400_000) -> Number:
    problem, _, reward = system()
    method = related.Dope(reward, EPISODES, 0)
    return method.optimum(problem, evidence_of(method, visits), reward)[0].value, 0.0


def _dope_visits() -> Number:
    """The fewest thousands of expected visits of every row at which its program has a solution."""
    problem, _, reward = system()
    method = related.Dope(reward, EPISODES, 0)

    def feasible(thousands: int) -> bool:
        evidence = evidence_of(method, 1_000 * thousands, sampled=False)
        return method.optimum(problem, evidence, reward)[0].is_feasible

    return float(_first(feasible)), 0.0


def _first(holds: Callable[[int], bool]) -> int:
    """The least number from which on it holds."""
    low, high = 0, 1
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _optpess_value() -> Number:
    problem, _, reward = system()
    method = related.OptPess(reward, EPISODES)
    return method.optimum(problem, evidence_of(method, 4_000_000), reward).value, 0.0


def _optpess_baseline() -> Number:
    problem = system()[0]
    method = related.OptPess(system()[2], EPISODES)
    evidence = evidence_of(method, 4_000_000)
    model = empirical(evidence)
    return float(own_bounds(model, problem.baseline, method.penalty(problem, evidence))[0]), 0.0


def _hysrl(part: str) -> Number:
    problem, _, reward = system()
    method = related.HySRL(reward, REACHABILITY, ACCURACY)
    evidence = evidence_of(method, 40_000)
    if part == "searching":
        return method.searching(problem, evidence)[1], 0.0
    if part == "region":
        return float(method.region(problem, evidence).sum()), 0.0
    bracket, gap = method.learning(problem, evidence)
    return (gap if part == "gap" else float(problem.simulator.start @ bracket.upper[0])), 0.0


def _barrier(part: int) -> Number:
    """Of the baseline: slack, then |gradient| of V_r and of V_c."""
    problem, real, reward = system()
    reality = problem.simulator.with_kernel(real)
    values, gradients = expected_gradients(reality, problem.baseline, [reward[None], reality.utilities[0]])
    numbers = [values[1] - reality.thresholds[0], *(np.sqrt((one**2).sum()) for one in gradients)]
    return float(numbers[part]), 0.0


OURS: dict[str, tuple[str, Callable[[], Number]]] = {
    "rf_express_bound": ("bound on the error of every value, 40,000 visits of every row", _bound),
    "rf_express_pooled": (f"episodes until the bound is {STOP / 2:g}, visits pooled over steps", partial(_stops, False)),
    "rf_express_per_step": (f"episodes until the bound is {STOP / 2:g}, visits per step", partial(_stops, True)),
    "dope_value": ("optimum of its program, 400,000 visits of every row", _dope_value),
    "dope_visits": ("thousands of visits of every row from which on its program has a solution", _dope_visits),
    "optpess_value": ("optimum of its program, 4 million visits of every row", _optpess_value),
    "optpess_baseline": ("pessimistic V_c of the baseline, 4 million visits of every row", _optpess_baseline),
    "hysrl_searching": ("3 sqrt(W) + W of phase 1, 40,000 visits of every row", partial(_hysrl, "searching")),
    "hysrl_region": ("rows in which the simulator is found to be wrong", partial(_hysrl, "region")),
    "hysrl_upper": ("upper value of phase 2", partial(_hysrl, "upper")),
    "hysrl_gap": ("G of phase 2", partial(_hysrl, "gap")),
    "barrier_slack": ("slack of the baseline", partial(_barrier, 0)),
    "barrier_reward": ("length of the gradient of V_r at the baseline", partial(_barrier, 1)),
    "barrier_utility": ("length of the gradient of V_c at the baseline", partial(_barrier, 2)),
}
"""By its key: what the number is, and this library's side of it."""


def beside_run(settings: Plain) -> Plain:
    """One number of this library's."""
    number, error = OURS[settings["quantity"]][1]()
    return {"number": number, "error": error}


@dataclass(frozen=True, slots=True)
class Beside:
    """One number from both sides."""

    public: Plain  # an entry of `public_code.json`
    ours: float
    ours_error: float

    @property
    def agree(self) -> bool:
        """Within its relative tolerance and four standard errors."""
        error = float(np.hypot(self.ours_error, self.public["error"]))
        return bool(abs(self.ours - self.public["public"]) <= self.public["tolerance"] * abs(self.ours) + 4.0 * error)

    @property
    def cells(self) -> list[str]:
        public, what = self.public, OURS[self.public["quantity"]][0]
        numbers = [_shown(public["public"], public["error"]), _shown(self.ours, self.ours_error)]
        said = f"differs: {public['explained']}" if public["explained"] else "the same" if self.agree else "DIFFERS"
        source = f"{public['ran']} (`{public['repository']}` at {public['commit'][:7]})"
        return [f"{public['system']}, public code", what, *numbers, said, source]


def _shown(number: float, error: float) -> str:
    return f"{number:.5g} +- {error:.1g}" if error else f"{number:.9g}"


def public_code() -> Plain:
    """The file: `runs`, and what was `searched` for in vain."""
    return dict(json.loads(_FILE.read_text()))


def both_sides(ours: dict[str, Plain]) -> list[Beside]:
    """Every public number with ours, from the results of `beside_run` by key."""
    return [
        Beside(public, ours[public["quantity"]]["number"], ours[public["quantity"]]["error"])
        for public in public_code()["runs"]
    ]


def beside_tables(ours: dict[str, Plain]) -> tuple[Table, Table]:
    """(the numbers, what was searched for in vain)."""
    header = ["system", "number", "public code", "here", "they are", "what was run of it"]
    vain = public_code()["searched"]
    searched = [[f"{one['system']}, as published", ", ".join(one["names"]), one["found"]] for one in vain]
    return Table(header, [one.cells for one in both_sides(ours)]), Table(["system", "searched for", "found"], searched)
