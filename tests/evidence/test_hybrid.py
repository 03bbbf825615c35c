"""The hybrid model's rows stay where they belong when segments of counts move."""

import numpy as np

import safe2real as s2r

S, A, H = 30, 2, 3


def test_a_row_that_is_the_simulators_stays_so_when_segments_move():
    """A row known to be within a distance is the simulator's until more was seen of it, although it is never cleared."""
    rng = np.random.default_rng(0)
    rows = np.zeros((S, A, S))
    for s in range(S):
        rows[s, :, [s, (s + 1) % S]] = 0.5
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), H, 0, s2r.AtLeast(np.ones((S, A)), 1.0))
    within = np.ones((S, A))
    within[20:] = 0.05
    settings = s2r.Settings(margin=1.0, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.2)
    baseline = s2r.MarkovPolicy.uniform(horizon=H, num_states=S, num_actions=A)
    evidence = s2r.Learner(s2r.Problem(model, baseline, settings, within=within)).evidence
    before = evidence.counts.tally.begin.copy()
    for _ in range(40):  # many successors of few rows: their segments have to grow
        states = [0, *rng.integers(S, size=H)]
        evidence.observe(s2r.Trajectory.of(model, states, rng.integers(A, size=H)))
    assert not np.array_equal(before, evidence.counts.tally.begin)
    kernel = evidence.view()
    unseen = np.flatnonzero((evidence.counts.tally.visits == 0) & (within.reshape(-1) < 1.0))
    assert unseen.size
    for row in unseen:
        successors, probabilities = kernel.row(int(row))
        there, likely = model.kernel.row(int(row))
        assert successors.tolist() == there.tolist()
        assert probabilities.tolist() == likely.tolist()
