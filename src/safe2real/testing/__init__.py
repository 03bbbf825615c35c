"""What a plug-in of your own must pass, as test classes to subclass; pytest finds them, `check()` runs them without it."""

from safe2real.testing.journals import JournalContract

__all__ = ["JournalContract"]
