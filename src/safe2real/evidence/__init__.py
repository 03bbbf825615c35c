"""What the data say: counts, confidence sets, suspects, the hybrid model, the mismatch map."""
