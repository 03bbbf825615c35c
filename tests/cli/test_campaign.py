"""Campaigns by command: one JSON document out, one JSON line for an error, and exit codes that scripts can rely on."""

import json
import math
import re
import shutil
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

import safe2real as s2r
from safe2real.campaign import FIELD_ASSUMPTIONS
from safe2real.cli import campaign as module
from safe2real.cli import io
from safe2real.exploration import roll_out
from safe2real.model import serialization as encoding
from tests.campaign.systems import falling, three_states
from tests.cli.commands import BASELINE, MODEL, campaign, done, episode, rolled, run_rounds, specification
from tests.preflight.specs import TOML

START = int(MODEL.start.argmax())


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A new heuristic campaign, to be copied."""
    place = tmp_path_factory.mktemp("begun") / "campaign.db"
    done("init", place, "-", given=json.loads(specification()))
    return place


@pytest.fixture
def url(begun, tmp_path):
    """A new heuristic campaign."""
    return shutil.copy(begun, tmp_path / "campaign.db")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A campaign that stops after a few rounds, stopped; tests only read it."""
    place = tmp_path_factory.mktemp("stopped") / "stopped.db"
    done("init", place, "-", given=json.loads(specification(tolerance=5.0)))
    run_rounds(place, 20)
    return place


def one(url, worker="arm"):
    (deployment,) = done("ask", url, "--worker", worker)["deployments"]
    return deployment


# init


def test_init_from_a_file_and_its_label(tmp_path):
    file, place = tmp_path / "spec.json", tmp_path / "c.db"
    file.write_text(specification())
    made = done("init", place, file)
    assert made["url"] == str(place)
    assert made["campaign"] == s2r.Campaign.open(place).name
    assert made["certified"] is False
    assert made["statement"].startswith("HEURISTIC, not a guarantee")


def test_init_from_a_toml_file_as_check_and_run_read_it(tmp_path):
    spec, place = tmp_path / "spec.toml", tmp_path / "c.db"
    spec.write_text(TOML)
    assert done("init", place, spec)["certified"] is True
    assert s2r.Campaign.open(place).problem.simulator.names == ("upright",)
    spec.write_text(TOML.replace("tolerance = 0.25", "tolerance = 0.9"))
    refused = campaign("init", tmp_path / "other.db", spec)
    assert (refused.code, refused.error) == (2, "invalid-input")
    assert "at most margin / 4" in refused.message
    assert not (tmp_path / "other.db").exists()


def test_a_certified_campaign_says_so_with_what_it_assumes(tmp_path):
    place = tmp_path / "c.db"
    made = done("init", place, "-", given=json.loads(specification(tolerance=0.0765, certified=True)))
    asked = done("ask", place, "--worker", "arm")
    state = done("status", place, "--no-forecast")
    assert made["certified"] is asked["certified"] is state["certified"] is True
    assert done("verify", place)["certified"] is True
    assert done("map", place)["certified"] is True
    certificate = asked["deployments"][0]["certificate"]
    assert certificate["certified"] is certificate["holds"] is True
    assert certificate["standing"] == "certified"
    assert certificate["doubts"] == []
    for statement in (made["statement"], state["statement"], certificate["statement"]):
        assert statement.startswith("Certified: expected safety >= ")
        assert all(str(assumption) in statement for assumption in FIELD_ASSUMPTIONS)


def test_an_existing_campaign_is_not_overwritten(url):
    before = url.read_bytes()
    ended = campaign("init", url, "-", given=json.loads(specification()))
    assert (ended.code, ended.error) == (4, "conflict")
    assert url.read_bytes() == before


def test_an_unknown_key_is_answered_with_the_nearest(tmp_path):
    document = json.loads(specification())
    document["settings"]["tolerence"] = document["settings"].pop("tolerance")
    ended = campaign("init", tmp_path / "c.db", "-", given=document)
    assert (ended.code, ended.error) == (2, "invalid-input")
    assert "'tolerence' (did you mean 'tolerance'?)" in ended.message
    assert not (tmp_path / "c.db").exists()


