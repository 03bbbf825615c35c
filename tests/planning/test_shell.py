"""How much of Python a small plan goes through besides its search."""

import sys
from types import FrameType

import pytest

import safe2real as s2r
from safe2real._compiled import search
from tests.random_models import Recipe, build

MOST = 47


def test_a_small_plan_makes_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted where the search is compiled: every call of a Python function within `solve`, itself included."""
    monkeypatch.setattr(search, "OFTEN", 0)
    model, reward = build(Recipe(1, 25, 4, 12, 1, False, "sparse", "random", "active", False))
    assert model.num_constraints == 1
    s2r.solve(model, reward)
    made = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            made.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        solution = s2r.solve(model, reward)
    finally:
        sys.setprofile(None)
    assert solution.is_feasible
    assert len(solution.policy.policies) == 2
    assert len(made) <= MOST, made
