"""One round of `explore`, call by call: each thing once, and few files to read."""

import sys
from collections import Counter
from pathlib import Path

import pytest

import safe2real as s2r
from safe2real.exploration import explore

PACKAGE = Path(s2r.__file__).parent


@pytest.fixture(scope="module")
def walk():
    """(file, function) -> calls, of a round in the middle of a run."""
    problem, real, _ = s2r.examples.lake(seed=0)
    learner, calls = s2r.Learner(problem), Counter()
    explore(learner, real, max_rounds=60)

    def note(frame, event, _):
        place = Path(frame.f_code.co_filename)
        if event == "call" and PACKAGE in place.parents:
            calls[place.relative_to(PACKAGE).as_posix(), frame.f_code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        explore(learner, real, max_rounds=1, progress=False)
    finally:
        sys.setprofile(before)
    assert learner.round == 62
    return calls


def test_a_round_touches_few_files(walk):
    files = {file for file, _ in walk}
    assert len({file for file in files if not file.startswith("_compiled/")}) <= 28
    assert len(files) <= 40  # the dual search is plain Python where Python calls it


@pytest.mark.parametrize(
    ("file", "function", "most"),
    [
        ("model/trajectory.py", "check_trajectory", 1),
        ("model/trajectory.py", "check_actions", 1),
        ("evidence/evidence.py", "take", 1),
        ("methods/sim_to_real.py", "propose", 1),
        ("exploration/certificate.py", "certify", 1),
        ("exploration/learner.py", "_evidence_state", 3),  # for the proposal, after counting, and for the proposal returned
    ],
)
def test_each_step_is_taken_once(walk, file, function, most):
    assert 1 <= walk[file, function] <= most
