"""Plans in files: bit for bit, with the standing they had; what is damaged, changed or of something else is refused."""

import io
import zipfile
from dataclasses import replace

import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput, StorageFailure
from safe2real.exploration.plan import Plan
from safe2real.standing import Doubt, DoubtCode, Standing
from tests.exploration.changed_files import array, entry, rewritten

H = 4
SAFE = np.array([[1.0, 1.0], [0.9, 0.4], [0.0, 0.0]])


def problem(**changes):
    rows = np.array([[[0.8, 0.2, 0.0], [0.3, 0.6, 0.1]], [[0.5, 0.5, 0.0], [0.1, 0.5, 0.4]], [[0.2, 0.3, 0.5]] * 2])
    model = s2r.CMDP.of(
        s2r.Kernel.from_dense(rows),
        H,
        0,
        s2r.AtMost(1.0 - SAFE, 1.8, "wear"),
        state_names=("calm", "warm", "hot"),
        action_names=("rest", "work"),
        positions=[(0, 0), (1, 0), (np.nan, np.nan)],
    )
    settings = {"margin": 0.2, "calibrated_gap": 0.0, "mismatch_gap": 0.5, "tolerance": 0.05, "seed": 3} | changes
    return s2r.Problem(model, s2r.MarkovPolicy.stochastic([[0.9, 0.1]] * 3, horizon=H), s2r.Settings(**settings))


REWARD = np.random.default_rng(0).random((H, 3, 2))


def learnt(rounds=40, **changes):
    learner = s2r.Learner(problem(**changes))
    s2r.simulate(learner, learner.simulator.kernel, max_rounds=rounds)
    return learner


@pytest.fixture(scope="module")
def plan():
    return learnt().plan(REWARD)


def same(one: Plan, other: Plan) -> None:
    """All that is written of both is the same, bit for bit, and so are their words."""
    mine, theirs = one.state(), other.state()
    assert mine.document == theirs.document
    assert {name: array.tobytes() for name, array in mine.arrays.items()} == {
        name: array.tobytes() for name, array in theirs.arrays.items()
    }
    for name in ("assumptions", "doubts", "wordings"):
        assert getattr(one.certificate, name) == getattr(other.certificate, name)
    assert one.certificate.describe() == other.certificate.describe()
    assert [part.actions is None for part in one.policy.policies] == [part.actions is None for part in other.policy.policies]


def test_a_plan_comes_back_bit_for_bit(plan, tmp_path):
    path = plan.save(tmp_path / "pick.npz")
    loaded = s2r.load_plan(path)
    same(plan, loaded)
    assert loaded.certificate.wordings[0].label == "wear"
    assert (loaded.value, loaded.bound, loaded.suboptimality) == (plan.value, plan.bound, plan.suboptimality)
    assert loaded.certificate.lower_bounds.tobytes() == plan.certificate.lower_bounds.tobytes()
    assert loaded.origin.reward.tobytes() == plan.origin.reward.tobytes()
    assert loaded.origin.settings["algorithm"] == "sim-to-real safe RL"
    assert loaded.origin.samples == 160
    assert loaded.solution is None
    assert loaded.to_table() == plan.to_table()
    assert {row["state"] for row in loaded.to_table()} == {"calm", "warm", "hot"}
    # Readable by NumPy alone, without unpickling.
    with np.load(path, allow_pickle=False) as arrays:
        assert np.array_equal(arrays["numbers"], [plan.value, plan.bound, plan.suboptimality])
    first, again = plan.policy.agent(seed=4), loaded.policy.agent(seed=4)
    for _ in range(20):
        first.reset()
        again.reset()
        assert [first(0) for _ in range(H)] == [again(0) for _ in range(H)]


def test_what_is_not_finite_or_not_said_comes_back(plan, tmp_path):
    bare = replace(plan, bound=np.inf, suboptimality=np.inf, origin=None)
    loaded = s2r.load_plan(bare.save(tmp_path / "bare.npz"))
    assert loaded.bound == loaded.suboptimality == np.inf
    assert loaded.origin is None


def test_no_label_is_lost(tmp_path):
    heuristic = learnt(radius=s2r.radii.Scaled(0.1)).plan(REWARD)
    assert heuristic.certificate.standing is Standing.HEURISTIC
    loaded = s2r.load_plan(heuristic.save(tmp_path / "one.npz"))
    same(heuristic, loaded)
    assert loaded.certificate.standing is Standing.HEURISTIC
    learner = learnt()
    learner.leave_model([0, 1], [0, 1], of_baseline=False, of_candidate=False)
    refuted = learner.plan(REWARD)
    loaded = s2r.load_plan(refuted.save(tmp_path / "two.npz"))
    assert loaded.certificate.standing is Standing.REFUTED
    assert not loaded.certificate.holds
    same(refuted, loaded)


