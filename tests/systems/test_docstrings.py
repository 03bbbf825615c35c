"""The examples in docstrings run, and say what comes out."""

import doctest

import pytest

from safe2real.systems import datasets, estimate, finite


@pytest.mark.parametrize("module", [datasets, estimate, finite])
def test_examples(module):
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0
