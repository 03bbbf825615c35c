"""The conditions safe2real raises. Every message carries the place, the value and the cure."""


class Safe2RealError(Exception):
    """Base of every error this package raises on purpose."""


class InvalidInput(Safe2RealError, ValueError):
    """An argument cannot be what it was given as; nothing was changed or recorded."""


class OutsideModel(InvalidInput):
    """The real system did what the model has no state for: the model is wrong there, whatever else was assumed."""


class OutOfOrder(Safe2RealError):
    """Asked for what there is only before the stop: another deployment, another episode."""


class Stopped(OutOfOrder):
    """The model is accurate enough: there is nothing left to deploy."""


class Halted(Safe2RealError):
    """The data refute the baseline's margin: nothing is handed out any more, and the machine should be stopped."""


class Conflict(Safe2RealError):
    """The record says otherwise already: an episode told again with other content, or a campaign that exists."""


class StorageFailure(Safe2RealError):
    """The database cannot be read or written as it should; what was told before is still there."""
