"""Compiled rounds of exploration: propose, roll out, observe; for one `propose` and for a whole simulated run.

Letters as in `transitions` and `tally`. C slots hold deterministic policies; the candidate of a round is the mixture of the
slots with weight, and after it comes the baseline.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from safe2real._compiled import margin
from safe2real._compiled.cache import borrowing, compiled, instead_of, shared, shared_borrowing
from safe2real._compiled.codes import BASELINE, HALT, INFEASIBLE, MIXTURE, STOP
from safe2real._compiled.evaluation import evaluate_actions, value_functions
from safe2real._compiled.rollout import pick, roll_out, stream, uniform
from safe2real._compiled.row_update import Belief, Rule, observe_episode, record_watching, update_all
from safe2real._compiled.rows import Array, Reach, Rows, Sets
from safe2real._compiled.search import solve
from safe2real._compiled.sweeps import Task
from safe2real._compiled.tally import Episode, Tally, lacks_room
from safe2real._compiled.transitions import any_of, dot, rows_per_step, spread
from safe2real._compiled.worst_rows import follow

CHAINS = 3  # chains tried, each with scales from the last
LEAST_SCALE = 1e-6  # of the tolerance: the smallest s_j
HOPELESS = 1.5  # times the tolerance: where the candidate alone is beyond it no chain is tried


class Terms(NamedTuple):
    """The constants of all rounds: the problem, and the settings that a round reads."""

    start: Array  # [S]
    utilities: Array  # [K, 1 or H, S, A]; K = 0 when safety is not asked for (Algorithm 3)
    thresholds: Array  # [K]
    margins: Array  # [K] Slater margins of the baseline, as stated
    baseline: Array  # [H, S, A]
    tolerance: float
    spans: Array  # [1 or H] what the bonus at each step is multiplied by: 1, or (H - 1 - h) / H
    chained: bool  # whether the uncertainty is bounded by a chain of divergences, too
    robust: bool  # whether safety is judged by the worst kernel within the radii, too
    certified: bool  # whether the radii prove anything, so that data can refute an assumption
    H: int
    like: tuple[int, ...] | None  # `search.like_of(K)`
    steps: int  # actions of an episode: H, or one fewer where the last step only collects


class Candidate(NamedTuple):
    """The most recent candidate mixture; each planning round overwrites it in place."""

    actions: Array  # [C, H, S]
    lines: Array  # [C, 1 + K]
    weights: Array  # [C]
    multipliers: Array  # [K]
    lower: Array  # [K] lower bound on the candidate's real V_c
    baseline_values: Array  # [K] V_c of the baseline on the hybrid model


class Reality(NamedTuple):
    """A real system whose kernel is known: for simulated runs."""

    rows: Rows
    uniform: bool  # whether any row is
    utilities: Array  # [K, 1 or H, S, A] of every constraint, also when exploration ignores them
    baseline_values: Array  # [K] exact V_c of the baseline


class Learnt(NamedTuple):
    """The evidence so far; the rounds update it in place."""

    tally: Tally
    belief: Belief
    rule: Rule
    reach: Reach
    trust: margin.Trust


class Course(NamedTuple):
    """The options of a simulated run, and the arrays that it writes."""

    seed: Array  # a uint64
    first_round: int
    most: int  # rounds
    growth: float  # a plan stands until a suspect row has been visited that fraction more than at the plan; 0: one round
    planned: Array  # [R] visits at the last plan, overwritten
    stay_warm: bool  # whether a search starts from the last one's policies
    state_visits: Array  # [S] added to


class Log(NamedTuple):
    """One entry per plan of a simulated run."""

    rounds: Array  # [T] how many rounds it was deployed
    reason: Array  # [T]
    uncertainty: Array  # [T] Delta
    weight: Array  # [T] alpha
    real_values: Array  # [T, K] exact V_c of the deployed mixture
    suspects: Array  # [T]


def step_bonus(bonus, spans, S, A):
    """The bonus the planner sees: [1 or H, S, A], rows [R] times the span of what can still be earned after each step."""
    return spans.reshape(-1, 1, 1) * bonus.reshape(-1, S, A)


@instead_of(step_bonus)
def compiled_step_bonus(bonus, spans, S, A):
    steps, stride = max(spans.size, bonus.size // (S * A)), rows_per_step(bonus, S, A)
    out = np.empty((steps, S, A))
    for h in range(steps):
        span, row = spans[h if spans.size > 1 else 0], h * stride
        for s in range(S):
            for a in range(A):
                out[h, s, a] = span * bonus[row]
                row += 1
    return out


@shared_borrowing
def candidate_share(lower, thresholds, margins):
    """alpha: the share of a candidate with lower bounds `lower` [K] for which the baseline's margins pay (Line 13)."""
    alpha = 1.0
    for k in range(thresholds.size):
        excess = max(0.0, thresholds[k] - lower[k])
        alpha = min(alpha, margins[k] / (margins[k] + excess))
    return alpha


