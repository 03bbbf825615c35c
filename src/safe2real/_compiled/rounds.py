"""Compiled rounds of exploration: propose, roll out, observe. The same functions serve one `propose` and a whole
simulated run.

Letters as in planning/_kernels.py and uncertainty/_kernels.py. C slots hold deterministic policies; the candidate of a
round is the mixture of the slots with weight, and after it comes the baseline.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from safe2real._compiled import evidence as uncertainty
from safe2real._compiled import margin, planning
from safe2real._compiled.kinds import BASELINE, HALT, MIXTURE, STOP

# numba keeps compiled code while THIS file stays the same, and does not look at the compiled functions it calls in others:
# when those have changed, what was kept here is thrown away, or `propose` would go on running an old planner.
with contextlib.suppress(OSError):
    called = b"".join(Path(str(module.__file__)).read_bytes() for module in (planning, uncertainty, margin))
    kept = Path(__file__).parent / "__pycache__"
    stamp, digest = kept / "rounds.callees", hashlib.sha256(called).hexdigest()
    if not stamp.is_file() or stamp.read_text() != digest:
        for old in kept.glob("rounds.*.nb?"):
            old.unlink(missing_ok=True)
        kept.mkdir(exist_ok=True)
        stamp.write_text(digest)

Array = Any  # numba infers dtypes and dimensions


class Terms(NamedTuple):
    """What has to hold in every round."""

    start: Array  # [S]
    utilities: Array  # [K, 1 or H, S, A]; K = 0 when safety is not asked for (Algorithm 3)
    thresholds: Array  # [K]
    margins: Array  # [K] Slater margins of the baseline, as stated
    baseline: Array  # [H, S, A]
    tolerance: float
    spans: Array  # [1 or H] what the bonus at each step is multiplied by: 1, or (H - 1 - h) / H
    robust: bool  # whether safety is judged by the worst kernel within the radii, too
    certified: bool  # whether the radii prove anything, so that data can refute an assumption
    H: int


class Candidate(NamedTuple):
    """The last planned candidate, overwritten by every round that plans."""

    actions: Array  # [C, H, S]
    lines: Array  # [C, 1 + K]
    weights: Array  # [C]
    multipliers: Array  # [K]
    lower: Array  # [K] lower bound on the candidate's real V_c
    baseline_values: Array  # [K] V_c of the baseline on the hybrid model


class Reality(NamedTuple):
    """A real system that is known after all: for simulated runs."""

    begin: Array
    length: Array
    successor: Array
    probability: Array
    utilities: Array  # [K, 1 or H, S, A] of every constraint, also when exploration ignores them
    baseline_values: Array  # [K] exact V_c of the baseline


class Log(NamedTuple):
    """One entry per plan of a simulated run."""

    rounds: Array  # [T] how many rounds it was deployed
    reason: Array  # [T]
    uncertainty: Array  # [T] Delta
    weight: Array  # [T] alpha
    real_values: Array  # [T, K] exact V_c of the deployed mixture
    suspects: Array  # [T]


@njit(cache=True)
def scramble(z):
    """The finaliser of SplitMix64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True)
def stream(seed, round_number):
    """Where the random numbers of one round begin: a function of (seed, round) alone, so that any round can be replayed."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    return scramble(scramble(np.uint64(seed) + golden) ^ (np.uint64(round_number) * golden))


@njit(cache=True)
def uniform(origin, index):
    """The index-th uniform number in [0, 1) of a stream."""
    z = scramble(origin + (np.uint64(index) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))
    return np.float64(z >> np.uint64(11)) * 2.0**-53


@njit(cache=True)
def draw(seed, round_number, index):
    """A uniform number in [0, 1) that depends on (seed, round, index) alone; for callers outside compiled code."""
    return uniform(stream(seed, round_number), index)


@njit(cache=True)
def pick(weights, u):
    """Index drawn from weights that sum to 1; never one of weight 0."""
    last = 0
    total = 0.0
    for i in range(weights.size):
        if weights[i] > 0.0:
            last = i
            total += weights[i]
            if u < total:
                return i
    return last


@njit(cache=True)
def step_bonus(bonus, spans, S, A):
    """The bonus the planner sees: [1 or H, S, A], rows [R] times the span of what can still be earned after each step."""
    rows = bonus.reshape((-1, S, A))
    if spans[0] == 1.0:
        return rows
    H = spans.size
    out = np.empty((H, S, A))
    for h in range(H):
        out[h] = spans[h] * rows[h if rows.shape[0] > 1 else 0]
    return out


@njit(cache=True)
def candidate_share(lower, thresholds, margins):
    """alpha: the share of a candidate with lower bounds `lower` [K] for which the baseline's margins pay (Line 13)."""
    alpha = 1.0
    for k in range(thresholds.size):
        excess = max(0.0, thresholds[k] - lower[k])
        alpha = min(alpha, margins[k] / (margins[k] + excess))
    return alpha


