"""The numbers that are printed in the paper, to stand beside ours; nothing here is computed."""

from __future__ import annotations

TABLE1 = {  # samples, suboptimality, unsafe iterations
    "sim-to-real safe RL": (39_168, 0.003, 0.0),
    "reward-free safe RL": (135_456, 0.003, 0.0),
    "unconstrained sim-to-real RL": (21_114, 0.003, 0.502),
}

ESTIMATION = {"I": 2.4e5, "II": 1.2e6, "III": 6e5}  # samples after which C = B
MISMATCH_GAPS = {"I": 0.68, "II": 0.2975, "III": 0.17}

MISMATCH_SIZES = (4, 8, 12, 24, 40, 64, 84, 100)
WIND_STRENGTHS = (0.15, 0.2, 0.3, 0.4, 0.55, 0.7, 0.85)

GAP_VALUES = (
    0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.34, 0.4, 0.45, 0.5, 0.55, 0.595, 0.62, 0.65, 0.7, 0.75, 0.8, 0.85, 1.0,
)  # fmt: skip

# Misspecification table, in the order of GAP_VALUES: samples, pairs of B lost, share of runs with a false deletion,
# suboptimality, share of feasible outputs. No deployed policy was unsafe in any row.
_SAMPLES = {
    "I": (
        115_878, 115_878, 112_266, 105_744, 104_238, 98_163, 91_086, 85_677, 77_085, 71_586,
        66_771, 63_795, 62_361, 61_356, 60_636, 59_571, 58_701, 58_074, 57_411, 56_229,
    ),
    "II": (
        118_506, 118_506, 112_647, 105_957, 104_793, 96_492, 88_455, 84_690, 76_836, 71_817,
        68_349, 65_568, 63_153, 62_028, 60_555, 58_773, 58_338, 57_732, 54_774, 42_066,
    ),
    "III": (
        115_719, 115_719, 111_855, 103_686, 102_645, 94_635, 87_321, 83_319, 76_380, 71_778,
        67_782, 64_563, 61_755, 60_369, 58_719, 56_523, 53_739, 51_099, 48_651, 43_410,
    ),
}  # fmt: skip
_LOST = {
    "I": (0.0,) * 20,
    "II": (0.0,) * 16 + (0.9, 3.8, 11.6, 31.7),
    "III": (0.0,) * 11 + (0.2, 0.6, 1.4, 2.3, 4.4, 7.2, 9.4, 11.9, 17.5),
}
_FALSE = {
    "I": (0.0,) * 20,
    "II": (0.0,) * 16 + (0.65, 1.0, 1.0, 1.0),
    "III": (0.0,) * 11 + (0.2, 0.45, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0),
}
_SUBOPTIMALITY = {
    "I": (
        0.0041, 0.0041, 0.0043, 0.0046, 0.0044, 0.0044, 0.0042, 0.0041, 0.0046, 0.0044,
        0.0044, 0.0043, 0.0043, 0.0045, 0.0050, 0.0045, 0.0044, 0.0043, 0.0043, 0.0047,
    ),
    "II": (
        0.0059, 0.0059, 0.0059, 0.0058, 0.0061, 0.0062, 0.0063, 0.0062, 0.0060, 0.0062,
        0.0060, 0.0061, 0.0062, 0.0064, 0.0066, 0.0063, 0.0145, 0.0451, 0.0855, 0.1079,
    ),
    "III": (
        0.0068, 0.0068, 0.0068, 0.0068, 0.0066, 0.0072, 0.0070, 0.0069, 0.0075, 0.0067,
        0.0071, 0.0074, 0.0069, 0.0086, 0.0080, 0.0097, 0.0129, 0.0160, 0.0238, 0.0372,
    ),
}  # fmt: skip
_FEASIBLE = {"I": (1.0,) * 20, "II": (1.0,) * 18 + (0.99, 0.90), "III": (1.0,) * 18 + (0.99, 0.955)}
INSTANCES = ("I", "II", "III")
MISSPECIFICATION = {
    (instance, gap): {
        "samples": _SAMPLES[instance][i],
        "lost": _LOST[instance][i],
        "false_deletion": _FALSE[instance][i],
        "suboptimality": _SUBOPTIMALITY[instance][i],
        "feasible": _FEASIBLE[instance][i],
    }
    for instance in INSTANCES
    for i, gap in enumerate(GAP_VALUES)
}