@shared_borrowing
def search(rows, terms, bonus, warm, candidate):
    """The policy of the largest `bonus` [1 or H, S, A] that is feasible on the model, into `candidate`: (status, bound)."""
    status, bound, _, _ = solve(
        terms.like, rows, terms.start, bonus, terms.utilities, terms.thresholds, terms.H, warm,
        candidate.actions, candidate.lines, candidate.weights, candidate.multipliers, 1,
    )  # fmt: skip
    return status, bound


# Delta by a chain of divergences: how far any value can be off, from the TV and the KL balls together (docs/samples.md).
#
# For all s_j > 0, j = 1 to H - 1, Delta = sum_j s_j / 2 + max over feasible policies of V_b on the model, where step h of
# a row costs b = min(gap (H - 1 - h), divergence sum over j > h of 1 / (4 s_j)). Good s_j follow from where a policy goes:
# sqrt(W_j / 2), W_j what the divergences of its steps before j sum up to.


@shared
def first_scales(H, tolerance):
    """[H] s_j that grow like the square root of j and take half of the tolerance; s_0 is not used."""
    scales, total = np.zeros(H), 0.0
    for j in range(1, H):
        scales[j] = np.sqrt(j)
        total += scales[j]
    for j in range(1, H):
        scales[j] *= tolerance / total
    return scales


@shared
def tails_of(scales):
    """[H] sum over j > h of 1 / (4 s_j)."""
    H = scales.size
    tails = np.zeros(H)
    for h in range(H - 2, -1, -1):
        tails[h] = tails[h + 1] + 0.25 / scales[h + 1]
    return tails


@compiled
def chain_bonus(sets, tails, H, S, A):
    """Return b [H, S, A], the cost of each row at each step."""
    out, stride = np.empty((H, S, A)), rows_per_step(sets.gap, S, A)
    for h in range(H):
        row = h * stride
        for s in range(S):
            for a in range(A):
                out[h, s, a] = cost_of(sets, row, tails[h], H - 1.0 - h)
                row += 1
    return out


@shared_borrowing
def cost_of(sets, row, tail, span):
    by_gap = sets.gap[row] * span
    return min(by_gap, sets.divergence[row] * tail) if sets.divergence[row] < np.inf else by_gap


@compiled
def chain_follow(sets, start, actions, weights, tails, least, scales, A):
    """Compute new `scales` [H] in place from the candidate's expected divergence per step, each at least `least`.

    Returns sum_j sqrt(W_j / 2) of this candidate plus the costs of its steps that count by their gap. That is a lower bound
    on this chain's Delta for every choice of scales under which the same rows count by their gap.
    """
    H, S = actions.shape[1], actions.shape[2]
    stride = rows_per_step(sets.gap, S, A)
    summed, by_gap = np.zeros(H), 0.0
    here, there = np.empty(S), np.empty(S)
    for slot in range(weights.size):
        if weights[slot] <= 0.0:
            continue
        for s in range(S):
            here[s] = start[s]
        for h in range(H):
            for s in range(S):
                there[s] = 0.0
            everywhere = 0.0
            for s in range(S):
                if here[s] > 0.0:
                    row, span = h * stride + s * A + np.int64(actions[slot, h, s]), H - 1.0 - h
                    if sets.divergence[row] * tails[h] < sets.gap[row] * span:
                        summed[h] += weights[slot] * here[s] * sets.divergence[row]
                    else:
                        by_gap += weights[slot] * here[s] * sets.gap[row] * span
                    everywhere += spread(sets.rows, np.uint64(row), here[s], there)
            for s in range(S):
                there[s] += everywhere / S
            here, there = there, here
    total, before = by_gap, 0.0
    for j in range(1, H):
        before += summed[j - 1]
        scales[j] = max(least, np.sqrt(0.5 * before))
        total += np.sqrt(0.5 * before)
    return total


