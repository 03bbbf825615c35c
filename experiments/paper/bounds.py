"""The comparison table's bounds, evaluated numerically for the paper's grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.artefact import Artefact, Outcome, Table
from experiments.oracles.bound_comparison import comparison
from experiments.oracles.run_length_bounds import run_length_bounds
from experiments.paper.inferred import INFERRED
from experiments.store import Row
from safe2real.standing import Standing

STATES, ACTIONS, HORIZON, EPSILON = 25, 4, 12, 1.0
MISMATCH = 12 * HORIZON  # 12 pairs at every step: the table counts (h, s, a) triples


def draw(rows: list[Row], folder: Path) -> Outcome:
    outcome = Outcome()
    common: dict[str, Any] = {"num_states": STATES, "num_actions": ACTIONS, "horizon": HORIZON, "epsilon": EPSILON}
    common |= {"margin": INFERRED.margin, "mismatch_size": MISMATCH, "mismatch_gap": 0.68, "calibrated_gap": 0.0}
    table = comparison(**common, reachability=0.01, return_dimension=2)
    yes = {True: "yes", False: "no"}
    lines = []
    for bound in table:
        reward = "any" if bound.any_reward else "fixed"
        does = [yes[bound.sim_to_real], reward, yes[bound.constraints], yes[bound.safe_exploration]]
        lines.append([bound.citation, *does, bound.formula, f"{bound.value:.2e}"])
    header = ["algorithm", "sim-to-real", "reward", "constraints", "safe exploration", "order", "value"]
    outcome.table = Table(header, lines)
    finite = run_length_bounds(**common, delta=INFERRED.delta)
    outcome.remarks = [
        f"S = {STATES}, A = {ACTIONS}, H = {HORIZON}, xi = {INFERRED.margin}, epsilon = {EPSILON}, "
        f"|B| = {MISMATCH} triples, "
        "sigma_s = 0.68, eps_s = 0, reachability 0.01, two-dimensional returns. Orders without constants and logarithms.",
        f"With its constants Theorem 1 allows {finite.stopping.samples:.2e} samples (reusing the simulator) or "
        f"{finite.online.samples:.2e} (fully online).",
    ]
    return outcome


ARTEFACT = Artefact("bounds", "Comparison of bounds", "formulas only", Standing.CERTIFIED, draw)
