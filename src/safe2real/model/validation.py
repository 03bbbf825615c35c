"""Checks on what users hand in: each failure names the place, the value and the cure."""

from __future__ import annotations

import inspect
import math
import os
import reprlib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safe2real.errors import InvalidInput

Floats = NDArray[np.float64]
Indices = NDArray[np.uint32]

ROUNDING = 1e-9
"""Room for float rounding: by what two computed values, sums or probabilities may differ that mean the same number."""
ROW_SUM_TOLERANCE = ROUNDING
ROUNDING_OF_SUMS = 1e-12  # rows closer to 1 are kept bit for bit, so that values stay the same when stored and read again

_LONGEST_SHOWN = 60
_BRIEF = reprlib.Repr()
_BRIEF.maxlevel = 3
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = _LONGEST_SHOWN


def shown(value: Any) -> str:
    """`value` for a message: part of a line, however long or deep it is."""
    try:
        text = " ".join(_BRIEF.repr(value).split())
    except ValueError:  # Python does not write out whole numbers of more than some thousand digits
        return f"a huge {type(value).__name__}"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


def place(name: str, index: Sequence[int]) -> str:
    """`transition[3, 12, 0]`: where in the array `name` something is wrong."""
    return f"{name}[{', '.join(str(int(i)) for i in index)}]" if len(index) else name


def entry_at(name: str, array: NDArray[Any], wrong: NDArray[np.bool_], form: str = "") -> str:
    """`transition[3, 12, 0] is 1.5`, of the first entry that is wrong."""
    index = np.argwhere(wrong)[0]
    return f"{place(name, index)} is {array[tuple(index)]:{form}}"


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return a contiguous read-only view, so that a validated array stays valid."""
    result = np.ascontiguousarray(array).view()
    result.setflags(write=False)
    return result


def own(given: Any) -> Any:
    """Return a read-only copy of an array, a deep copy of a list, or any other value unchanged.

    Later changes by the caller then have no effect.
    """
    return frozen(given.copy()) if isinstance(given, np.ndarray) else deepcopy(given) if isinstance(given, list) else given


def bare(array: NDArray[Any]) -> NDArray[Any]:
    """Return the writable array behind a `frozen` one for compiled code, or a copy if it has another shape or type.

    A read-only array is another type to numba, for which everything would be compiled once more.
    """
    if array.flags.writeable and array.flags.c_contiguous:
        return array
    base = array.base
    if isinstance(base, np.ndarray) and base.flags.writeable and base.flags.c_contiguous and base.shape == array.shape:
        return base if base.dtype == array.dtype else array.copy()
    return array.copy()


def is_whole(value: Any) -> bool:
    """Return whether a value is a whole number, not a boolean."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def positive_integer(name: str, value: Any) -> int:
    if not is_whole(value) or value < 1:
        raise InvalidInput(f"{name} is {shown(value)}; it must be a whole number of at least 1")
    return int(value)


def seed_number(name: str, value: Any) -> int:
    if not is_whole(value) or not 0 <= value < 2**64:
        raise InvalidInput(f"{name} is {shown(value)}; give a whole number from 0 to 2^64 - 1")
    return int(value)


def probability_of_failure(name: str, value: Any) -> float:
    number = finite_number(name, value)
    if not 0.0 < number < 1.0:
        raise InvalidInput(f"{name} is {number:g}; the probability of failure lies strictly between 0 and 1, e.g. 0.05")
    return number


def finite_floats(name: str, value: ArrayLike) -> Floats:
    """A copy of `value` as float64, every entry finite."""
    try:
        given = np.array(value, order="C")
        if given.dtype.kind not in "iufbO":  # numpy would read "0.5", and drop imaginary parts
            raise TypeError(f"it has entries of type {given.dtype}")
        array = given.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{name} is not an array of numbers: {shown(value)} ({error}); give floats") from error
    # The sum of squares shows in one fast call that all is well; where it overflows, the entries themselves decide.
    if not math.isfinite(np.vdot(array, array)) and not np.isfinite(array).all():
        raise InvalidInput(f"{entry_at(name, array, ~np.isfinite(array))}; it must be a finite number")
    return array


def reward_floats(name: str, value: ArrayLike) -> Floats:
    """A copy of a reward as float64, every entry finite; its shape is for the caller to check."""
    if isinstance(value, str) or callable(value):
        raise InvalidInput(
            f"{name} is not an array of numbers: {shown(value)}; give [S], [S, A] or [H, S, A] in [0, 1]: "
            "system.unit_reward, system.where(...), or a list over system.states"
        )
    return finite_floats(name, value)


