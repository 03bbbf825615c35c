"""The paper's tables and figures, further studies and related systems: run from a checkout, `python -m experiments`."""
