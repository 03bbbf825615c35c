"""The data and their consequences: counts, confidence sets, suspects, the hybrid model, the mismatch map."""

from safe2real.evidence.evidence import Evidence, evidence_for
from safe2real.evidence.mean_bounds import mean_bounds
from safe2real.evidence.mismatch_map import MismatchMap, Verdict, map_mismatch

__all__ = ["Evidence", "MismatchMap", "Verdict", "evidence_for", "map_mismatch", "mean_bounds"]