def finite_number(name: str, value: Any) -> float:
    if isinstance(value, (bool, np.bool_)):
        raise InvalidInput(f"{name} is {shown(value)}; it must be a number")
    array = finite_floats(name, value)
    if array.ndim:
        raise InvalidInput(f"{name} has shape {array.shape}; it must be a single number")
    return float(array)


def whole_numbers(name: str, value: ArrayLike, *, below: int, what: str) -> NDArray[np.int64]:
    """`value` as int64 with every entry in 0..below-1."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InvalidInput(f"{name} is not a plain list: {shown(value)}; {what} are whole numbers") from error
    if array.dtype.kind not in "iufb":
        raise InvalidInput(f"{name} has entries of type {array.dtype}: {shown(value)}; {what} are whole numbers")
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        as_floats = finite_floats(name, value)
        if array.dtype.kind == "b" or (as_floats != np.floor(as_floats)).any():
            raise InvalidInput(f"{name} has entries of type {array.dtype}; {what} are whole numbers")
        array = as_floats
    outside = (array < 0) | (array >= below)
    if outside.any():
        raise InvalidInput(f"{entry_at(name, array, outside, '.15g')}; {what} run from 0 to {below - 1}")
    return array.astype(np.int64)


def step_utilities(
    name: str,
    value: ArrayLike,
    *,
    horizon: int,
    num_states: int,
    num_actions: int,
    unit_interval: bool,
    bound: str = "",
) -> Floats:
    """A utility, cost or reward as [1, S, A] (the same at every step) or [H, S, A], an array of our own.

    One number for each state [S] is the same for all actions. `bound` is a constraint's word for its number, for messages.
    """
    array = finite_floats(name, value)
    stationary, per_step = (num_states, num_actions), (horizon, num_states, num_actions)
    if array.shape == (num_states,):
        array = np.repeat(array[:, None], num_actions, axis=1)
    if array.shape not in (stationary, per_step):
        raise InvalidInput(
            f"{name} has shape {array.shape}; give (S, A) = {stationary}, (H, S, A) = {per_step}, or ({num_states},), one "
            "number for each state"
        )
    if unit_interval:
        outside = (array < 0.0) | (array > 1.0)
        if outside.any():
            shift = "subtract the smallest from all of them, " if array[outside][0] < 0.0 else ""
            what = {"limit": "costs", "threshold": "utilities"}.get(bound, "rewards")
            likewise = f", and change the {bound} likewise" if bound else ", which leaves the best policies the best"
            raise InvalidInput(
                f"{entry_at(name, array, outside, 'g')}; {what} lie in [0, 1]: {shift}divide by their largest value"
                f"{likewise}"
            )
    return np.ascontiguousarray(array.reshape((-1, num_states, num_actions)))  # compiled passes read it as it lies


def distributions(name: str, value: ArrayLike) -> Floats:
    """`value` with every last-axis row a probability distribution; one that misses 1 by more than rounding is divided by
    its sum, so that values computed from it are those of a distribution."""
    array = finite_floats(name, value)
    allowed = row_tolerance(array, array.shape[-1] if array.ndim else 1)
    for outside in (array < 0.0, array > 1.0 + allowed):
        if outside.any():
            raise InvalidInput(f"{entry_at(name, array, outside, 'g')}; probabilities lie between 0 and 1")
    totals = array.sum(axis=-1)
    wrong = np.abs(totals - 1.0) > allowed
    if wrong.any():
        index = np.argwhere(wrong)[0]
        raise InvalidInput(f"{place(name, index)} sums to {totals[tuple(index)]:.12g}; rows must sum to 1")
    # Rows that are right to rounding stay as they are, so that a stored row is read back bit for bit.
    loose = np.abs(totals - 1.0) > ROUNDING_OF_SUMS
    return np.where(loose[..., None], array / totals[..., None], array) if loose.any() else array


def row_tolerance(probabilities: Floats, longest: int) -> float:
    """Return the tolerance for sums of rows of at most `longest` entries: the rounding of float64, or that of float32.

    Entries are float32 if all of them are numbers that float32 has, through whatever lists and files they came. The error of
    a sum grows like the square root of its length.
    """
    with np.errstate(over="ignore"):
        single = bool((probabilities == probabilities.astype(np.float32)).all())
    return max(ROW_SUM_TOLERANCE, 4.0 * float(np.finfo(np.float32).eps) * longest**0.5) if single else ROW_SUM_TOLERANCE


def checked_name(name: str, value: Any, longest: int = 100) -> str:
    """Return a name of something, if it is printable in one line: a line break could forge a line of a certificate.

    Raises:
        InvalidInput: it is no text of 1 to `longest` printable characters.
    """
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > longest:
        raise InvalidInput(f"{name} is {shown(value)}; give 1 to {longest} printable characters in one line")
    return str(value)


def by_name(name: str, value: Any) -> dict[str, Any]:
    """Return a mapping from names, empty for None.

    Raises:
        InvalidInput: it is no mapping, or a key is no name.
    """
    if value is not None and not isinstance(value, Mapping):
        raise InvalidInput(f'{name} is {shown(value)}; give values by name, like {{"return": ...}}')
    return {checked_name(f"a name in {name}", key): one for key, one in (value or {}).items()}


class Declared(dict[str, Any]):
    """Values by name that cannot be changed; unlike a `MappingProxyType`, they can be copied and sent to other processes."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("what was declared is read-only; declare it anew")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