def test_the_answer_shows_no_password(monkeypatch, url):
    opened = s2r.Campaign.open(url)
    monkeypatch.setattr(module.Campaign, "create", lambda *_, **__: opened)
    made = done("init", "postgresql://me:secret@host/db", "-", given=json.loads(specification()))
    assert made["url"] == "postgresql://me:***@host/db"


# ask, tell, abandon


def test_ask_hands_out_a_policy_with_its_certificate(url):
    asked = done("ask", url, "--worker", "arm")
    (deployment,) = asked["deployments"]
    assert asked["certified"] is False
    assert list(deployment) == [
        "id", "number", "worker", "at", "reason", "exploration_weight", "uncertainty", "drawn", "policy", "certificate",
    ]  # fmt: skip
    assert re.fullmatch("[0-9a-f]{8}-1-[0-9a-f]{6}", deployment["id"])
    assert (deployment["number"], deployment["reason"], deployment["uncertainty"]) == (1, "BASELINE", None)
    assert deployment["policy"] == {"kind": "stochastic", "probabilities": np.full((12, 25, 4), 0.25).tolist()}
    certificate = deployment["certificate"]
    assert (certificate["standing"], certificate["certified"]) == ("heuristic", False)
    assert (certificate["reaches"], certificate["holds"]) == (True, False)  # the numbers reach, and nothing is certified
    assert certificate["lower_bounds"] == pytest.approx([11.016])
    assert certificate["thresholds"] == [10.71]
    assert [one["text"] for one in certificate["assumptions"]][-5:] == list(map(str, FIELD_ASSUMPTIONS))
    assert [one["code"] for one in certificate["doubts"]] == ["radius-scaled", "bonus-scaled"]


def test_a_mixture_is_handed_out_as_the_policy_that_was_drawn(url):
    log = "\n".join(json.dumps(rolled(BASELINE, number)) for number in range(1, 401))
    done("import", url, "-", "--source", "before", given=log.encode())
    asked = done("ask", url, "--worker", "arm", "-n", 20)["deployments"]
    assert {deployment["reason"] for deployment in asked} == {"MIXTURE"}
    assert 0.0 < asked[0]["uncertainty"] < 12.0
    explorers = [deployment for deployment in asked if deployment["policy"]["kind"] == "deterministic"]
    assert 0 < len(explorers) < 20  # the coin shows both
    assert np.shape(explorers[0]["policy"]["actions"]) == (12, 25)
    assert done("tell", url, explorers[0]["id"], given=episode(explorers[0]))["new"]


def test_a_policy_is_plain_lists_whatever_its_size(url, monkeypatch):
    monkeypatch.setattr(encoding, "PLAIN_SIZE", 10)
    assert np.shape(one(url)["policy"]["probabilities"]) == (12, 25, 4)


def test_telling_twice_counts_once_and_another_episode_is_a_conflict(url, tmp_path):
    deployment = one(url)
    file = tmp_path / "episode.json"
    file.write_text(json.dumps(episode(deployment)))
    told = done("tell", url, deployment["id"], file)
    assert told == {"id": deployment["id"], "sequence": 3, "new": True, "samples": 12}
    assert done("tell", url, deployment["id"], file) == {**told, "new": False}
    assert done("tell", url, deployment["id"], "-", given=episode(deployment)) == {**told, "new": False}
    ended = campaign("tell", url, deployment["id"], given=rolled(BASELINE, 99))
    assert (ended.code, ended.error) == (4, "conflict")
    assert done("status", url, "--no-forecast")["samples"] == 12


@pytest.mark.parametrize("command", ["tell", "import"])
def test_an_episode_cut_short_needs_the_option(url, command):
    deployment = one(url)
    whole = episode(deployment)
    short = {"states": whole["states"][:6], "actions": whole["actions"][:5]}
    arguments = (command, url, deployment["id"]) if command == "tell" else (command, url, "-", "--source", "s")
    assert campaign(*arguments, given=short).code == 2
    assert done(*arguments, "--partial", given=short)["samples"] == 5


