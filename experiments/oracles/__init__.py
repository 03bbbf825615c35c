"""Reference linear programs, and the bounds on the length of a run that papers state."""
