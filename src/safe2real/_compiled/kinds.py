"""The numbers by which compiled code knows radii and reasons; nothing here needs a compiler."""

# Radii

LITERAL = 0
KL = 1
UNION = 2
STITCHED = 3
ADAPTIVE = 4
TABLE = 5  # a radius from elsewhere, tabulated
SHORT_RUN, LONG_RUN = 20.0, 1000.0  # visits for which the two mixtures of ADAPTIVE are tuned

# Why a round proposes what it does
BASELINE = 0
MIXTURE = 1
STOP = 2
HALT = 3