@shared
def chained_uncertainty(sets, terms, candidate, used):
    """Return Delta by a chain of divergences; inf if the candidate alone shows that it is well above the tolerance."""
    H, S, A = terms.H, terms.baseline.shape[1], terms.baseline.shape[2]
    least = LEAST_SCALE * terms.tolerance
    scales = first_scales(H, terms.tolerance)
    reached = chain_follow(sets, terms.start, candidate.actions, candidate.weights, tails_of(scales), least, scales, A)
    if reached > HOPELESS * terms.tolerance:
        return np.inf
    best = np.inf
    other = Candidate(
        candidate.actions.copy(), candidate.lines.copy(), candidate.weights.copy(), candidate.multipliers.copy(),
        candidate.lower, candidate.baseline_values,
    )  # fmt: skip
    for _ in range(CHAINS):
        tails, halves = tails_of(scales), 0.0
        for j in range(1, H):
            halves += 0.5 * scales[j]
        status, bound = search(sets.rows, terms, chain_bonus(sets, tails, H, S, A), used, other)
        if status == INFEASIBLE:
            break
        best = min(best, halves + max(bound, dot(other.weights, other.lines[:, 0])))
        if best <= terms.tolerance:
            break
        used = np.int64(0)  # the search may have left its policies in any slots
        chain_follow(sets, terms.start, other.actions, other.weights, tails, least, scales, A)
    return best


@compiled
def baseline_values(rows, terms, out):
    """V_c of the baseline on the hybrid model into `out` [K] (Line 5)."""
    for k in range(terms.thresholds.size):
        out[k] = dot(terms.start, value_functions(rows, terms.utilities[k], terms.baseline)[0])


@shared
def most_uncertain(rows, terms, bonus, warm, candidate):
    """Write the policy with the largest bonus among those feasible on the model into `candidate` (Line 8).

    Returns (status, uncertainty, used): `uncertainty` is a dual upper bound on the bonus of EVERY feasible policy; the
    candidate's policies are in the first `used` slots.
    """
    S, A = terms.baseline.shape[1], terms.baseline.shape[2]
    status, bound = search(rows, terms, step_bonus(bonus, terms.spans, S, A), warm, candidate)
    used = np.int64(0)  # not a literal 0, for whose type the callees would be compiled again
    if status == INFEASIBLE:
        return status, np.inf, used
    for slot in range(candidate.weights.size):
        if candidate.weights[slot] > 0.0:
            if used != slot:
                copy_actions(candidate.actions[slot], candidate.actions[used])
                for j in range(candidate.lines.shape[1]):
                    candidate.lines[used, j] = candidate.lines[slot, j]
                candidate.weights[used] = candidate.weights[slot]
                candidate.weights[slot] = 0.0
            used += 1
    # The candidate itself may miss a threshold by rounding, so its own bonus counts too.
    return status, max(bound, dot(candidate.weights, candidate.lines[:, 0])), used


@shared
def lower_bounds(sets, terms, candidate, used, uncertainty):
    """Write lower bounds on the candidate's real V_c into `candidate.lower` [K]: Lemma 3; if `robust`, the worst kernel."""
    unused, values = np.empty((0, 0, 0)), np.empty((2, terms.start.size))
    for k in range(terms.thresholds.size):
        candidate.lower[k] = dot(candidate.weights, candidate.lines[:, 1 + k]) - uncertainty
        if terms.robust:
            worst = 0.0
            for slot in range(used):
                worst += candidate.weights[slot] * follow(
                    sets, terms.utilities[k], unused, candidate.actions[slot], terms.start, values, 1
                )
            candidate.lower[k] = max(candidate.lower[k], worst)


