"""The conditions safe2real raises. Every message carries the place, the value and the cure."""


class Safe2RealError(Exception):
    """Base of every error this package raises on purpose."""


class InvalidInput(Safe2RealError, ValueError):
    """An argument cannot be what it was given as; nothing was changed or recorded."""


class OutOfOrder(Safe2RealError):
    """Asked for what only one side of the stop has: a plan before it, or another episode after it."""
