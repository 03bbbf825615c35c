"""What the planner costs, measured beside its competitors; nothing here is part of the package."""

import os

# One core for everybody, said before any of the libraries below is imported and makes its threads; unless told otherwise.
for _name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
