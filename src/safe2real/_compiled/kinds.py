"""The numbers by which compiled code knows radii and reasons; nothing here needs a compiler."""

# Radii

LITERAL = 0
KL = 1
UNION = 2
STITCHED = 3
ADAPTIVE = 4
TABLE = 5  # a radius from elsewhere, tabulated
SHORT_RUN, LONG_RUN = 20.0, 1000.0  # visits for which the two mixtures of ADAPTIVE are tuned

# When a row is cleared
HALFWAY = 0  # distance + radius <= (eps_s + sigma_s) / 2, the paper's rule
BELOW_GAP = 1  # distance + radius < sigma_s
SEQUENTIAL = 2  # that, or the sequential test

# Why a round proposes what it does
BASELINE = 0
MIXTURE = 1
STOP = 2
HALT = 3