@pytest.mark.parametrize(
    ("given", "flags"),
    [({"states": [], "actions": []}, ["--left-model"]), ({"states": [], "actions": [], "left_model": True}, [])],
)
def test_leaving_the_model_is_told_by_a_flag_or_a_key(url, given, flags):
    told = done("tell", url, one(url)["id"], *flags, given=given)
    assert (told["new"], told["samples"]) == (True, 0)
    status = done("status", url, "--no-forecast")
    assert (status["standing"], status["left_model"]) == ("refuted", 1)


def test_an_abandoned_deployment_is_handed_out_no_more(url):
    first = one(url)
    receipt = done("abandon", url, first["id"], "--reason", "the arm lost power")
    assert receipt == {"id": first["id"], "sequence": 3, "new": True, "samples": 0}
    assert done("abandon", url, first["id"], "--reason", "again")["new"] is False
    second = one(url)
    assert second["number"] == 2
    assert done("status", url, "--no-forecast")["abandoned"] == 1
    done("tell", url, second["id"], given=episode(second))
    assert campaign("abandon", url, second["id"], "--reason", "too late").code == 4


# import


def test_a_log_of_the_baseline_from_a_file(url, tmp_path):
    file = tmp_path / "log.jsonl"
    file.write_text("\n".join(json.dumps(rolled(BASELINE, number)) for number in range(3)) + "\n\n")
    imported = done("import", url, file, "--source", "spring")
    assert imported == {"source": "spring", "episodes": 3, "skipped": 0, "sequence": 2, "new": True, "samples": 36}
    assert done("import", url, file, "--source", "spring") == {**imported, "new": False}
    file.write_text(json.dumps(rolled(BASELINE, 4)))
    assert campaign("import", url, file, "--source", "spring").code == 4
    assert done("status", url, "--no-forecast")["imported"] == 3


def test_episodes_that_are_recorded_already_are_skipped_if_so_stated(url):
    log = "\n".join(json.dumps(rolled(BASELINE, number)) for number in range(3)).encode()
    done("import", url, "-", "--source", "january", given=log)
    assert campaign("import", url, "-", "--source", "both", given=log).error == "conflict"
    assert done("import", url, "-", "--source", "both", "--overlap", "skip", given=log)["skipped"] == 3


def test_a_log_of_another_policy_is_checked_against_it(url, tmp_path):
    policy, log = tmp_path / "policy.json", tmp_path / "log.jsonl"
    policy.write_text(json.dumps({"kind": "deterministic", "num_actions": 4, "actions": [2] * 25}))
    always = s2r.MarkovPolicy.deterministic(np.full((12, 25), 2), num_actions=4)
    log.write_text(json.dumps(rolled(always, 1)))
    assert done("import", url, log, "--source", "spring", "--policy", policy)["new"]
    log.write_text(json.dumps(rolled(always, 1)) + "\n" + json.dumps(rolled(BASELINE, 1)))
    ended = campaign("import", url, log, "--source", "autumn", "--policy", policy)
    assert (ended.code, ended.error) == (2, "invalid-input")
    assert "episodes[1]" in ended.message


def test_a_bad_line_is_named(url, tmp_path):
    file = tmp_path / "log.jsonl"
    file.write_text(json.dumps(rolled(BASELINE, 1)) + "\n{oops\n")
    ended = campaign("import", url, file, "--source", "spring")
    assert ended.code == 2
    assert f"line 2 of {file} is not JSON" in ended.message
    assert done("status", url, "--no-forecast")["imported"] == 0


# status, plan, map


def test_status_has_no_infinity_and_names_what_is_out(url):
    deployment = one(url)
    state = done("status", url)
    assert state["held"] == [{"id": deployment["id"], "worker": "arm", "at": deployment["at"]}]
    assert state["uncertainty"] is None
    assert (state["rounds"], state["rows"], state["stopped"], state["next_reason"]) == (1, 100, False, "BASELINE")
    assert state["forecast"]["samples"] == 12 * state["forecast"]["rounds"] > 0
    assert state["certified"] is False
    assert state["statement"].startswith("HEURISTIC")
    assert done("status", url, "--no-forecast") == {**state, "forecast": None}


