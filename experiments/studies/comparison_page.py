"""docs/comparison.md, written from the rows: every number on it is computed when it is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.artefact import Table
from experiments.oracles.bound_comparison import comparison
from experiments.related.facts import NOT_RUN
from experiments.store import Row
from experiments.studies import public_code_check as beside
from experiments.studies.comparison_runs import (
    BARRIER_BATCH,
    BARRIER_STEPS,
    DECLARED,
    DELTA,
    EPISODES,
    EPSILON,
    REWARDS,
    TRANSFER_EPISODES,
    problem_of,
    reachability,
    rewards,
)
from experiments.studies.declared_systems import instance
from safe2real.planning.solve import solve

Lines = Sequence[Any]  # of `comparison.Line`
_ALIASES = {"ni2025learning": "ni2025safe"}  # the table's row of Ni et al. is about the same barrier


def bounds_table(lines: Lines) -> Table:
    """The paper's table of bounds, in samples for one reward, beside what was measured with published constants."""
    problem = problem_of("A", 0)
    horizon, states, actions = problem.simulator.shape
    wrong = 12 * horizon  # 12 pairs at every step: the table counts triples
    bounds = comparison(
        num_states=states,
        num_actions=actions,
        horizon=horizon,
        margin=float(problem.margins[0]),
        epsilon=EPSILON,
        mismatch_size=wrong,
        mismatch_gap=problem.settings.mismatch_gap,
        calibrated_gap=0.0,
        reachability=reachability(),
        return_dimension=2,
    )
    measured = {line.facts.key: line.samples / line.runs for line in lines if line.facts.key and line.ends_itself}
    found = {bound.key: measured.get(_ALIASES.get(bound.key, bound.key)) for bound in bounds}
    order = sorted((bound for bound in bounds if found[bound.key] is not None), key=lambda bound: found[bound.key] or 0.0)
    ranks = {bound.key: str(i + 1) for i, bound in enumerate(order)}
    stated = {bound.key: str(i + 1) for i, bound in enumerate(sorted(order, key=lambda bound: bound.value))}
    rows = []
    for bound in bounds:
        value = found[bound.key]
        shown = f"{value:.1e}" if value is not None else "-"
        rows.append(
            [
                bound.citation,
                bound.formula,
                f"{bound.value:.1e}",
                shown,
                stated.get(bound.key, "-"),
                ranks.get(bound.key, "-"),
            ]
        )
    header = [
        "row of the paper's table",
        "order",
        "its value here",
        "measured samples",
        "rank by the bound",
        "rank measured",
    ]
    return Table(header, rows)


def systems_table(lines: Lines) -> Table:
    """Who they are, how faithful, and what differs."""
    rows = [[line.facts.system, line.facts.citation, str(line.facts.fidelity), line.facts.differs or "-"] for line in lines]
    rows += [[one.system, one.citation, "-", one.why] for one in NOT_RUN]
    return Table(["system", "source", "fidelity", "what differs"], rows)


def _markdown(table: Table) -> str:
    """With the bars of |B| escaped."""
    return Table(table.header, [[cell.replace("|", "\\|") for cell in row] for row in table.rows]).markdown()


def _found(panels: Mapping[str, Lines]) -> str:
    """What the two panels say, in sentences."""
    by_name = {line.name: line for line in panels["B"]}
    own, second = by_name["Algorithm 1"], by_name["Algorithm 2"]
    unsafe = [line.unsafe_share for lines in panels.values() for line in lines if not line.facts.safe]
    declared = [line for line in panels["B"] if line.name == DECLARED]
    said = [
        f"Algorithm 1 stops after {own.samples:.2g} samples for all {REWARDS} rewards, unsafe in {own.unsafe_share:.0%} of "
        f"its episodes. Without the simulator (Algorithm 2) it takes {second.samples / own.samples:.1f} times as many.",
        f"For rewards that are declared beforehand this library needs {declared[0].samples:.2g} samples for all {REWARDS} "
        f"at once and {declared[1].samples:.2g} for one after the other, unsafe in "
        f"{max(one.unsafe_share for one in declared):.0%} of the episodes; only these rewards have the accuracy then.",
        f"The methods that ignore constraints are unsafe in {min(unsafe):.0%} to {max(unsafe):.0%} of their episodes.",
    ]
    for panel, lines in panels.items():
        for line in lines:
            if line.facts.safe and not line.facts.any_reward and line.name != DECLARED:
                many = len(line.reached)
                half = f", half of these after {np.median(line.reached):.1e} samples or less" if many else ""
                said.append(
                    f"Panel {panel}, {line.label}: {many} of {len(line.results)} rewards were settled (its own stop, or a "
                    f"mean regret of at most {EPSILON:g}) within the episodes given{half}."
                )
    return "".join(f"- {one}\n" for one in said)


def _binding() -> int:
    """For how many rewards the best safe policy is not the best policy."""
    return sum(bool(solve(instance("grid").reality, reward).multipliers[0] > 0.0) for reward in rewards())


