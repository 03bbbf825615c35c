"""Two workers that find no compiled code begin with different halves of it; each loads later what the other has made.

Otherwise both would make the same functions at the same time, the first of them a minute and a half long. Where the code is
there already this takes a second, and a few tests alone wait for nothing.
"""

import os
import random
from types import SimpleNamespace

import numpy as np
import pytest

MANY = 500  # tests


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Learners without a seed draw entropy; here it is a function of the test's name, so that what fails fails again."""
    from safe2real.model import environment_seeds

    environment_seeds.secrets = SimpleNamespace(randbits=random.Random(item.nodeid).getrandbits)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    half = {"gw0": one_constraint, "gw1": several_constraints}.get(os.environ.get("PYTEST_XDIST_WORKER", ""))
    if half is not None and len(session.items) >= MANY:
        half()


def one_constraint() -> None:
    """What nearly all tests need."""
    from safe2real.exploration.simulate import compile_everything

    compile_everything()


def several_constraints() -> None:
    """Plans first, which the other half makes last; then rounds, which call much that the other half has made by then."""
    import safe2real as s2r
    from tests.exploration.random_problems import random_problem, settings_for

    for constraints in (2, 3, 1):
        model, _, _ = random_problem(0, per_step=False, constraints=constraints)
        s2r.solve(model, np.ones((5, 3)))
    model, real, baseline = random_problem(0, per_step=False, constraints=2)
    learner = s2r.Learner(s2r.Problem(model, baseline, settings_for()), trust_margin=True)
    s2r.simulate(learner, real, max_rounds=1)
    learner.propose()
