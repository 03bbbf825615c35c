"""Valid documents to be damaged, and numbers that no document may hold."""

import base64
import json
import zlib

import numpy as np
from hypothesis import strategies as st

H, S, A = 4, 3, 2
TRANSITION = [[[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]], [[0.3, 0.6, 0.1], [0.2, 0.2, 0.6]], [[0.0, 0.0, 1.0], [0.1, 0.0, 0.9]]]
SAFE = [[1.0, 1.0], [1.0, 0.5], [0.0, 0.0]]
NOT_FINITE = st.sampled_from([float("nan"), float("inf"), -float("inf")])


def pack(array):
    array = np.asarray(array)
    content = base64.b64encode(zlib.compress(array.tobytes())).decode()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "zlib": content}


def pooled():
    """Stored transitions, the same at every step; literal constants."""
    dense = np.array(TRANSITION)
    states, actions, successors = np.nonzero(dense)
    return {
        "horizon": H,
        "simulator": {
            "num_states": S,
            "num_actions": A,
            "states": states.tolist(),
            "actions": actions.tolist(),
            "successors": successors.tolist(),
            "probabilities": dense[states, actions, successors].tolist(),
        },
        "start": 0,
        "constraints": [{"name": "upright", "utility": SAFE, "threshold": 1.0}],
        "baseline": {"kind": "deterministic", "num_actions": A, "actions": [0, 0, 0]},
        "settings": {
            "margin": 1.0,
            "calibrated_gap": 0.1,
            "mismatch_gap": 0.6,
            "tolerance": 0.25,
            "delta": 0.05,
            "seed": 7,
            "algorithm": "sim-to-real safe RL",
            "radius": {"kind": "literal"},
            "bonus_scale": 1.0,
        },
    }


def per_step():
    """Dense rows for every step, costs and utilities, several margins, heuristic constants."""
    return {
        "horizon": H,
        "simulator": {"transition": [TRANSITION] * H},
        "start": [0.5, 0.5, 0.0],
        "constraints": [{"cost": [SAFE] * H, "limit": 3.5}, {"name": "level", "utility": SAFE, "threshold": 0.5}],
        "baseline": {"kind": "stochastic", "probabilities": [[[0.5, 0.5]] * S] * H},
        "settings": {
            "margin": [0.5, 1.0],
            "calibrated_gap": 0.0,
            "mismatch_gap": 0.5,
            "tolerance": 0.5,
            "radius": {"kind": "scaled", "scale": 0.4},
        },
        "known": np.zeros((H, S, A), dtype=bool).tolist(),
    }


def packed():
    """The same system as `pooled`, as large ones are written."""
    document = pooled()
    simulator = document["simulator"]
    for name, dtype in (("states", "<u4"), ("actions", "<u2"), ("successors", "|u1"), ("probabilities", "<f8")):
        simulator[name] = pack(np.array(simulator[name], dtype=dtype))
    document["start"] = pack(np.array([1.0, 0.0, 0.0]))
    document["constraints"][0]["utility"] = pack(np.array(SAFE))
    document["baseline"]["actions"] = pack(np.zeros((H, S), dtype="|u1"))
    document["known"] = pack(np.zeros((S, A), dtype="|b1"))
    return document


# Through JSON, so that no list is in two places.
VALID = json.loads(json.dumps({"pooled": pooled(), "per step": per_step(), "packed": packed()}))
BELOW_0, ABOVE_1 = st.floats(-1e300, -1e-6), st.floats(1.0 + 1e-6, 1e300)
NOT_POSITIVE = st.one_of(st.just(0), st.just(-0.0), BELOW_0, NOT_FINITE)
HUGE = st.sampled_from([2**31, 2**32, 2**33, 2**53, 2**62, 2**63, 2**64, 2**70, 10**30, 10**400, 10**4000])
NO_COUNT = st.one_of(st.integers(-(2**70), 0), st.floats(), st.sampled_from([1.0, 4.0, True]))
NO_SEED = st.one_of(st.integers(max_value=-1), st.floats(), st.integers(min_value=2**64), st.just(True))


def outside(size):
    """Whole numbers that are no state or action of a system with `size` of them."""
    large = [2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30, 10**400]
    return st.one_of(
        st.integers(size, size + 3), st.integers(-3, -1), st.sampled_from(large), st.sampled_from(large).map(lambda n: -n)
    )