def test_after_the_stop_there_is_nothing_to_ask_and_a_plan(stopped, tmp_path):
    ended = campaign("ask", stopped, "--worker", "arm")
    assert (ended.code, ended.error) == (3, "stopped")
    state = done("status", stopped)
    assert state["stopped"] is True
    assert (state["forecast"]["rounds"], state["forecast"]["samples"], state["forecast"]["caution"]) == (0, 0, "")
    reward = tmp_path / "reward.json"
    reward.write_text(json.dumps([[0.5] * 4] * 25))
    plan = done("plan", stopped, reward)
    assert (plan["certified"], plan["bound"], plan["suboptimality"]) == (False, 12.0, None)
    assert plan["value"] == pytest.approx(6.0 - 5.0)  # 12 steps of 0.5 on the model, less the tolerance
    assert plan["certificate"]["holds"] is False  # a tolerance of 5 says nothing about safety
    assert math.fsum(plan["policy"]["weights"]) == pytest.approx(1.0)
    assert all(np.shape(policy["actions"]) == (12, 25) for policy in plan["policy"]["policies"])


def test_a_plan_is_written_where_it_is_wanted(stopped, tmp_path):
    reward = [[0.5] * 4] * 25
    said = done("plan", stopped, "-", "--out", tmp_path / "pick", given=reward)
    assert [Path(file).name for file in said["files"]] == ["plan.json", "policy.csv", "plan.npz"]
    loaded = s2r.load_plan(tmp_path / "pick" / "plan.npz")
    assert loaded.value == said["value"]
    assert loaded.certificate.describe(width=None) == said["certificate"]["statement"]
    assert not loaded.certificate.certified  # as the campaign is, so is what it writes
    written = json.loads((tmp_path / "pick" / "plan.json").read_text())
    assert written["policy"] == said["policy"]
    assert written["certificate"]["holds"] is False
    ended = campaign("plan", stopped, "-", "--out", stopped, given=reward)
    assert (ended.code, ended.error) == (2, "invalid-input")
    assert "the campaign itself" in ended.message


def test_a_large_reward_may_be_packed(stopped):
    reward = np.random.default_rng(0).random((12, 25, 4))
    packed = done("plan", stopped, "-", given=encoding.packed(reward))
    assert packed == done("plan", stopped, "-", given=reward.tolist())


@pytest.mark.parametrize("reward", [[[2.0] * 4] * 25, [[0.5] * 3] * 25, [[0.5], [0.5, 0.5]], {"all": 1}, "high"])
def test_a_reward_that_is_none(stopped, reward):
    ended = campaign("plan", stopped, "-", given=reward)
    assert (ended.code, ended.error) == (2, "invalid-input")
    assert "reward" in ended.message


def test_the_map_has_names_and_nulls(url):
    done("import", url, "-", "--source", "s", given=rolled(BASELINE, 1))
    found = done("map", url)
    arrays = ("visits", "distance", "lower", "upper", "verdict", "visits_needed")
    assert set(found) == {*arrays, "certified", "intervals_certified", "state_names", "action_names"}
    assert all(np.shape(found[name]) == (25, 4) for name in arrays)
    assert (found["state_names"][7], found["action_names"][1]) == ("cell (1, 2)", "right")
    visits, distance = np.array(found["visits"]), np.array(found["distance"], dtype=object)
    assert visits.sum() == 12
    assert (np.equal(distance, None) == (visits == 0)).all()
    assert set(np.ravel(found["verdict"])) <= {"OPEN", "WRONG", "CLEARED", "KNOWN", "CONTRADICTED"}
    assert "OPEN" in np.ravel(found["verdict"])


# verify


def test_verify_prints_the_ledger(url):
    fresh = done("verify", url)
    assert fresh["smallest_margin"] is None
    run_rounds(url, 2)
    ledger = done("verify", url)
    assert (ledger["holds"], ledger["deployments"], ledger["episodes"], ledger["events"]) == (True, 2, 2, 5)
    assert ledger["problems"] == []
    assert ledger["certified"] is False
    assert ledger["statement"].startswith("HEURISTIC")
    assert ledger["head"] == done("status", url, "--no-forecast")["head"]
    assert ledger["smallest_margin"] == pytest.approx(0.306)
    assert done("verify", url, "--head", fresh["head"]) == ledger