@njit(cache=True)
def propose(tally, belief, reach, terms, trust, candidate, warm):
    """Lines 5 to 13 of Algorithm 1 on the current hybrid model. Returns (reason, Delta, alpha, policies to start from next).

    Without constraints (K = 0) it is Algorithm 3: no Line 5, and the candidate is deployed as it is. The margin that pays
    for the candidate is the one that may be used, which data can have raised above the stated one.
    """
    H, K = terms.H, terms.thresholds.size
    S, A = terms.baseline.shape[1], terms.baseline.shape[2]
    successor, probability = tally.successor, tally.probability
    if trust.flags[margin.HALTED]:
        return HALT, np.inf, 0.0, warm  # not even the baseline can be relied on
    if trust.flags[margin.LEFT] or (terms.certified and belief.refuted.any()):
        return BASELINE, np.inf, 0.0, warm  # nothing that was computed can be relied on; the baseline rests on its margin
    for k in range(K):
        values = planning.value_functions(
            belief.begin, belief.length, successor, probability, terms.utilities[k], terms.baseline
        )
        candidate.baseline_values[k] = planning.dot(terms.start, values[0])
    for k in range(K):
        if candidate.baseline_values[k] < terms.thresholds[k] + 0.5 * terms.margins[k]:
            return BASELINE, np.inf, 0.0, warm
    bonus = step_bonus(belief.bonus, terms.spans, S, A)
    status, bound, _, _ = planning.solve(
        belief.begin, belief.length, successor, probability, terms.start, bonus, terms.utilities, terms.thresholds, H,
        warm, candidate.actions, candidate.lines, candidate.weights, candidate.multipliers,
    )  # fmt: skip
    if status == planning.INFEASIBLE:
        # Cannot happen after Line 5; if rounding ever makes it happen, the safe answer is the baseline.
        return BASELINE, np.inf, 0.0, 0
    used = 0
    for slot in range(candidate.weights.size):
        if candidate.weights[slot] > 0.0:
            if used != slot:
                candidate.actions[used] = candidate.actions[slot]
                candidate.lines[used] = candidate.lines[slot]
                candidate.weights[used] = candidate.weights[slot]
                candidate.weights[slot] = 0.0
            used += 1
    # Delta bounds the uncertainty of EVERY policy that is feasible on the estimate, so the dual bound is what counts; the
    # candidate itself may miss a threshold by rounding, so its own value counts too.
    delta = min(float(H), max(bound, planning.dot(candidate.weights, candidate.lines[:, 0])))
    if delta <= terms.tolerance:
        return STOP, delta, 0.0, used
    nobody = np.empty((0, 0, 0))
    for k in range(K):
        candidate.lower[k] = planning.dot(candidate.weights, candidate.lines[:, 1 + k]) - delta
        if terms.robust:
            worst = 0.0
            for slot in range(used):
                worst += candidate.weights[slot] * uncertainty.worst_value(
                    belief.begin, belief.length, successor, probability, reach, belief.gap, terms.utilities[k], nobody,
                    candidate.actions[slot], terms.start,
                )  # fmt: skip
            candidate.lower[k] = max(candidate.lower[k], worst)
    alpha = candidate_share(candidate.lower, terms.thresholds, trust.margins)
    for k in range(K):
        lower = alpha * candidate.lower[k] + (1.0 - alpha) * (terms.thresholds[k] + trust.margins[k])
        if not lower >= terms.thresholds[k] - 1e-9:  # the last gate before deployment; it also catches NaN
            return BASELINE, np.inf, 0.0, 0
    return MIXTURE, delta, alpha, used


