"""Case studies beyond the paper: certified bounds, declared rewards, trials and the comparison with related systems."""
