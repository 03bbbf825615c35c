"""Contracts that a plug-in must pass: subclass one in a test file of your own, say how to make the plug-in, run pytest.

    class TestMine(RadiusContract):
        def make(self):
            return Mine()

A contract fails with an AssertionError that names the broken promise; docs/extending.md has a recipe for each.
"""

from safe2real.testing.journals import JournalContract
from safe2real.testing.methods import MethodContract
from safe2real.testing.radii import RadiusContract

__all__ = ["JournalContract", "MethodContract", "RadiusContract"]
