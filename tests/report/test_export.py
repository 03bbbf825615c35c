"""What leaves a campaign is what was told: CSV, JSON, Minari."""

import csv
import hashlib
import json
import sys

import numpy as np
import pytest

import safe2real as s2r
from safe2real.campaign import Campaign
from safe2real.campaign.events import Event
from safe2real.campaign.verify import Checker, check_record
from safe2real.errors import Conflict, InvalidInput, StorageFailure
from safe2real.evidence.mismatch_map import Verdict
from safe2real.exploration import roll_out
from safe2real.methods.document import problem_and_method
from safe2real.model.serialization import digest_of, policy_to_bytes, to_text
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings
from safe2real.report import export as export_module
from safe2real.report.export import export_csv, export_json, export_minari

H, S, A = 4, 3, 2
ROWS = np.array([[[0.8, 0.2, 0.0], [0.1, 0.8, 0.1]], [[0.2, 0.7, 0.1], [0.0, 0.3, 0.7]], [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]])
# Different at every step and pair, so that a reward taken from a wrong place shows.
WARM = (1.0 + np.arange(H * S * A)).reshape(H, S, A) / (2.0 * H * S * A)
DRY = 1.0 - 0.5 * WARM


def specification(per_step=False, constraints=2):
    kernel = s2r.Kernel.from_dense(np.broadcast_to(ROWS, (H, S, A, S)) if per_step else ROWS)
    wanted = [s2r.AtLeast(WARM, 0.1, "warm"), s2r.AtLeast(DRY, 0.2, "dry")][:constraints]
    model = s2r.CMDP.of(kernel, H, 0, wanted)
    baseline = s2r.MarkovPolicy.uniform(horizon=H, num_states=S, num_actions=A)
    return Problem(model, baseline, Settings.paper(margin=0.4, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.1))


def episode_of(spec, policy, number):
    return roll_out(spec.simulator, policy, seed=5, round_number=number)


def cut(trajectory, length):
    return s2r.Trajectory(trajectory.states[: length + 1], trajectory.actions[:length])


class Record:
    """A campaign with everything in it, and what was put there."""

    def __init__(self, folder, **kind):
        spec = specification(**kind)
        self.path = folder / "campaign.db"
        self.campaign = Campaign.create(self.path, spec)
        self.episodes = []  # (deployment, source, trajectory) in the order of the record
        log = [episode_of(spec, spec.baseline, 100 + i) for i in range(3)]
        self.campaign.import_log("last year", spec.baseline, log)
        self.episodes += [(None, "last year", one) for one in log]
        self.deployments = [*self.campaign.ask_batch(4, worker="ann"), *self.campaign.ask_batch(2, worker="bob, the 2nd")]
        whole, short, lost, late, _, other = self.deployments
        self.outcomes = dict(
            zip((one.id for one in self.deployments), ("told", "cut short", "abandoned", "told", "out", "told"), strict=True)
        )
        self.tell(other)
        self.tell(whole)
        self.tell(short, 2)
        self.campaign.abandon(lost.id, "flat battery")
        self.campaign.abandon(late.id, "no answer")
        self.tell(late)

    def tell(self, deployment, length=H):
        trajectory = cut(episode_of(self.campaign.problem, deployment.policy, deployment.number), length)
        self.campaign.tell(deployment.id, trajectory, partial=length < H)
        self.episodes.append((deployment, None, trajectory))


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    made = Record(tmp_path_factory.mktemp("record"))
    yield made
    made.campaign.close()


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# CSV