@njit(cache=True)
def deployed_shares(candidate, alpha, shares):
    """The weights of the deployed mixture into `shares` [C + 1]: the slots of the candidate, then the baseline."""
    C = candidate.weights.size
    shares[:C] = alpha * candidate.weights
    shares[C] = max(0.0, 1.0 - shares[:C].sum())


@njit(cache=True)
def roll_out(begin, length, successor, probability, start, policy, fixed, component, origin, states, actions):
    """One episode on a known system, into states [H + 1] and actions [H].

    Follows the deterministic actions fixed[component] of [C, H, S], or the stochastic `policy` [H, S, A] for component C.
    Draw 0 of the stream is the mixture's coin, draw 1 the first state, draws 2 + 2h and 3 + 2h the action and successor
    of step h.
    """
    H, S, A = policy.shape
    rows_per_step = 0 if begin.size == S * A else S * A
    is_fixed = component < fixed.shape[0]
    s = pick(start, uniform(origin, 1))
    states[0] = s
    for h in range(H):
        if is_fixed:
            a = np.int64(fixed[component, h, s])
        else:  # `pick` on policy[h, s], written out: a slice would cost more than the rest of the step
            u, total, a = uniform(origin, 2 + 2 * h), 0.0, 0
            for i in range(A):
                if policy[h, s, i] > 0.0:
                    a = i
                    total += policy[h, s, i]
                    if u < total:
                        break
        row = h * rows_per_step + s * A + a
        n = np.int64(length[row])
        u = uniform(origin, 3 + 2 * h)
        if n == 0:
            s = min(np.int64(u * S), S - 1)
        else:
            i = np.int64(begin[row])
            end, total = i + n - 1, probability[i]
            while i < end and not u < total:
                i += 1
                total += probability[i]
            s = np.int64(successor[i])
        actions[h] = a
        states[h + 1] = s


@njit(cache=True)
def roll_out_round(begin, length, successor, probability, start, policy, seed, round_number, states, actions):
    """`roll_out` of a stochastic policy for callers outside compiled code."""
    fixed = np.empty((0, 0, 0), dtype=np.uint32)
    origin = stream(seed, round_number)
    roll_out(begin, length, successor, probability, start, policy, fixed, 0, origin, states, actions)


@njit(cache=True)
def collect(tally, begin, length, successor, probability, start, policy, seed, first_episode, episodes, tally_rows_per_step):
    """Count episodes of one policy on a known system, until a row needs more room; returns how many were counted."""
    H, S, A = policy.shape
    states, actions = np.empty(H + 1, dtype=np.uint32), np.empty(H, dtype=np.uint32)
    fixed = np.empty((0, 0, 0), dtype=np.uint32)
    for t in range(episodes):
        origin = stream(seed, first_episode + t)
        roll_out(begin, length, successor, probability, start, policy, fixed, 0, origin, states, actions)
        uncertainty.record_episode(tally, states, actions, A, tally_rows_per_step)
        if uncertainty.lacks_room(tally, states, actions, H, S, A, tally_rows_per_step):
            return t + 1
    return episodes


@njit(cache=True)
def same_actions(left, right):
    for h in range(left.shape[0]):
        for s in range(left.shape[1]):
            if left[h, s] != right[h, s]:
                return False
    return True


@njit(cache=True)
def real_values(reality, terms, candidate, alpha, seen, lines, work, out):
    """Exact V_c of the deployed mixture on the real system, constraint by constraint, into `out` [K].

    `seen` [C, H, S] and `lines` [C, 1 + K] remember the policies evaluated last: most rounds deploy the same ones again.
    """
    out[:] = (1.0 - alpha) * reality.baseline_values
    if alpha == 0.0:
        return
    instance = planning.Instance(
        reality.begin, reality.length, reality.successor, reality.probability, terms.start,
        reality.utilities[0], reality.utilities, reality.baseline_values, terms.H, True,
    )  # fmt: skip
    for slot in range(candidate.weights.size):
        if candidate.weights[slot] > 0.0:
            if not same_actions(seen[slot], candidate.actions[slot]):
                seen[slot] = candidate.actions[slot]
                planning.evaluate_actions(instance, candidate.actions[slot], lines[slot], work)
            out += alpha * candidate.weights[slot] * lines[slot, 1:]


