"""What a plug-in must pass: subclass a contract in a test file of your own, say how to make one, and run pytest.

    class TestMine(RadiusContract):
        def make(self):
            return Mine()

A contract fails with AssertionError and says what was promised; docs/extending.md has a recipe for each.
"""

from safe2real.testing.journals import JournalContract
from safe2real.testing.methods import MethodContract
from safe2real.testing.radii import RadiusContract

__all__ = ["JournalContract", "MethodContract", "RadiusContract"]