def test_damage_is_said(plan, tmp_path):
    path = plan.save(tmp_path / "pick.npz")
    content = path.read_bytes()
    wrong = tmp_path / "wrong.npz"
    for cut in (0, 10, len(content) // 2, len(content) - 1):
        wrong.write_bytes(content[:cut])
        with pytest.raises(InvalidInput, match="damaged"):
            s2r.load_plan(wrong)
    for at in range(0, len(content), 97):
        wrong.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
        try:
            loaded = s2r.load_plan(wrong)
        except InvalidInput as error:
            assert "wrong.npz" in str(error)  # noqa: PT017 (some bytes of a zip say nothing)
        else:
            same(plan, loaded)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    numbers = io.BytesIO()
    np.save(numbers, np.array([99.0, 99.0, 0.0]))
    with zipfile.ZipFile(wrong, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, numbers.getvalue() if name == "numbers.npy" else member)
    with pytest.raises(InvalidInput, match="was changed after it was saved"):
        s2r.load_plan(wrong)


def test_other_files_are_refused(tmp_path, plan):
    np.savez(tmp_path / "other.npz", a=np.zeros(2))
    for name, match in (("other.npz", "archive of something else"), ("none.npz", "is no file")):
        with pytest.raises(InvalidInput, match=match):
            s2r.load_plan(tmp_path / name)
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidInput, match="no plan of safe2real"):
        s2r.load_plan(tmp_path / "objects.npy")
    np.savez(tmp_path / "objects.npz", document=np.array([{}], dtype=object))
    with pytest.raises(InvalidInput, match="never unpickled"):
        s2r.load_plan(tmp_path / "objects.npz")
    with pytest.raises(StorageFailure, match="could not be written"):
        plan.save(tmp_path / "nowhere" / "pick.npz")


def _weightless(archive):
    """A policy more, of weight 0, before the others: dropped with its weight kept, all others would have another's."""
    for name in ("weights", "fixed", "actions", "probabilities"):
        array = archive.arrays.get(f"policy.{name}")
        if array is not None:
            archive.arrays[f"policy.{name}"] = np.concatenate([array[:1], array])
    fixed = archive.arrays["policy.fixed"]
    other = "probabilities" if fixed[0] else "actions"
    if f"policy.{other}" in archive.arrays:  # those of the other kind stay as they were
        archive.arrays[f"policy.{other}"] = archive.arrays[f"policy.{other}"][1:]
    archive.arrays["policy.weights"][0] = 0.0


NO_CODE = [{"code": "none", "text": "", "subject": ""}]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (entry("safe2real", value="learner"), "holds a 'learner', not a plan"),
        (entry("format", value=9), "upgrade it"),
        (lambda archive: archive.arrays.pop("numbers"), "numbers is missing"),
        (array("numbers", lambda a: a[:2]), "has type float64 and shape"),
        (array("policy.weights", lambda a: 2.0 * a), "weights"),
        (array("policy.num_actions", lambda a: a[:1] * 0 + 1), "."),
        (entry("certificate", "doubts", value=NO_CODE), "certificate cannot be read"),
        (entry("certificate", "assumptions", value=3), "certificate cannot be read"),
        (entry("origin", "settings", value=3), "settings"),
        (entry("origin", "legend", value={"states": ["one"]}), "state_names has 1 names"),
        (entry("origin", "more", value=1), "unknown key"),
        (array("lower_bounds", lambda a: np.zeros(2)), "lower_bounds has type"),
        (array("thresholds", lambda a: a[:0]), "lower_bounds has type"),
        (_weightless, "weights has one that is not positive"),
    ],
)
def test_contents_that_cannot_be(change, match, tmp_path, plan):
    path = plan.save(tmp_path / "pick.npz")
    with pytest.raises(InvalidInput, match=match):
        s2r.load_plan(rewritten("plan", path, tmp_path / "changed.npz", change))


def test_a_doubt_more_is_a_doubt_more(plan, tmp_path):
    doubted = replace(plan.certificate, doubts=(Doubt(DoubtCode.FALSE_OF_REALITY, "no", "wear"),))
    loaded = s2r.load_plan(replace(plan, certificate=doubted).save(tmp_path / "pick.npz"))
    assert loaded.certificate.doubts == doubted.doubts


def test_a_plan_shows_its_bounds_on_the_side_on_which_they_are_true(plan):
    shown = repr(replace(plan, value=2.0 / 3.0, suboptimality=1.0 / 3.0))
    assert "worth 0.666666 or more, at most 0.333334 below the best" in shown
    assert shown.splitlines()[-1] == f"  {plan.policy.summary}"
    assert "at most inf below" in repr(replace(plan, suboptimality=np.inf))