@njit(cache=True)
def deploy(
    tally, belief, rule, trust, planned, growth, begin, length, successor, probability, start, baseline, fixed, shares, seed,
    first_round, most, states, actions, state_visits,
):  # fmt: skip
    """Roll one mixture out and count what happens, until another plan is due, a row needs more room, or `most` rounds are
    done. A function of its own on bare arrays: the literal constants need tens of millions of such rounds.
    Returns (rounds, whether a plan is due, whether a row needs more room).
    """
    H, S, A = baseline.shape
    rows_per_step = 0 if belief.begin.size == S * A else S * A
    done, due, full = 0, False, False
    while done < most and not due and not full:
        origin = stream(seed, first_round + done)
        component = pick(shares, uniform(origin, 0))
        roll_out(begin, length, successor, probability, start, baseline, fixed, component, origin, states, actions)
        if growth > 0.0:
            due, full = uncertainty.record_watching(
                tally, belief, rule, planned, growth, states, actions, H, S, A, rows_per_step
            )
        else:
            uncertainty.observe_episode(tally, belief, rule, states, actions, S, A, rows_per_step)
            due, full = True, uncertainty.lacks_room(tally, states, actions, H, S, A, rows_per_step)
        if component == fixed.shape[0] and not trust.flags[margin.HALTED]:
            margin.take(trust, states, actions)
            due |= trust.flags[margin.HALTED]
        trust.counters[margin.SAMPLES] += H
        due |= trust.counters[margin.SAMPLES] >= trust.counters[margin.NEXT]
        for h in range(H):
            state_visits[states[h]] += 1
        done += 1
    return done, due, full


@njit(cache=True)
def run(
    tally, belief, rule, reach, terms, trust, candidate, reality, seed, first_round, most, growth, planned, warm, stay_warm,
    pending, log, state_visits,
):  # fmt: skip
    """At most `most` rounds from `first_round` on, on a known real system, until the stop, until `log` is full, or
    until a row needs more room. `pending` is the (reason, Delta, alpha) of a plan that still stands, or (-1, 0, 0). With
    `growth` > 0 a plan stands until a suspect row has been visited that fraction more than at the plan, `planned` [R], or
    until the baseline is to be looked at again. Returns (log entries, rounds rolled out, whether it ended (STOP or HALT),
    policies to start from next, the plan that still stands).
    """
    H, S, A = terms.H, terms.baseline.shape[1], terms.baseline.shape[2]
    K = reality.baseline_values.size
    states, actions = np.empty(H + 1, dtype=np.uint32), np.empty(H, dtype=np.uint32)
    shares = np.empty(candidate.weights.size + 1)
    lines = np.empty((candidate.weights.size, 1 + K))
    seen = np.full(candidate.actions.shape, A, dtype=np.uint32)  # no action at all
    work = planning.Work(np.empty((1, 1, 1)), np.empty((1, 1)), np.empty((2, 1 + K, S)))
    done = 0
    reason, delta, alpha = pending
    for t in range(log.reason.size):
        if reason < 0:
            reason, delta, alpha, warm = propose(tally, belief, reach, terms, trust, candidate, warm if stay_warm else 0)
            planned[:] = tally.visits
        log.reason[t], log.uncertainty[t], log.weight[t] = reason, delta, alpha
        log.suspects[t] = belief.suspect.sum()
        if reason in (STOP, HALT):
            log.real_values[t] = np.nan
            return t + 1, done, True, warm, (reason, delta, alpha)
        if K > 0:
            real_values(reality, terms, candidate, alpha, seen, lines, work, log.real_values[t])
        deployed_shares(candidate, alpha, shares)
        rounds, due, full = deploy(
            tally, belief, rule, trust, planned, growth, reality.begin, reality.length, reality.successor,
            reality.probability, terms.start, terms.baseline, candidate.actions, shares, seed, first_round + done,
            most - done, states, actions, state_visits,
        )  # fmt: skip
        done += rounds
        log.rounds[t] = rounds
        if due:
            reason = -1
            if growth > 0.0:
                uncertainty.update_all(tally, belief, rule, S)
            if trust.counters[margin.SAMPLES] >= trust.counters[margin.NEXT]:
                margin.look(trust, belief, reach, tally.successor, tally.probability)
        if full or done == most:
            return t + 1, done, False, warm, (reason, delta, alpha)
    return log.reason.size, done, False, warm, (reason, delta, alpha)
