"""`python -m safe2real.cli` is `safe2real`."""

from safe2real.cli import main

main()
