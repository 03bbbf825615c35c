"""All compiled code, and nothing else imports numba. Importing this package does not import it either.

`rows` holds the tuple that everything is about and `cache` the decorators. A known model: `transitions`, `evaluation`,
`lanes` and `sweeps` (a pass), `team` (threads), `dual_search` (one constraint), `column_generation` (several) and `search`
(which of them, and when it is compiled). What data say: `tally`, `row_update`, `clearing`, `likelihood`, `worst_rows`,
`margin`. Runs: `rollout`, `rounds`. `codes` has the numbers that stand for radii, rules, reasons and outcomes.
"""
