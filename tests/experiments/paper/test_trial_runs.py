"""The study on trials, with few episodes."""

from experiments.studies.trial_runs import trial_run


def test_floors_rise_below_exact_values_and_nothing_unsafe_is_deployed():
    found = trial_run({"seed": 1, "checkpoints": [50, 300]})
    first, last = found["points"]
    assert (first["episodes"], last["episodes"]) == (50, 300)
    assert first["share"] < last["share"]
    assert first["reward"] < last["reward"] < found["reward"] <= found["best"] + 1e-9
    assert last["safety"] < found["constraint"]
    assert found["unsafe_rounds"] == 0
    assert found["lowest_slack"] >= 0.0
