"""What the data leave open: counts, confidence radii, the mismatch region and what theory promises."""
