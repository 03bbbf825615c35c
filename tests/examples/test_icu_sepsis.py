"""The sepsis case study: its pair of systems keeps to what is assumed, and nothing unsafe is deployed."""

import dataclasses
import importlib.util
import io
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import safe2real as s2r
from safe2real.evidence.mismatch_map import Verdict

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

try:
    metadata.distribution("icu-sepsis")
except metadata.PackageNotFoundError:
    pytest.skip("the package icu-sepsis is not installed", allow_module_level=True)

import icu_sepsis_study as study  # noqa: E402

from experiments.studies import sepsis_patients  # noqa: E402
from experiments.studies import sepsis_system as system  # noqa: E402


@pytest.fixture(scope="module")
def records():
    return system.load_records()


@pytest.fixture(scope="module")
def case(records):
    return system.build(records)


def dense_rows(kernel, pairs):
    """[n, S] of the rows of `pairs` [S, A]."""
    found = np.zeros((int(pairs.sum()), kernel.num_states))
    for line, row in zip(found, np.flatnonzero(pairs.reshape(-1)), strict=True):
        successors, probabilities = kernel.row(int(row))
        line[successors] = probabilities
    return found


@pytest.mark.slow
def test_what_is_read_is_what_the_package_gives_out(records, tmp_path):
    # in a process of its own: here `import icu_sepsis` would find the example of that name
    script = """
import icu_sepsis, numpy as np
env = icu_sepsis.ICUSepsisEnv(inadmissible_action_strategy="terminate")
given = env.dynamics
np.savez("given.npz", tx_mat=given["tx_mat"], d_0=given["d_0"], expert=env.expert_policy, sofa=env.sofa_scores,
         lengths=[len(actions) for actions in given["admissible_actions"]],
         flat=np.concatenate(given["admissible_actions"]))
env.reset(seed=0)
env._current_state = 0
refused = min(set(range(25)) - set(given["admissible_actions"][0]))
assert env.step(np.array(divmod(refused, 5)))[0] == 713
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "given.npz") as given:
        np.testing.assert_array_equal(records.transition, given["tx_mat"])
        np.testing.assert_array_equal(records.start, given["d_0"])
        np.testing.assert_array_equal(records.clinicians, given["expert"])
        np.testing.assert_array_equal(records.sofa, given["sofa"])
        np.testing.assert_array_equal(records.admissible.sum(axis=1), given["lengths"])
        np.testing.assert_array_equal(np.nonzero(records.admissible)[1], given["flat"])


def test_offering_only_admissible_treatments_leaves_the_clinicians_as_they_are(records, case):
    package = np.einsum("sa,sat->st", records.clinicians[: system.TREATED], records.transition[: system.TREATED])
    every = np.ones_like(case.offered)
    rows = dense_rows(case.real.kernel, every).reshape(*every.shape, -1)[: system.TREATED]
    ours = np.einsum("sa,sat->st", case.clinicians.probabilities[0, : system.TREATED], rows)
    np.testing.assert_allclose(ours, package, atol=1e-9)


def test_what_is_assumed_holds_of_the_pair(case):
    every = np.ones_like(case.offered)
    real, believed = (dense_rows(model.kernel, every) for model in (case.real, case.simulator))
    gaps = 0.5 * np.abs(real - believed).sum(axis=1).reshape(every.shape)
    assert (gaps[~case.biased] <= 1e-12).all()  # calibrated gap 0
    assert (gaps[case.biased] >= system.GAP).all()
    assert (gaps[case.biased] <= system.GAP + 1e-4).all()
    assert not ((real > 0.0) & (believed == 0.0)).any()  # the simulator's successors are the declared support
    margin = s2r.planning.constraint_values(case.real, case.clinicians)[0] - system.LEAST_SURVIVAL
    assert margin >= system.MARGIN
    assert case.biased.sum() == 127
    assert not (case.biased & ~case.doubtful).any()  # so what the second study calls known is exact
    assert not (case.doubtful & ~case.offered).any()
    assert case.doubtful.sum() == 128
    assert (case.sofa[np.nonzero(case.doubtful)[0]] >= 10.0).all()


def test_the_simulator_is_too_optimistic(case):
    real, believed = (s2r.planning.constraint_values(model, case.clinicians)[0] for model in (case.real, case.simulator))
    assert believed > real + 0.01
    trusting = s2r.solve(case.simulator, case.rewards["time alive"]).policy
    assert s2r.planning.constraint_values(case.real, trusting)[0] < system.LEAST_SURVIVAL


@pytest.fixture(scope="module")
def command():
    """The script; not by its name, which is that of the package too."""
    place = importlib.util.spec_from_file_location("sepsis_command", EXAMPLES / "icu_sepsis.py")
    loaded = importlib.util.module_from_spec(place)
    place.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def runs(case, command):
    return command.treat_all(case, 12_000, 1_000, Console(quiet=True), quick=True)


@pytest.mark.slow
def test_every_treatment_in_doubt(case, runs):
    record = runs["every treatment in doubt"]
    assert record.patients == 12_000
    assert not record.doubts
    for batch in record.batches:
        assert batch.survival >= batch.bound - 1e-9 >= system.LEAST_SURVIVAL - 2e-9
    candidates = [batch.candidate for batch in record.batches if batch.reason is s2r.methods.Reason.MIXTURE]
    assert min(candidates) < system.LEAST_SURVIVAL  # without the mixing it would not have been safe
    wrong, cleared = (record.map.verdict == verdict for verdict in (Verdict.WRONG, Verdict.CLEARED))
    assert wrong.sum() >= 3
    assert not (wrong & ~case.biased).any()
    assert not (cleared & case.biased).any()
    assert (record.map.verdict[~case.offered] == Verdict.KNOWN).all()
    assert (record.map.verdict[case.offered] != Verdict.KNOWN).all()


@pytest.mark.slow
def test_few_treatments_in_doubt_give_useful_plans_soon(case, runs):
    record = runs["severe vasopressors in doubt"]
    assert record.map.count(Verdict.OPEN) + record.map.count(Verdict.WRONG) == case.doubtful.sum()
    assert all(batch.survival >= batch.bound - 1e-9 >= system.LEAST_SURVIVAL - 2e-9 for batch in record.batches)
    (plan,) = record.plans
    clinicians = s2r.planning.constraint_values(case.real, case.clinicians)[0]
    best = s2r.solve(case.real, case.rewards["survival"]).value
    assert clinicians < plan.survival_floor <= plan.survival + 1e-9
    assert plan.floor <= plan.value + 1e-9 <= best + 2e-9
    assert best <= plan.bound + 1e-9


def test_nothing_is_scaled_and_every_patient_is_counted(case):
    learner = sepsis_patients.learner_of(case, case.doubtful, seed=1)
    assert learner.settings.certified
    study.treat(case, learner, [300, 200], [], [], lambda _: None)
    assert learner.evidence.counts.episodes == 500
    assert not learner.doubts()


@pytest.mark.slow
def test_what_is_shown(case, command, runs, tmp_path):
    console = Console(file=io.StringIO(), width=80)
    assert command.show(case, runs, tmp_path, console)
    printed = " ".join(console.file.getvalue().split())
    assert "NOT medical advice" in printed
    assert printed.count("none fell below the limit") == 2
    assert "time alive │ 18.51 │ 18.24 │ 71.8% │ 64.6% │ NO" in printed
    assert (tmp_path / "icu-sepsis-safety.png").stat().st_size > 10_000
    assert (tmp_path / "icu-sepsis-mismatch.png").stat().st_size > 10_000


@pytest.mark.slow
def test_an_unsafe_deployment_would_be_reported(case, command, runs):
    record = runs["severe vasopressors in doubt"]
    low = dataclasses.replace(record.batches[0], survival=system.LEAST_SURVIVAL - 0.001)
    console = Console(file=io.StringIO(), width=200)
    assert not command.summarise(case, dataclasses.replace(record, batches=[low]), "a study", console)
    assert "SOME FELL BELOW THE LIMIT" in console.file.getvalue()


def test_no_patients_are_refused(command, capsys):
    with pytest.raises(SystemExit):
        command.main(["--patients", "0"])
    assert "must be positive" in capsys.readouterr().err


def test_a_plan_is_given_up_only_for_one_of_which_more_is_certain():
    old = study.Planned("survival", 0.7, 1.0, 0.75, 0.75, survival_floor=0.7)
    better, worse = (dataclasses.replace(old, survival_floor=floor) for floor in (0.71, 0.69))
    assert study._better(old, better) is better
    assert study._better(old, worse) is old


def test_batches_grow_and_add_up():
    sizes = sepsis_patients.schedule(100_000)
    assert sum(sizes) == 100_000
    assert sizes[0] == sepsis_patients.FIRST_BATCH
    assert all(size <= max(sepsis_patients.FIRST_BATCH, sepsis_patients.GROWTH * 100_000) for size in sizes)
    assert max(sizes) > 2 * sepsis_patients.FIRST_BATCH


def test_stays_follow_the_real_dynamics(case):
    patients = 20_000
    mixture = s2r.Mixture.of(
        [0.5, 0.5], [case.clinicians, s2r.solve(case.real, case.rewards["survival"]).policy.policies[0]]
    )
    states, actions, ends = sepsis_patients.patients_under(case, mixture, 3, 0, patients)
    last = states[ends[1:] + np.arange(patients)]
    exact = s2r.planning.constraint_values(case.real, mixture)[0]
    lengths = np.diff(ends)
    survived = ((last == system.SURVIVAL) & (lengths < system.HORIZON)).mean()  # the last arrival is not paid for any more
    assert abs(survived - exact) < 4.0 * np.sqrt(exact * (1.0 - exact) / patients)
    assert ((last < system.TREATED) <= (lengths == system.HORIZON)).all()
    kernel = case.real.kernel
    for i in range(50):
        stay, chosen = states[ends[i] + i : ends[i + 1] + i + 1], actions[ends[i] : ends[i + 1]]
        for step, action in enumerate(chosen):
            assert stay[step + 1] in kernel.row(int(stay[step]) * case.real.num_actions + int(action))[0]


def test_without_the_package_the_cure_is_said(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(system.metadata, "distribution", missing)
    with pytest.raises(s2r.errors.MissingExtra, match=r"pip install 'safe2real\[examples\]'"):
        system.load_records()
