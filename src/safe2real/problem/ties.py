"""Rows that behave alike, as in a system s' = f(s, a, w) with a known f and noise w of an unknown law.

Problem: the map f is known, the law of w is not, and it is the same wherever the ground, the season or the machine is the
same. Statement: the rows of one class share ONE distribution over outcome labels, and row (s, a) turns label l into the
successor `successors[s, a, l]`. docs/structure.md has the proofs, and the test that detects a false statement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safe2real.errors import InvalidInput
from safe2real.model.kernel import Kernel
from safe2real.model.serialization import array_to_json, check_keys, numbers_from_json
from safe2real.model.validation import ROUNDING, Floats, boolean, distributions, frozen, place, shown, whole_numbers


@dataclass(frozen=True, eq=False, slots=True)
class Ties:
    """Which rows share one law over labels, and where each label leads from each row.

    `classes` and `successors` are for every step alike unless they begin with an axis of steps, which only a simulator with
    rows for every step may have; without it the steps of such a simulator are tied to one another.

    A false statement about the real system invalidates every result that uses it. Unless it is `exact`, certificates never
    rest on it: it serves to find plans, and a trial has to certify them.

    Example:
        >>> Ties(classes=[[0], [0]], successors=[[[0, 1]], [[1, 0]]])  # both states stay with one and the same probability
    """

    classes: ArrayLike  # [S, A] or [H, S, A] the class of each row; -1: not tied
    successors: ArrayLike  # [S, A, L] or [H, S, A, L] where label l leads; -1: it cannot happen there
    exact: bool = False  # the user's word that the real system keeps to it
    reported: bool = False  # whether every episode says which labels were drawn (`Trajectory.labels`)
    laws: ArrayLike | None = None  # [C, L] of the simulator; found from its rows where it is left out
    class_names: tuple[str, ...] = ()  # [C] for messages and pages
    label_names: tuple[str, ...] = ()  # [L]

    def __post_init__(self) -> None:
        classes = _from_minus_one("ties.classes", self.classes, "classes")
        successors = _from_minus_one("ties.successors", self.successors, "states")
        if classes.ndim not in (2, 3) or successors.shape[:-1] != classes.shape or successors.shape[-1:] in ((), (0,)):
            raise InvalidInput(
                f"ties.classes has shape {classes.shape} and ties.successors {successors.shape}; give classes [S, A] with "
                "successors [S, A, L], or [H, S, A] with [H, S, A, L], and at least one label"
            )
        if not (classes >= 0).any():
            raise InvalidInput("ties.classes is -1 everywhere, so nothing is tied; leave ties out, or name a class")
        for name in ("exact", "reported"):
            boolean(f"ties.{name}", getattr(self, name))
        object.__setattr__(self, "classes", frozen(classes))
        object.__setattr__(self, "successors", frozen(successors))
        if self.laws is not None:
            laws = distributions("ties.laws", self.laws)
            if laws.shape != (self.num_classes, self.num_labels):
                raise InvalidInput(
                    f"ties.laws has shape {laws.shape}; give the simulator's law over the labels for each class, "
                    f"{(self.num_classes, self.num_labels)}"
                )
            object.__setattr__(self, "laws", frozen(laws))
        for name, count in (("class_names", self.num_classes), ("label_names", self.num_labels)):
            object.__setattr__(self, name, _names(f"ties.{name}", getattr(self, name), count))
        self._check_labels()

    @property
    def num_classes(self) -> int:
        """How many classes of rows there are."""
        return int(np.max(self.classes)) + 1

    @property
    def num_labels(self) -> int:
        """How many labels of outcomes there are."""
        return int(np.shape(self.successors)[-1])

    def class_name(self, number: int) -> str:
        """Return the name of a class.

        Args:
            number: of the class, from 0.

        Returns:
            Its name, or "class" with its number if it has none.
        """
        return self.class_names[number] if self.class_names else f"class {number}"

    def label_name(self, number: int) -> str:
        """Return the name of a label.

        Args:
            number: of the label, from 0.

        Returns:
            Its name, or "label" with its number if it has none.
        """
        return self.label_names[number] if self.label_names else f"label {number}"

    def flat(self, kernel: Kernel) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """List class and successors of every row of a kernel, with steps written out.

        Args:
            kernel: the simulator's, with R rows.

        Returns:
            (classes [R], successors [R, L]); -1 as in the fields.

        Raises:
            InvalidInput: the classes do not have the shape of the kernel's rows.
        """
        classes, successors = np.asarray(self.classes), np.asarray(self.successors)
        if classes.ndim == 2 and kernel.horizon is not None:
            classes = np.broadcast_to(classes, kernel.shape)
            successors = np.broadcast_to(successors, (*kernel.shape, self.num_labels))
        if classes.shape != kernel.shape:
            raise InvalidInput(
                f"ties.classes has shape {classes.shape}; the simulator's rows have {kernel.shape}: give one class for each"
            )
        return classes.reshape(-1), successors.reshape(-1, self.num_labels)

    def possible(self) -> NDArray[np.bool_]:
        """Mark the labels that can happen in each class.

        Returns:
            [C, L] booleans; all False for a number that no row has.
        """
        allowed = np.zeros((self.num_classes, self.num_labels), dtype=np.bool_)
        tied = np.asarray(self.classes) >= 0
        allowed[np.asarray(self.classes)[tied]] = np.asarray(self.successors)[tied] >= 0
        return allowed

    def _check_labels(self) -> None:
        """Refuse rows of one class in which different labels can happen: they cannot share a law."""
        classes, successors = np.asarray(self.classes), np.asarray(self.successors)
        differs = ((successors >= 0) != self.possible()[classes]) & (classes >= 0)[..., None]
        if differs.any():
            *row, label = np.argwhere(differs)[0]
            number = int(classes[tuple(row)])
            can = "can" if successors[(*row, label)] >= 0 else "cannot"
            raise InvalidInput(
                f"{place('ties.successors', [*row, label])} says that {self.label_name(label)} {can} happen there, and "
                f"another row of {self.class_name(number)} says otherwise; rows of one class share one law: give it "
                "another class"
            )
        nothing = (classes >= 0) & ~(successors >= 0).any(axis=-1)
        if nothing.any():
            where = place("ties.successors", np.argwhere(nothing)[0])
            raise InvalidInput(f"{where} allows no label at all; say where each label that can happen leads")


def laws_of(ties: Ties, kernel: Kernel) -> Floats:
    """Return the simulator's law of every class, [C, L], and check that every tied row is the law pushed through its map.

    A row that tells its labels apart shows the law. NaN where no row of a class does and no laws are given: its rows are
    then learnt one by one.

    Raises:
        InvalidInput: the ties do not fit the simulator; names the row and the cure.
    """
    classes, successors = ties.flat(kernel)
    beyond = np.argwhere(successors >= kernel.num_states)
    if beyond.size:
        row, label = beyond[0]
        raise InvalidInput(
            f"{_at(kernel, row)} leads to state {successors[row, label]} by {ties.label_name(label)}; states run from 0 to "
            f"{kernel.num_states - 1}"
        )
    laws = np.full((ties.num_classes, ties.num_labels), np.nan) if ties.laws is None else np.array(ties.laws)
    impossible = (laws > 0.0) & ~ties.possible() & ties.possible().any(axis=1, keepdims=True)
    if impossible.any():
        number, label = np.argwhere(impossible)[0]
        raise InvalidInput(
            f"ties.laws[{number}, {label}] is {laws[number, label]:g}, and the rows of {ties.class_name(number)} say that "
            f"{ties.label_name(label)} cannot happen; make it 0, or say where it leads"
        )
    shown_by = tells_apart(successors) & (classes >= 0)
    tied = np.flatnonzero(classes >= 0)
    for row in sorted(tied.tolist(), key=lambda row: not shown_by[row]):  # those first that show the law
        number, dense = int(classes[row]), _dense(kernel, row)
        labels = np.flatnonzero(successors[row] >= 0)
        if shown_by[row] and np.isnan(laws[number]).any():
            laws[number] = 0.0
            laws[number, labels] = dense[successors[row, labels]]
        if not np.isnan(laws[number]).any():
            pushed = summed(successors[row, labels], laws[number, labels], kernel.num_states)
            _check_row(ties, kernel, row, number, dense, pushed)
    return frozen(laws)


def tells_apart(successors: NDArray[np.int64]) -> NDArray[np.bool_]:
    """[R] whether no two labels of a row that can happen [R, L] lead to the same successor."""
    listed = np.sort(successors, axis=1)
    return np.asarray(((np.diff(listed, axis=1) != 0) | (listed[:, 1:] < 0)).all(axis=1), dtype=np.bool_)


def _check_row(ties: Ties, kernel: Kernel, row: int, number: int, dense: Floats, pushed: Floats) -> None:
    apart = np.abs(dense - pushed)
    if apart.max() > ROUNDING:
        state = int(apart.argmax())
        raise InvalidInput(
            f"{_at(kernel, row)}: the simulator goes to state {state} with probability {dense[state]:.6g}, and the law of "
            f"{ties.class_name(number)} says {pushed[state]:.6g}; rows of one class are one law pushed through their maps: "
            "correct the row, its successors or its class, or untie it (-1)"
        )


def _dense(kernel: Kernel, row: int) -> Floats:
    return summed(*kernel.row(row), kernel.num_states)


def summed(places: NDArray[Any], weights: Floats, size: int) -> Floats:
    """Return the sum of the weights at each place, [size]."""
    return np.asarray(np.bincount(places, weights=weights, minlength=size), dtype=np.float64)


def _at(kernel: Kernel, row: int) -> str:
    return place("ties.successors", np.unravel_index(row, kernel.shape))  # type: ignore[arg-type]


def _from_minus_one(name: str, value: ArrayLike, what: str) -> NDArray[np.int64]:
    """Whole numbers of at least -1."""
    array = numbers_from_json(value, name)
    if array.dtype.kind == "b" or (array < -1).any():
        raise InvalidInput(f"{name} is {shown(value)}; {what} are whole numbers from 0, and -1 stands for none")
    most = np.iinfo(np.uint32).max
    return whole_numbers(name, np.asarray(array + 1), below=most, what=f"{what}, from -1 on, plus 1,") - 1


def _names(name: str, given: Any, count: int) -> tuple[str, ...]:
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, str) and one.isprintable() for one in given):
        raise InvalidInput(f"{name} is {shown(given)}; give a list of texts of printable characters")
    if len(given) not in (0, count) or len(set(given)) != len(given):
        raise InvalidInput(f"{name} has {len(given)} entries; give {count} different names, or none")
    return tuple(given)


def ties_to_json(ties: Ties) -> dict[str, Any]:
    document: dict[str, Any] = {
        "classes": array_to_json(np.asarray(ties.classes)),
        "successors": array_to_json(np.asarray(ties.successors)),
        "exact": ties.exact,
    }
    if ties.reported:
        document["reported"] = True
    if ties.laws is not None:
        document["laws"] = array_to_json(np.asarray(ties.laws))
    for name in ("class_names", "label_names"):
        if getattr(ties, name):
            document[name] = list(getattr(ties, name))
    return document


def ties_from_json(value: Any, name: str = "ties") -> Ties:
    """Read ties written by `ties_to_json` or by hand; an object of class `Ties` is returned as it is."""
    if isinstance(value, Ties):
        return value
    optional = ("exact", "reported", "laws", "class_names", "label_names")
    given = check_keys(value, name, required=("classes", "successors"), optional=optional)
    if given.get("laws") is not None:
        given["laws"] = numbers_from_json(given["laws"], f"{name}.laws")
    return Ties(**given)


def check_copies(copies: ArrayLike | None, kernel: Kernel) -> NDArray[np.int64]:
    """[S] the state whose rows each state has, which has its own; each is itself where nothing is declared.

    Raises:
        InvalidInput: the simulator's rows of a copy are not those of the state it is one of, or it is a copy of a copy.
    """
    every = np.arange(kernel.num_states)
    if copies is None:
        return every
    given = whole_numbers("copies", numbers_from_json(copies, "copies"), below=kernel.num_states, what="states")
    if given.shape != every.shape:
        raise InvalidInput(
            f"copies has shape {given.shape}; give for each of the {every.size} states the one it is a copy of"
        )
    if (given[given] != given).any():
        state = int(np.flatnonzero(given[given] != given)[0])
        raise InvalidInput(
            f"copies[{state}] is {given[state]}, which is itself a copy of {given[given[state]]}; name one state for both"
        )
    for step in range(kernel.horizon or 1):
        for state in np.flatnonzero(given != every).tolist():
            for action in range(kernel.num_actions):
                first = step * kernel.rows_per_step + action
                mine = kernel.row(first + state * kernel.num_actions)
                other = kernel.row(first + int(given[state]) * kernel.num_actions)
                if not (np.array_equal(mine[0], other[0]) and np.array_equal(mine[1], other[1])):
                    raise InvalidInput(
                        f"copies[{state}] is {given[state]}, but the simulator's rows of action {action} differ; a copy "
                        "has the same rows: correct them, or let the state be itself"
                    )
    return given