def test_a_changed_byte_shows(url):
    run_rounds(url, 2)
    with sqlite3.connect(url) as database:
        (body,) = database.execute("select body from safe2real_event where sequence = 3").fetchone()
        changed = body[:-3] + ("1" if body[-3] != "1" else "2") + body[-2:]
        assert sum(old != new for old, new in zip(body, changed, strict=True)) == 1
        database.execute("update safe2real_event set body = ? where sequence = 3", (changed,))
    ended = campaign("verify", url)
    assert ended.code == 6
    assert ended.document["holds"] is False
    assert ended.document["problems"][0]["sequence"] == 3
    assert set(ended.document["problems"][0]) == {"sequence", "deployment", "what"}
    assert ended.document["statement"].startswith("NOT VERIFIED")
    refused = campaign("ask", url, "--worker", "arm")
    assert (refused.code, refused.error) == (5, "storage")


def test_a_number_that_is_none_shows_too(url):
    run_rounds(url, 1)
    with closing(sqlite3.connect(url)) as database, database:
        database.execute("update safe2real_event set deployment = ? where sequence = 3", (b"\xff",))
    ended = campaign("verify", url)
    assert ended.code == 6
    assert ended.document["problems"][0]["deployment"] is None


def test_an_event_cut_off_shows_with_the_head(url):
    run_rounds(url, 1)
    head = done("status", url, "--no-forecast")["head"]
    with closing(sqlite3.connect(url)) as database, database:
        database.execute("delete from safe2real_event where sequence = 3")
    assert campaign("verify", url).code == 0
    assert campaign("verify", url, "--head", head).code == 6


def test_verify_reports_its_progress(url, monkeypatch):
    seen = []

    @contextmanager
    def watched(label):
        yield lambda finished, total: seen.append((label, finished, total))

    monkeypatch.setattr(io, "progress_bar", watched)
    done("ask", url, "--worker", "arm", "-n", "150")
    done("verify", url)
    assert seen == [("events", 100, 151)]


# What goes wrong


@pytest.mark.parametrize(
    "arguments",
    [
        ["ask", "--worker", "arm"],
        ["tell", "00000000-1"],
        ["abandon", "00000000-1", "--reason", "none"],
        ["import", "-", "--source", "s"],
        ["status"],
        ["plan", "-"],
        ["map"],
        ["verify"],
        ["export", "--out", "record.json"],
        ["report", "--out", "page.html"],
    ],
)
def test_a_campaign_that_is_not_there(tmp_path, arguments):
    command, *rest = arguments
    ended = campaign(command, tmp_path / "nowhere.db", *rest, given=[])
    assert (ended.code, ended.error) == (5, "storage")
    assert "nowhere.db" in ended.message
    assert not (tmp_path / "nowhere.db").exists()


def test_a_text_without_an_end_is_refused(tmp_path):
    ended = campaign("init", tmp_path / "c.db", "/dev/zero")
    assert (ended.code, "is longer than 32 MiB" in ended.message) == (2, True)


def test_a_damaged_file(url):
    run_rounds(url, 1)
    with sqlite3.connect(url) as database:
        database.execute("pragma wal_checkpoint(truncate)")
    url.write_bytes(url.read_bytes()[:3000])
    ended = campaign("status", url)
    assert (ended.code, ended.error) == (5, "storage")


@pytest.mark.parametrize("text", [b"", b"{", b"[1] [2]", b'{"states": [NaN], "actions": []}', b"[" * 100_000])
def test_what_is_not_json(url, text):
    ended = campaign("tell", url, one(url)["id"], "-", given=text)
    assert (ended.code, ended.error) == (2, "invalid-input")
    assert "standard input is not JSON" in ended.message


