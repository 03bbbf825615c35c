"""Pictures of systems, policies, rows and runs: one file each, functions of data that return a matplotlib `Figure`.

They need the extra `report`, no display, and nothing of pyplot's global state. The `plot` methods of learners, plans and
systems, the pages of `report` and the command line all draw by these.
"""
