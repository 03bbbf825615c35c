"""The guarantee, tried: random systems that are as hard as the assumptions allow, every deployment evaluated exactly.

Run with `python -m trial`; nothing here is part of the package.
"""

import os

# One core for every process, set before any of the libraries below is imported and makes its threads.
for _name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
