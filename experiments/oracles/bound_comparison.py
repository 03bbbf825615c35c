"""The paper's comparison table (appendix A, tab:comparison): what each algorithm does, and how its bound scales."""

from __future__ import annotations

import math
from dataclasses import dataclass

from experiments.oracles.run_length_bounds import gap_between, triples_within
from safe2real.model.validation import positive_integer, unit_number
from safe2real.problem.theorem import margin_within, positive_number


@dataclass(frozen=True, slots=True)
class Bound:
    """One row of the paper's comparison table: what an algorithm does, and the order of the samples it needs."""

    key: str  # the paper's citation key
    citation: str  # all authors, and where it appeared
    sim_to_real: bool  # uses a simulator that is wrong somewhere
    any_reward: bool  # the result serves every reward, not the one learnt with
    constraints: bool
    safe_exploration: bool
    formula: str  # in the paper's letters
    value: float  # the formula's value: an order of magnitude, not a number of samples
    note: str = ""


def comparison(
    *,
    num_states: int,
    num_actions: int,
    horizon: int,
    margin: float,
    epsilon: float,
    mismatch_size: int,
    mismatch_gap: float,
    calibrated_gap: float,
    reachability: float,
    return_dimension: int,
) -> tuple[Bound, ...]:
    """Every row of the table, in samples of non-stationary systems.

    CONSTANTS AND LOGARITHMS ARE DROPPED, from every row: values show how the bounds scale and may be compared as orders of
    magnitude only. For numbers that bound a run see `run_length_bounds`, which is many orders larger. S, A, H, xi, eps, |B|,
    sigma_s and eps_s are as everywhere; sigma_r is `reachability`, the probability with which every triple can be reached
    (Qu et al. only), and d is `return_dimension`, the length of the vector of returns (Miryoosefi and Jin only; reward and
    one constraint make 2). A bound is infinite where it divides by a gap of 0.
    """
    num_states, num_actions = positive_integer("num_states", num_states), positive_integer("num_actions", num_actions)
    horizon, d = positive_integer("horizon", horizon), float(positive_integer("return_dimension", return_dimension))
    S, A, H = float(num_states), float(num_actions), float(horizon)
    B = float(triples_within(horizon * num_states * num_actions, mismatch_size))
    xi, eps = margin_within(horizon, margin), positive_number("epsilon", epsilon)
    gap, sigma_s = gap_between(calibrated_gap, mismatch_gap), float(mismatch_gap)
    sigma_r = positive_number("reachability", unit_number("reachability", reachability))
    N = H * S * A - B
    clearing = _over(H**5 * S * N, xi * eps) * (1 + _over(1.0, gap * H**2)) if N > 0.0 else 0.0
    yes, no = True, False  # sim-to-real, any reward, constraints, safe exploration
    return (
        Bound(
            *("menard2021fast", "Menard, Domingues, Jonsson, Kaufmann, Leurent and Valko (ICML 2021)", no, yes, no, no),
            formula="H^4 S^2 A / eps^2",
            value=_over(H**4 * S**2 * A, eps**2),
        ),
        Bound(
            *("miryoosefi2022simple", "Miryoosefi and Jin (ICML 2022)", no, yes, yes, no),
            formula="min{d, S} H^5 S A / eps^2 + H^4 S^2 A / eps",
            value=_over(min(d, S) * H**5 * S * A, eps**2) + _over(H**4 * S**2 * A, eps),
            note="the returned policy may miss the constraint by eps",
        ),
        Bound(
            *("huang2023safe", "Huang, Yang and Liang (ICLR 2023)", no, yes, yes, yes),
            formula="A S^2 H^8 / (eps^2 xi^4)",
            value=_over(A * S**2 * H**8, eps**2 * xi**4),
        ),
        Bound(
            *("yu2025improved", "Yu, Lee, Overman and Lee (RLJ 2025)", no, no, yes, yes),
            formula="A S^2 H^6 / (eps^2 xi^2)",
            value=_over(A * S**2 * H**6, eps**2 * xi**2),
        ),
        Bound(
            *("ni2025learning", "Ni and Kamgarpour (HSCC 2025)", no, no, yes, yes),
            formula="1 / min{eps^6, xi^6}",
            value=_over(1.0, min(eps**6, xi**6)),
            note="the table leaves out the dependence on S, A and H; the paper's text cites these authors' AISTATS 2025 "
            "work for safe RL, its table this one",
        ),
        Bound(
            *(
                "wagenmaker2024overcoming",
                "Wagenmaker, Huang, Ke, Boots, Jamieson and Gupta (NeurIPS 2024)",
                yes,
                no,
                no,
                no,
            ),
            formula="H^16 / eps^8",
            value=_over(H**16, eps**8),
            note="the table leaves out the dependence on S and A",
        ),
        Bound(
            *("qu2025hybrid", "Qu, Shi, Panaganti, You and Wierman (AISTATS 2025)", yes, no, no, no),
            formula="min{H^4 A S / eps^2, H^3 |B| / eps^2 + H^3 S^2 A / (sigma_s^2 sigma_r^2)}",
            value=min(
                _over(H**4 * A * S, eps**2), _over(H**3 * B, eps**2) + _over(H**3 * S**2 * A, sigma_s**2 * sigma_r**2)
            ),
            note="assumes an exact simulator outside the mismatch region, and sigma_r-reachability",
        ),
        Bound(
            *("wu2026unified", "Wu, Zheng, Zuo, Xu and Kong (arXiv 2026)", yes, no, no, no),
            formula="H^4 A S / eps^2",
            value=_over(H**4 * A * S, eps**2),
        ),
        Bound(
            *("ours", "our algorithm (Theorem 1)", yes, yes, yes, yes),
            formula="min{H^7 S^2 A / (xi^2 eps^2), H^6 S |B| / (xi^2 eps^2)"
            " + H^5 S (H S A - |B|) (1 + 1 / ((sigma_s - eps_s) H^2)) / (xi eps)}",
            value=min(_over(H**7 * S**2 * A, xi**2 * eps**2), _over(H**6 * S * B, xi**2 * eps**2) + clearing),
        ),
    )


def _over(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0.0 else math.inf