@borrowing
def propose(sets, bonus, refuted, flags, margins, terms, candidate, warm):
    """Decide one round by Lines 5 to 13 of Algorithm 1, as `methods.SimToReal.propose` does.

    Without constraints (K = 0) it is Algorithm 3: no Line 5, and the candidate is deployed alone. Line 13 uses `margins`:
    the stated margin, or a larger one that the data prove. `bonus` and `refuted` [R] are those of `Belief`, `flags` and
    `margins` those of `Trust`.

    Returns (reason, Delta, alpha, number of policies from which the next search starts).
    """
    K = terms.thresholds.size
    if flags[margin.HALTED]:
        return HALT, np.inf, 0.0, warm  # the baseline's margin is refuted: it is not safe either
    if flags[margin.LEFT] or (terms.certified and any_of(refuted)):
        return BASELINE, np.inf, 0.0, warm  # a refuted model certifies nothing; the baseline rests on its margin
    baseline_values(sets.rows, terms, candidate.baseline_values)
    for k in range(K):
        if candidate.baseline_values[k] < terms.thresholds[k] + 0.5 * terms.margins[k]:  # Line 5
            return BASELINE, np.inf, 0.0, warm  # Line 6
    status, delta, used = most_uncertain(sets.rows, terms, bonus, warm, candidate)  # Line 8
    if status == INFEASIBLE:
        # Cannot happen after Line 5; if rounding ever makes it happen, the safe answer is the baseline.
        return BASELINE, np.inf, 0.0, np.int64(0)
    delta = min(float(terms.H), delta)  # Line 9
    if terms.chained and delta > terms.tolerance:
        delta = min(delta, chained_uncertainty(sets, terms, candidate, used))
    if delta <= terms.tolerance:  # Line 10
        return STOP, delta, 0.0, used  # Line 11
    lower_bounds(sets, terms, candidate, used, delta)  # Lemma 3
    alpha = candidate_share(candidate.lower, terms.thresholds, margins)  # Line 13
    for k in range(K):
        lower = alpha * candidate.lower[k] + (1.0 - alpha) * (terms.thresholds[k] + margins[k])
        if not lower >= terms.thresholds[k] - 1e-9:  # the last check before deployment; it also catches NaN
            return BASELINE, np.inf, 0.0, np.int64(0)
    return MIXTURE, delta, alpha, used


@borrowing
def deployed_shares(candidate, alpha, shares):
    """Write the weights of the deployed mixture into `shares` [C + 1]: the candidate's slots, then the baseline."""
    C, total = candidate.weights.size, 0.0
    for slot in range(C):
        shares[slot] = alpha * candidate.weights[slot]
        total += shares[slot]
    shares[C] = max(0.0, 1.0 - total)


@borrowing
def count_true(flags):
    """Return the number of true entries; a loop, because numba compiles NumPy's own function to far more code."""
    found = 0
    for i in range(flags.size):
        found += flags[i]
    return found


def copy_actions(source, target):
    """Copy `source` [H, S] into `target`; return whether they differed."""
    changed = bool((target != source).any())
    target[...] = source
    return changed


@instead_of(copy_actions, borrowing=True)
def compiled_copy_actions(source, target):
    changed = False
    for h in range(source.shape[0]):
        for s in range(source.shape[1]):
            changed |= target[h, s] != source[h, s]
            target[h, s] = source[h, s]
    return changed


@borrowing
def real_values(reality, terms, candidate, alpha, seen, lines, parts, out):
    """Write the exact V_c [K] of the deployed mixture on the real system into `out`.

    `seen` [C, H, S] and `lines` [C, 1 + K] cache the policies evaluated last, since most rounds deploy the same ones again.
    """
    for k in range(out.size):
        out[k] = (1.0 - alpha) * reality.baseline_values[k]
    if alpha == 0.0:
        return
    task = Task(
        (0,), reality.rows, terms.start, reality.utilities[0], reality.utilities, terms.H, reality.uniform, seen, parts
    )
    for slot in range(candidate.weights.size):
        if candidate.weights[slot] > 0.0:
            if copy_actions(candidate.actions[slot], seen[slot]):
                evaluate_actions(task, seen[slot], lines[slot])
            for k in range(out.size):
                out[k] += alpha * candidate.weights[slot] * lines[slot, 1 + k]