def boolean(name: str, value: Any) -> bool:
    """A flag of a document."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} is {shown(value)}; give true or false")
    return value


def check_reset(env: Any) -> None:
    """Refuse an environment whose `reset` takes no seed; it is not called."""
    try:
        inspect.signature(env.reset).bind(seed=0)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"env.reset cannot be called as reset(seed=...) ({error}); let it take a seed") from error


def check_function(name: str, function: Any, arguments: str) -> None:
    """Refuse what cannot be called with `arguments`, written as in "step, state, rng", before much is computed."""
    if not callable(function):
        raise InvalidInput(f"{name} is {shown(function)}; give a function ({arguments})")
    try:
        signature = inspect.signature(function)
    except ValueError:  # some functions that are written in C do not say
        return
    try:
        signature.bind(*arguments.split(", "))
    except TypeError as error:
        raise InvalidInput(
            f"{name} is called with ({arguments}), which does not fit it ({error}); let it take these arguments"
        ) from error


def unit_number(name: str, value: float) -> float:
    number = finite_number(name, value)
    if not 0.0 <= number <= 1.0:
        raise InvalidInput(f"{name} is {number:g}; give a number between 0 and 1")
    return number


# How much one input may ask for, said before memory is taken for it: one limit in bytes, one in deployments.
#
# A few bytes can describe an array that fills any machine: a compressed run of zeros, a shape in a header, a horizon.
# Sizes are computed from the claims and compared with the limit first. A user who needs more says so in the
# environment.

BYTES = "SAFE2REAL_MAX_BYTES"
DEPLOYMENTS = "SAFE2REAL_MAX_ASK"
_DEFAULTS = {
    BYTES: 1 << 28,  # 256 MiB: 33 million numbers in all arrays of one input together
    DEPLOYMENTS: 10_000,  # in one call of ask
}
AS_NUMBER = 8  # bytes of one entry, whatever it is stored as: arrays are computed with as doubles
# A text takes up to some 25 times its length as nested lists, so a text is given a smaller part.
_TEXT_PART = 8


def byte_limit() -> int:
    """Bytes that the arrays of one input may take together."""
    return _limit(BYTES)


def text_limit() -> int:
    """Bytes of a file that is read as text: JSON, TOML, JSON Lines."""
    return _limit(BYTES) // _TEXT_PART


def ask_limit() -> int:
    """Deployments that one call of `ask` may hand out."""
    return _limit(DEPLOYMENTS)


def check_bytes(what: str, size: int, cure: str = "") -> None:
    """Refuse an input that would take more bytes than the limit; `what` names it, `cure` is a fix besides a larger limit."""
    limit = byte_limit()
    if size > limit:
        raise InvalidInput(
            f"{what} would take {human(size)}, and the limit is {human(limit)}; {cure + ', or ' if cure else ''}"
            f"set {BYTES} to more if that is meant"
        )


def human(size: int) -> str:
    """Bytes for people: 1536 is 1.5 KiB."""
    if size >= 1 << 80:  # also where a number is too long to be written
        return "more than 2^80 bytes"
    number, unit = float(size), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB"):
        if number < 1024:
            break
        number, unit = number / 1024, larger
    return f"{number:.4g} {unit}"


def _limit(name: str) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return _DEFAULTS[name]
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) > 0):
        raise InvalidInput(f"{name} is {text[:40]!r}; give a whole number of at least 1, or leave it unset")
    return int(text)
