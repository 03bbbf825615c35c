"""The examples in docstrings run, and say what comes out."""

import doctest

from safe2real.systems import datasets, estimate, finite
from tests.cases import each


@each("module", [datasets, estimate, finite])
def test_examples(module):
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0
