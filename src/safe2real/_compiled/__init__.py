"""All compiled code, and nothing else imports numba. Importing this package does not import it either.

`rows` holds the tuple that everything is about and `cache` the decorators. A known model: `transitions`, `evaluation`,
`lanes` and `sweeps` (a pass), `team` (threads), `bracket` and `crossing` (at most one constraint), `master`, `pricing` and
`columns` (several). What data say: `tally`, `radii`, `belief`, `robust`, `margin`. Runs: `draws`, `rollout`, `rounds`.
"""
