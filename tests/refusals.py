"""What the tests of malformed input share: repeatable draws, and what a refusal must say."""

import re

import pytest
from hypothesis import HealthCheck, settings

# How many refusals each of the tests must count; together more than 10,000.
EPISODES, BY_HAND, IDS, DOCUMENTS, TEXTS = 5_000, 1_500, 1_700, 3_000, 500
assert EPISODES + BY_HAND + IDS + DOCUMENTS + TEXTS > 10_000

shares = pytest.mark.parametrize("share", [0.1, pytest.param(1.0, marks=pytest.mark.slow)])
"""A tenth of them by default, all of them in `make slow`."""


def stable(examples):
    """The same examples in every run, so that none of them fails by chance."""
    return settings(
        derandomize=True, max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )


def assert_helpful(error, place):
    """The message names the place, and is made for people: nothing raw, nothing endless, and it says what would do."""
    message = str(error)
    assert re.search(place, message), f"{place!r} is not named: {message}"
    assert re.search(r"[;:] |, so it cannot", message), f"no cure: {message}"
    assert 20 < len(message) < 600, message
    assert not re.search(r"Traceback|assert|<class|object at 0x|\n", message), message