def test_transitions_are_those_that_were_told(record, tmp_path):
    paths = export_csv(record.campaign, tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["transitions.csv", "deployments.csv", "mismatch.csv"]
    events = {(event.kind, event.deployment): event for event in record.campaign.events()}
    expected = []
    for number, (deployment, source, trajectory) in enumerate(record.episodes, start=1):
        event = events["import", None] if deployment is None else events["tell", deployment.number]
        policy = record.campaign.problem.baseline if deployment is None else deployment.policy
        for step in range(trajectory.length):
            expected.append(
                {
                    "sequence": event.sequence,
                    "deployment": "" if deployment is None else deployment.id,
                    "worker": "" if deployment is None else deployment.worker,
                    "source": source or "",
                    "episode": number,
                    "step": step,
                    "state": trajectory.states[step],
                    "action": trajectory.actions[step],
                    "next_state": trajectory.states[step + 1],
                    "policy": digest_of(policy_to_bytes(policy)),
                    "told_at": event.at,
                    "partial": trajectory.length < H,
                    "left_model": False,
                }
            )
    assert read(paths[0]) == [{key: str(value) for key, value in row.items()} for row in expected]


def test_deployments_carry_certificate_and_outcome(record, tmp_path):
    rows = read(export_csv(record.campaign, tmp_path)[1])
    events = {(event.kind, event.deployment): event for event in record.campaign.events()}
    assert [row["id"] for row in rows] == [one.id for one in record.deployments]
    for row, one in zip(rows, record.deployments, strict=True):
        assert (row["number"], row["worker"], row["reason"]) == (str(one.number), one.worker, one.reason.name)
        assert (row["asked_at"], row["certified"]) == (one.at, "True")
        assert float(row["exploration_weight"]) == one.exploration_weight
        assert float(row["uncertainty"]) == one.uncertainty
        for k, name in enumerate(("warm", "dry")):
            assert float(row[f"lower_bound[{name}]"]) == one.certificate.lower_bounds[k]
            assert float(row[f"threshold[{name}]"]) == one.certificate.thresholds[k]
        assert row["policy"] == digest_of(policy_to_bytes(one.policy))
        assert row["outcome"] == record.outcomes[one.id]
        closing = events.get(("tell", one.number)) or events.get(("abandon", one.number))
        assert row["closed_at"] == ("" if closing is None else closing.at)
        steps = {"told": H, "cut short": 2, "abandoned": 0, "out": 0}
        assert int(row["samples"]) == steps[row["outcome"]]


@pytest.mark.parametrize("per_step", [False, True])
def test_the_mismatch_table_is_the_map(per_step, tmp_path):
    record = Record(tmp_path, per_step=per_step)
    found = record.campaign.mismatch_map()
    rows = read(export_csv(record.campaign, tmp_path)[2])
    indices = list(np.ndindex(found.visits.shape))
    assert len(indices[0]) == (3 if per_step else 2)
    assert len(rows) == len(indices)
    assert any(row["distance"] == "" for row in rows) == bool((found.visits == 0).any())
    for row, index in zip(rows, indices, strict=True):
        assert tuple(int(row[name]) for name in ("step", "state", "action")[-len(index) :]) == index
        assert int(row["visits"]) == found.visits[index]
        assert row["verdict"] == Verdict(int(found.verdict[index])).name
        np.testing.assert_equal(float(row["distance"] or "nan"), found.distance[index])
        for name in ("lower", "upper", "visits_needed"):
            assert float(row[name]) == getattr(found, name)[index]


def test_constraints_of_one_name_have_columns_of_their_own(tmp_path):
    spec = specification()
    model = s2r.CMDP.of(spec.simulator.kernel, H, 0, [s2r.AtLeast(WARM, 0.1), s2r.AtLeast(DRY, 0.2)])
    with Campaign.create(tmp_path / "c.db", Problem(model, spec.baseline, spec.settings)) as campaign:
        campaign.ask(worker="w")
        (row,) = read(export_csv(campaign, tmp_path)[1])
    assert (row["threshold[constraint 0]"], row["threshold[constraint 1]"]) == ("0.1", "0.2")


def test_a_file_is_replaced_whole_or_not_at_all(record, tmp_path, monkeypatch):
    (tmp_path / "mismatch.csv").write_text("as it was")

    def breaks(_):
        yield ("state",)
        yield from [(i,) for i in range(10_000)]  # more than a buffer
        raise KeyboardInterrupt

    monkeypatch.setattr(export_module, "_mismatch", breaks)
    with pytest.raises(KeyboardInterrupt):
        export_csv(record.campaign, tmp_path)
    assert (tmp_path / "mismatch.csv").read_text() == "as it was"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deployments.csv", "mismatch.csv", "transitions.csv"]


def test_who_reads_the_old_file_reads_it_to_its_end(record, tmp_path):
    path = tmp_path / "transitions.csv"
    path.write_text("as it was")
    with path.open() as file:
        export_csv(record.campaign, tmp_path)
        assert file.read() == "as it was"
    assert path.read_text().startswith("sequence,")


def test_places_that_cannot_be_written_say_so(record, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="cannot be a folder"):
        export_csv(record.campaign, tmp_path / "file")
    with pytest.raises(StorageFailure, match="could not be written"):
        export_json(record.campaign, tmp_path / "nowhere" / "record.json")


# JSON


def events_in(document, key="events"):
    return [Event(**event) for event in document[key]]


def test_json_holds_all_that_a_check_needs(record, tmp_path):
    path = export_json(record.campaign, tmp_path / "record.json")
    document = json.loads(path.read_text())
    assert (document["campaign"], document["format"]) == (record.campaign.name, 2)
    events = events_in(document)
    assert events == record.campaign.events()
    text = to_text(document["specification"])
    assert digest_of(text.encode()) == json.loads(events[0].body)["specification"]
    for digest, content in document["policies"].items():
        assert hashlib.sha256(content.encode()).hexdigest() == digest
    named = {digest for event in events if event.kind == "ask" for digest in json.loads(event.body)["policies"]}
    assert named <= document["policies"].keys()

    def verified(found):
        contents = {digest: content.encode() for digest, content in document["policies"].items()}
        given = s2r.Learner(*problem_and_method(text), warm_start=False)
        return check_record(Checker(document["campaign"], digest_of(text.encode()), given, contents.get), found)

    ledger = verified(events)
    assert ledger.holds, ledger.problems
    assert (ledger.deployments, ledger.episodes) == (6, len(record.episodes))
    changed = [*events]
    changed[-1] = Event(**{**document["events"][-1], "at": "2001-01-01T00:00:00.000+00:00"})
    assert not verified(changed).holds


# Minari


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path / "minari"


def test_a_minari_dataset_reads_back(record, datasets):
    minari = pytest.importorskip("minari")
    export_minari(record.campaign, "plant/arm-v0")
    dataset = minari.load_dataset("plant/arm-v0")
    assert (dataset.observation_space.n, dataset.action_space.n) == (S, A)
    assert dataset.total_episodes == len(record.episodes)
    assert dataset.total_steps == sum(one.length for _, _, one in record.episodes)
    metadata = list(dataset.storage.get_episode_metadata(range(dataset.total_episodes)))
    for read_back, origin, (deployment, source, trajectory) in zip(dataset, metadata, record.episodes, strict=True):
        n = trajectory.length
        np.testing.assert_array_equal(read_back.observations, trajectory.states)
        np.testing.assert_array_equal(read_back.actions, trajectory.actions)
        np.testing.assert_array_equal(read_back.rewards, WARM[np.arange(n), trajectory.states[:-1], trajectory.actions])
        assert not read_back.terminations.any()
        assert read_back.truncations.tolist() == [False] * (n - 1) + [True]
        assert origin["deployment"] == ("" if deployment is None else deployment.id)
        assert origin["worker"] == ("" if deployment is None else deployment.worker)
        assert origin["source"] == (source or "")
        assert bool(origin["partial"]) == (n < H)


def test_rewards_are_zero_without_a_constraint(tmp_path, datasets):
    pytest.importorskip("minari")
    spec = specification(constraints=0)
    with Campaign.create(tmp_path / "c.db", spec) as campaign:
        with pytest.raises(InvalidInput, match="no episode yet"):
            export_minari(campaign, "plain-v0")
        one = campaign.ask(worker="w")
        campaign.tell(one.id, episode_of(spec, one.policy, 1))
        dataset = export_minari(campaign, "plain-v0")
    assert dataset[0].rewards.tolist() == [0.0] * H


def test_minari_missing_present_already_or_misnamed(record, datasets, monkeypatch):
    pytest.importorskip("minari")
    export_minari(record.campaign, "arm-v0")
    before = {path: path.stat().st_mtime_ns for path in datasets.rglob("*")}
    with pytest.raises(Conflict, match="arm-v0"):
        export_minari(record.campaign, "arm-v0")
    for name in ("no version", "arm", "../arm-v1", ""):
        with pytest.raises(InvalidInput, match="dataset_id"):
            export_minari(record.campaign, name)
    assert {path: path.stat().st_mtime_ns for path in datasets.rglob("*")} == before
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(InvalidInput, match=r"pip install 'safe2real\[minari\]'"):
        export_minari(record.campaign, "arm-v1")


def test_half_a_dataset_is_taken_away(record, datasets, monkeypatch):
    pytest.importorskip("minari")

    def breaks(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(export_module, "_metadata", breaks)
        with pytest.raises(KeyboardInterrupt):
            export_minari(record.campaign, "arm-v0")
    assert not (datasets / "arm-v0").exists()
    assert export_minari(record.campaign, "arm-v0").total_episodes == len(record.episodes)