def test_files_that_cannot_be_read(url, tmp_path):
    id = one(url)["id"]
    missing = campaign("tell", url, id, tmp_path / "missing.json")
    assert (missing.code, missing.error) == (2, "invalid-input")
    assert "missing.json cannot be read (No such file or directory); check the name" in missing.message
    folder = campaign("tell", url, id, tmp_path)
    assert (folder.code, folder.error) == (2, "invalid-input")
    latin = tmp_path / "latin.json"
    latin.write_bytes('{"größe": 1}'.encode("latin-1"))
    for arguments in (["tell", url, id, latin], ["init", tmp_path / "new.db", latin], ["plan", url, latin]):
        ended = campaign(*arguments, given=b"")
        assert (ended.code, ended.error) == (2, "invalid-input")
        assert "latin.json is not UTF-8 text (byte 4" in ended.message


def test_the_mark_that_some_editors_put_first_is_no_error(url):
    deployment = one(url)
    text = json.dumps(episode(deployment)).encode("utf-8-sig")
    assert done("tell", url, deployment["id"], given=text)["new"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["ask", "URL"],
        ["ask", "URL", "--worker", "arm", "-n", "two"],
        ["ask", "URL", "--worker", "arm", "-n", "0"],
        ["ask", "URL", "--worker", ""],
        ["aks", "URL"],
        ["--nonsense", "ask"],
        ["tell", "URL", "not-an-id"],
        ["tell", "URL", "00000000-1"],
        ["export", "URL", "--out", "x", "--format", "parquet"],
    ],
)
def test_wrong_arguments_are_one_json_line_too(url, arguments):
    ended = campaign(*[url if argument == "URL" else argument for argument in arguments], given=rolled(BASELINE, 1))
    assert (ended.code, ended.error) == (2, "invalid-input")
    assert ended.message


def test_a_wrong_option_leads_to_the_help(url):
    assert campaign("ask", url).message == "Missing option '--worker'. (see `safe2real campaign ask --help`)"


def test_ask_says_what_was_withdrawn(tmp_path):
    url = tmp_path / "certified.db"
    done("init", url, "-", given=three_states().specification.to_text().encode())
    (crash,) = done("ask", url, "--worker", "crash")["deployments"]
    asked = done("ask", url, "--worker", "arm")
    (held,), withdrawn = asked["deployments"], asked["withdrawn"]
    assert (held["reason"], withdrawn) == ("MIXTURE", [])
    done("tell", url, crash["id"], "--left-model", given={"states": [], "actions": []})
    for _ in range(2):
        asked = done("ask", url, "--worker", "arm")
        assert asked["deployments"][0]["reason"] == "BASELINE"
        assert [one["id"] for one in asked["withdrawn"]] == [held["id"]]
        assert "no state" in asked["withdrawn"][0]["reason"]
    assert done("verify", url)["holds"]


def test_a_refuted_margin_ends_asking_with_code_8(tmp_path):
    url = tmp_path / "falling.db"
    specification, real = falling().specification, falling().real
    done("init", url, "-", given=specification.to_text().encode())
    log = [roll_out(real, specification.baseline, seed=1, round_number=i) for i in range(60)]
    lines = [json.dumps({"states": one.states.tolist(), "actions": one.actions.tolist()}) for one in log]
    done("import", url, "-", "--source", "last week", given="\n".join(lines).encode())
    ended = campaign("ask", url, "--worker", "arm")
    assert (ended.code, ended.error) == (8, "halted")
    assert "STOP THE MACHINE" in ended.message
    status = done("status", url)
    assert (status["halted"], status["next_reason"], status["standing"]) == (True, "HALT", "refuted")


def test_a_margin_that_the_simulator_contradicts_is_refused_unless_trusted(tmp_path):
    given = json.loads(falling().specification.to_text())
    given["settings"]["margin"] = 2.0  # the baseline is worth 1 + 0.9 + 0.81 + 0.729 there, 1.939 above the threshold
    ended = campaign("init", tmp_path / "refused.db", "-", given=given)
    assert (ended.code, ended.error) == (2, "invalid-input")
    assert "on the simulator the baseline's margin is" in ended.message
    assert not (tmp_path / "refused.db").exists()
    url = tmp_path / "trusted.db"
    assert done("init", url, "-", "--trust-margin", given=given)["certified"]
    done("ask", url, "--worker", "arm")
    ledger = done("verify", url)
    assert ledger["holds"], ledger
    with s2r.Campaign.open(url) as opened:
        assert json.loads(opened.events()[0].body)["trust_margin"] is True