def page(panels: Mapping[str, Lines], tables: Mapping[str, Table], rows: Sequence[Row]) -> str:
    """The whole page."""
    problem = problem_of("A", 0)
    horizon, states, actions = problem.simulator.shape
    threshold, margin = float(problem.simulator.thresholds[0]), float(problem.margins[0])
    seconds, seeds = sum(row["seconds"] for row in rows), len({row["settings"]["seed"] for row in rows})
    return f"""# Related systems, on one harness

This page is written by `python -m experiments comparison` (as `comparison/page.md`, with its figure). No number on it is
typed by hand. The runs behind it took {seconds:.0f} s of processor time; what is random was repeated with {seeds} seeds
where one run serves all rewards, and in the last table.

Every method runs on the same problem, the grid of the [certified study](samples.md): S = {states}, A = {actions},
H = {horizon}, the corner baseline, threshold {threshold:g}, margin xi = {margin:.3f}, sigma_s =
{problem.settings.mismatch_gap:.2f}, delta = {DELTA:g}. {REWARDS} random rewards are asked for; a method that learns one
reward is run for each. Methods that take an accuracy get epsilon = {EPSILON:g}. Methods that do not stop get
{EPISODES["A"]:.0e} episodes in panel A and {EPISODES["B"]:.0e} in panel B, so their numbers of samples are ours; the
transfer of exploration policies gets {TRANSFER_EPISODES:,} episodes, LB-SGD {BARRIER_STEPS:,} batches of
{BARRIER_BATCH:.0e}. Samples are state-action pairs of ALL real episodes, those for evaluation included.

- **unsafe share**: episodes whose deployed mixture misses the threshold on the real system, by exact evaluation.
- **gap**: the best safe value minus the value of the output, exactly. It can be negative where the output is not safe. Of
  methods with little regret the output is the uniform mixture of all their rounds.
- **told**: what a method must know besides rewards, constraints and delta. xi is the baseline's margin, sigma_s and eps_s
  the separation, sigma the reachability ({reachability():.3f} here), tau the tolerance, K or N the number of episodes.
- **reward**: a run serves any reward, those that were declared before it, or one.

The papers count visits of a pair at every step of the episode by themselves; here the grid is the same at every step, and
visits are pooled. Their bounds stay true then: [the proof](comparison-proofs.md). The bound of RF-Express is derived there.

## Panel A: published constants

In the fluid limit: every row gets the visits that are expected, nothing is sampled. That is not a run, and no failure that
a confidence level allows can show in it. On small systems it agrees with sampled runs
(`tests/experiments/test_fluid_limit.py`). The transfer of exploration policies is sampled.

{_markdown(tables["A"])}
## Panel B: one certified radius for all

Sampled runs. A row is the structure of a method with this library's radius in place of its own constants, so it must not be
quoted as that method. VI-Zero has the structure of RF-Express then, and is left out; LB-SGD and the transfer have no radius.
[Declared rewards](declared-rewards.md) is the method of this library for rewards that are known before it explores, once
with all {REWARDS} and once with each of them alone. It rests on worst cases over sets, so panel A has no row for it.

{_markdown(tables["radius"])}
![Real samples of each method, and which methods deploy unsafe policies](img/comparison.png)

*A gap below 0.01 is not written.*

{_found(panels)}
Neither panel says which method is best elsewhere. The constraint binds at the optimum of {_binding()} of the {REWARDS}
rewards, and the grid is small and easy to reach everywhere, which suits methods that rely on reaching everything.

What was chosen, and when. epsilon = 0.3 because HySRL does not use the simulator at 1; the numbers of episodes of methods
that do not stop are ours, so their samples are too. LB-SGD has eta = 0.01 after 0.1 ended in its first batch. In the last
table Q-learning has an optimistic start, the penalties are 0, 0.1 and 1, and 95 % of the certified plan is the bar, all
chosen after earlier ones had left no learner a chance; the first time at which a learner passes the bar counts, whether
it stays there or not, and UCB-VI with a hundredth of its bonus proves nothing.

## Beside public code

The same small system (S = {beside.STATES}, A = {beside.ACTIONS}, H = {beside.HORIZON}, every successor possible), the same
counts and the same constants for both sides (`experiments.studies.public_code_check`). The numbers of public code are data
(`public_code.json`); those of this library are computed by the command. +- is a standard error. Plans stand here for
0.2 % of all episodes, so a run may end that much later.

{_markdown(tables["beside"])}
No public code was found of these, nor constants of the last two:

{_markdown(tables["searched"])}
## The paper's table of bounds, beside what was measured

Orders without constants and logarithms, for one reward. Ranks are among the rows that ran and ended by themselves.

{_markdown(tables["bounds"])}
## Plain reinforcement learning

On the real system, with the constraint as a penalty on the reward; the penalty has to be guessed. A learner is as good as
the certified plan once what it would give out is safe and worth at least 95 % of that plan. Medians over seeds. With its
own constants UCB-VI takes the first action as long as its bonus exceeds the horizon, since all actions look alike.

{_markdown(tables["plain"])}
## The systems

{_markdown(tables["systems"])}"""
