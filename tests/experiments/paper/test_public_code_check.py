"""This library's numbers beside those of public code, which are data."""

import pytest

from experiments.studies import public_code_check as beside

QUICK = [key for key in beside.OURS if key not in ("rf_express_pooled", "rf_express_per_step")]


def result(key):
    return beside.beside_run({"quantity": key, "seed": 0})


def agreements(keys):
    ours = {key: result(key) for key in keys}
    return [
        beside.Beside(public, ours[public["quantity"]]["number"], ours[public["quantity"]]["error"])
        for public in beside.public_code()["runs"]
        if public["quantity"] in ours
    ]


def check(found):
    for one in found:
        assert one.agree == (not one.public["explained"]), one.cells
        assert one.cells[4].startswith("differs: " if one.public["explained"] else "the same")


def test_numbers_that_no_run_is_behind():
    found = agreements(QUICK)
    check(found)
    assert {one.public["quantity"] for one in found} == set(QUICK)


@pytest.mark.slow
def test_episodes_until_the_stop():
    check(agreements(sorted(set(beside.OURS) - set(QUICK))))


def test_every_public_number_has_a_repository_and_a_commit():
    for one in beside.public_code()["runs"]:
        assert one["repository"].count("/") == 1
        assert len(one["commit"]) == 40
        assert one["ran"]


def test_a_number_that_differs_without_a_reason_shows():
    public = beside.public_code()["runs"][0]
    assert beside.Beside(public, public["public"] * (1.0 + 1e-6), 0.0).cells[4] == "DIFFERS"