@borrowing
def deploy(learnt, terms, fixed, reality, shares, course, before, episode):
    """Roll out one mixture, starting after `before` rounds, and count its episodes.

    It ends when another plan is due, when a row needs more room, or after the last round of the course. It is a separate
    function because the literal constants need tens of millions of such rounds.

    Returns (rounds, whether a plan is due, whether a row needs more room).
    """
    tally, belief, rule, _, trust = learnt
    states, actions, _ = episode
    seed, first_round, most, growth, planned, _, state_visits = course
    rows, start, baseline = reality.rows, terms.start, terms.baseline
    H, S, A = baseline.shape
    stride = rows_per_step(belief.begin, S, A)
    done, due, full = 0, False, False
    while before + done < most and not due and not full:
        origin = stream(seed, first_round + before + done)
        component = pick(shares, uniform(origin, 0))
        roll_out(rows, start, baseline, fixed, component, origin, states, actions)
        if growth > 0.0:
            due, full = record_watching(tally, belief, rule, planned, growth, states, actions, H, S, A, stride)
        else:
            observe_episode(tally, belief, rule, episode, S, A, stride)
            due, full = True, lacks_room(tally, states, actions, H, S, A, stride)
        if component == fixed.shape[0] and not trust.flags[margin.HALTED]:
            margin.take(trust, states, actions)
            due |= trust.flags[margin.HALTED]
        trust.counters[margin.SAMPLES] += actions.size
        due |= trust.counters[margin.SAMPLES] >= trust.counters[margin.NEXT]
        for h in range(actions.size):
            state_visits[states[h]] += 1
        done += 1
    return done, due, full


@compiled
def run(learnt, terms, candidate, reality, course, warm, pending, log):
    """Run rounds on a known real system until the stop, a full `log`, a row without room, or the last round of the course.

    `pending` is (reason, Delta, alpha) of a decision to reuse, or (-1, 0, 0). A reused decision expires at the next check
    of the baseline's margin.

    Returns (log entries, rounds rolled out, whether the run ended with STOP or HALT, number of policies from which the next
    search starts, the decision to reuse).
    """
    tally, belief, rule, reach, trust = learnt
    S, A = terms.baseline.shape[1], terms.baseline.shape[2]
    K = reality.baseline_values.size
    states, actions = np.empty(terms.steps + 1, dtype=np.uint32), np.empty(terms.steps, dtype=np.uint32)
    episode = Episode(states, actions, np.empty(terms.steps, dtype=np.int64))
    shares = np.empty(candidate.weights.size + 1)
    lines = np.empty((candidate.weights.size, 1 + K))
    seen = np.full(candidate.actions.shape, A, dtype=np.uint32)  # no action at all
    parts = np.empty(2 * (1 + K) * S)
    model = Rows(belief.begin, belief.length, tally.successor, tally.probability)
    sets = Sets(model, reach, belief.gap, belief.divergence)
    done = 0
    reason, delta, alpha = pending
    for t in range(log.reason.size):
        if reason < 0:
            reason, delta, alpha, warm = propose(
                sets, belief.bonus, belief.refuted, trust.flags, trust.margins, terms, candidate,
                warm if course.stay_warm else np.int64(0),
            )  # fmt: skip
            for row in range(course.planned.size):
                course.planned[row] = tally.visits[row]
        log.reason[t], log.uncertainty[t], log.weight[t] = reason, delta, alpha
        log.suspects[t] = count_true(belief.suspect)
        if reason == STOP or reason == HALT:
            log.real_values[t] = np.nan
            return t + 1, done, True, warm, (reason, delta, alpha)
        if K > 0:
            real_values(reality, terms, candidate, alpha, seen, lines, parts, log.real_values[t])
        deployed_shares(candidate, alpha, shares)
        rounds, due, full = deploy(learnt, terms, candidate.actions, reality, shares, course, done, episode)
        done += rounds
        log.rounds[t] = rounds
        if due:
            reason = -1
            if course.growth > 0.0:
                update_all(tally, belief, rule, S)
            if trust.counters[margin.SAMPLES] >= trust.counters[margin.NEXT]:
                margin.look(trust, sets, belief.refuted, 1)
        if full or done == course.most:
            return t + 1, done, False, warm, (reason, delta, alpha)
    return log.reason.size, done, False, warm, (reason, delta, alpha)
