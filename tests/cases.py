"""Tests over many cases: all of them in one test (`each`), or a few here and the rest in `make slow` (`sampled`)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

Test = Callable[..., None]


def each(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Like `pytest.mark.parametrize`, in one test: it goes through all cases, and its failure names those that failed.

    Every case has a `tmp_path` and a `monkeypatch` of its own; other fixtures are shared, and must only be read.
    """
    listed, wanted = list(cases), (names,) if isinstance(names, str) else names
    assert listed, "no cases"

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures = []
            for number, case in enumerate(listed):
                values = dict(zip(wanted, (case,) if isinstance(names, str) else case, strict=True))
                if "tmp_path" in fixtures:
                    values["tmp_path"] = _folder(fixtures["tmp_path"], number)
                try:
                    with pytest.MonkeyPatch.context() as patch:
                        if "monkeypatch" in fixtures:
                            values["monkeypatch"] = patch
                        test(**(fixtures | values))
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 (raised again below)
                    error.add_note(f"case {number}: " + ", ".join(f"{name} = {values[name]!r}" for name in wanted))
                    failures.append(error)
            if len(failures) == 1:
                raise failures[0]
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(listed)} cases", failures)

        kept = [one for name, one in inspect.signature(test).parameters.items() if name not in wanted]
        run.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]
        return run

    return decorate


def sampled(
    names: str | tuple[str, ...], cases: Iterable[Any], *, keep: Iterable[int] | None = None, ids: Any = None
) -> pytest.MarkDecorator:
    """Parametrise by all cases; those not at the positions `keep` (first, middle and last, if not given) are slow."""
    listed = list(cases)
    positions = {0, len(listed) // 2, len(listed) - 1} if keep is None else {index % len(listed) for index in keep}
    marked = []
    for index, case in enumerate(listed):
        values = (case,) if isinstance(names, str) and "," not in names else tuple(case)
        marked.append(pytest.param(*values, marks=() if index in positions else pytest.mark.slow))
    return pytest.mark.parametrize(names, marked, ids=ids)


def one_of_each(cases: Iterable[Any], kind: Callable[[Any], Any]) -> list[int]:
    """For `sampled`: the position of the first case of every kind."""
    first: dict[Any, int] = {}
    for index, case in enumerate(cases):
        first.setdefault(kind(case), index)
    return list(first.values())


def _folder(parent: Path, number: int) -> Path:
    folder = parent / str(number)
    folder.mkdir()
    return folder
