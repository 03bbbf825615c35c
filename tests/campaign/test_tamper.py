"""Nobody changes a record unseen: single bytes, whole events, and forgers who compute the chain of digests again."""

import json
import random
import re
import shutil
from dataclasses import asdict, replace
from unittest.mock import Mock

import numpy as np
import pytest

import safe2real as s2r
from safe2real import radii
from safe2real.campaign import Campaign, Differences
from safe2real.campaign.events import AskBody, Event
from safe2real.errors import Safe2RealError, StorageFailure
from safe2real.exploration import roll_out
from safe2real.exploration.proposal import coin_of, drawn
from safe2real.model.serialization import digest_of, policy_from_bytes, policy_to_bytes, to_text
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings
from tests.campaign.systems import chained, change, read, run_rounds, three_states, write_events
from tests.cases import one_of_each, sampled

H = 4
SYSTEM = three_states()
SAFE = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
LEVEL = np.array([[1.0, 0.5], [1.0, 1.0], [0.5, 0.0]])
DARING = s2r.MarkovPolicy.deterministic([1, 1, 1], num_actions=2, horizon=H)
SEED = 5
DEPLOYMENTS = 41


def system():
    """Heuristic constants: Delta falls within some tens of episodes, so what was known when makes a difference."""
    constraints = [s2r.AtLeast(SAFE, 2.8, "upright"), s2r.AtLeast(LEVEL, 2.6, "level")]
    model = s2r.CMDP.of(SYSTEM.specification.simulator.kernel, H, 0, constraints)
    baseline = s2r.MarkovPolicy.deterministic([0, 0, 0], num_actions=2, horizon=H)
    settings = Settings.paper(
        margin=(1.0, 1.2), calibrated_gap=0.0, mismatch_gap=0.1, tolerance=0.05, seed=SEED, radius=radii.Scaled(0.06)
    )
    return Problem(model, baseline, settings)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A campaign with everything in it that a record can hold: (file, head)."""
    path, specification = tmp_path_factory.mktemp("campaign") / "campaign.db", system()
    real = specification.simulator.with_kernel(SYSTEM.real.kernel)

    def episode(deployment):
        return roll_out(real, deployment.policy, seed=SEED, round_number=deployment.number)

    with Campaign.create(path, specification) as campaign:
        first = campaign.ask(worker="robot 0")  # nothing is known yet: the baseline alone
        campaign.tell(first.id, episode(first))
        log = [roll_out(real, specification.baseline, seed=1, round_number=t) for t in range(3)]
        campaign.import_log("last year", specification.baseline, log, overlap="count")
        late = None
        while campaign.status(forecast=False).rounds < DEPLOYMENTS:
            for deployment in campaign.ask_batch(2, worker=f"robot {campaign.status(forecast=False).rounds % 3}"):
                happened = episode(deployment)
                if deployment.number == 7:
                    campaign.abandon(deployment.id, "battery empty")
                    late = deployment
                elif deployment.number == 9:
                    campaign.abandon(deployment.id, "no network")  # and never told
                elif deployment.number == 12:
                    campaign.tell(deployment.id, s2r.Trajectory(happened.states[:3], happened.actions[:2]), partial=True)
                else:
                    campaign.tell(deployment.id, happened)
                if deployment.number == 20:
                    campaign.tell(late.id, episode(late))
        campaign.import_log("found later", specification.baseline, log[:1], overlap="count")
        campaign.ask(worker="out in the field")
        ledger = campaign.verify()
        reasons = [json.loads(event.body)["reason"] for event in campaign.events() if event.kind == "ask"]
        kinds = {event.kind for event in campaign.events()}
        drawn_indices = {json.loads(event.body)["drawn"] for event in campaign.events() if event.kind == "ask"}
    assert ledger.holds, ledger.describe()
    assert ledger.identical == ledger.deployments == DEPLOYMENTS + 1
    assert reasons[0] == "BASELINE"
    assert reasons.count("MIXTURE") > 30
    assert len(drawn_indices) > 1
    assert kinds == {"create", "ask", "tell", "abandon", "import"}
    assert [file.name for file in path.parent.iterdir()] == [path.name]  # the write-ahead log is folded in
    return path, ledger.head


@pytest.fixture
def copied(finished, tmp_path):
    return shutil.copy(finished[0], tmp_path / "campaign.db")


def problems_of(path, head=None):
    """What opening and verifying say is wrong; only errors of our own will do."""
    try:
        with Campaign.open(path) as campaign:
            return [problem.what for problem in campaign.verify(head=head).problems]
    except Safe2RealError as error:
        return [f"refused: {error}"]


def assert_nothing_is_handed_out(path):
    with Campaign.open(path) as campaign, pytest.raises(StorageFailure) as caught:
        campaign.ask(worker="another")
    assert re.search("was changed after|Could not decode", str(caught.value)), caught.value


def test_the_record_is_as_it_was_left(copied, finished):
    assert problems_of(copied, head=finished[1]) == []
    with Campaign.open(copied) as campaign:
        assert campaign.ask(worker="another")
        assert campaign.verify(head=finished[1]).holds


# ---------------------------------------------------------------------------------------------------------- single bytes


def other_character(chance, text):
    """The text with one character changed to another: printable, or one bit of it."""
    index = chance.randrange(len(text))
    printable = [chr(code) for code in range(32, 127) if chr(code) != text[index]]
    return text[:index] + chance.choice([*printable, chr(ord(text[index]) ^ 1)]) + text[index + 1 :]


def other_byte(chance, content):
    index = chance.randrange(len(content))
    return content[:index] + bytes([content[index] ^ (1 << chance.randrange(8))]) + content[index + 1 :]


def changes_of_events():
    """(kind of event, column, how often): every column of every kind."""
    for kind in ("create", "ask", "tell", "abandon", "import"):
        for column, times in (("body", 8), ("at", 3), ("kind", 3), ("digest", 3), ("deployment", 3), ("worker", 3)):
            yield from ((kind, column, time) for time in range(times))
        yield from ((kind, "sequence", time) for time in range(2))


CHANGES = list(changes_of_events())
ONE_OF_EACH = one_of_each(CHANGES, lambda change: (change[1], change[0] if change[1] == "body" else ""))


@sampled(("kind", "column", "time"), CHANGES, keep=ONE_OF_EACH)
def test_a_changed_byte_of_an_event_is_found_and_nothing_more_is_handed_out(copied, kind, column, time):
    chance = random.Random(f"{kind} {column} {time}")
    sequence, value = chance.choice(read(copied, f"SELECT sequence, {column} FROM safe2real_event WHERE kind = ?", kind))
    if column == "sequence":
        new = value + (1 << chance.randrange(10, 30)) * chance.choice([1, -1])
    elif isinstance(value, int):
        new = chance.choice([value + 1000, -value, None, value ^ (1 << chance.randrange(7, 30)), "seven", b"7"])
    elif value is None:
        new = ["", "x", "-"][time] if column == "worker" else ["", 1_000_000, "-"][time]
    else:
        new = other_character(chance, value)
    change(copied, f"UPDATE safe2real_event SET {column} = ? WHERE sequence = ?", new, sequence)
    assert problems_of(copied), f"{column} of event {sequence}: {value!r} became {new!r}"
    assert_nothing_is_handed_out(copied)


@sampled("column", ["kind", "worker", "at", "body", "digest", "deployment"], keep=(0, 3, 5))
def test_a_text_that_became_bytes_is_found(copied, column):
    """SQLite keeps any type in any column."""
    change(copied, f"UPDATE safe2real_event SET {column} = CAST({column} AS BLOB) WHERE kind = 'ask' AND deployment = 5")
    assert problems_of(copied)
    assert_nothing_is_handed_out(copied)


@sampled("time", range(6), keep=(0, 5))
def test_bytes_that_are_no_text_are_found(copied, time):
    chance = random.Random(time)
    column, sequence = chance.choice(["body", "worker", "at", "kind", "digest"]), chance.randrange(2, 60)
    change(copied, f"UPDATE safe2real_event SET {column} = CAST(? AS TEXT) WHERE sequence = ?", b'{"a\xff": 1}', sequence)
    assert problems_of(copied)
    assert_nothing_is_handed_out(copied)


@sampled("time", range(14), keep=(0, 9, 13))
def test_a_changed_byte_of_a_policy_is_found_and_it_is_not_handed_out(copied, time):
    chance = random.Random(time)
    (held,) = read(copied, "SELECT body FROM safe2real_event WHERE worker = 'out in the field'")[0]
    digest = json.loads(held)["policies"][time % 2]
    (content,) = read(copied, "SELECT content FROM safe2real_policy WHERE digest = ?", digest)[0]
    if time < 9:
        change(copied, "UPDATE safe2real_policy SET content = ? WHERE digest = ?", other_byte(chance, content), digest)
    elif time < 13:
        change(copied, "UPDATE safe2real_policy SET digest = ? WHERE digest = ?", other_character(chance, digest), digest)
    else:
        change(copied, "DELETE FROM safe2real_policy WHERE digest = ?", digest)
    assert any(f"policy {digest[:12]}" in problem for problem in problems_of(copied))
    with Campaign.open(copied) as campaign, pytest.raises(StorageFailure, match=f"policy {digest[:12]} is missing or was"):
        campaign.ask(worker="out in the field")


@sampled("time", range(16), keep=(0, 12))
def test_a_changed_byte_of_the_campaign_is_found(copied, time):
    chance, column = random.Random(time), "specification" if time < 12 else "name"
    (value,) = read(copied, f"SELECT {column} FROM safe2real_campaign")[0]
    change(copied, f"UPDATE safe2real_campaign SET {column} = ?", other_character(chance, value))
    assert problems_of(copied)


def lower_threshold(path):
    (text,) = read(path, "SELECT specification FROM safe2real_campaign")[0]
    assert '"threshold":2.8' in text
    change(path, "UPDATE safe2real_campaign SET specification = ?", text.replace('"threshold":2.8', '"threshold":1.8'))


def other_name(path):
    change(path, "UPDATE safe2real_campaign SET name = '00000000'")


def test_a_lower_threshold_in_the_specification_is_found(copied):
    lower_threshold(copied)
    assert "the campaign's name or its specification was changed after it was created" in problems_of(copied)


@pytest.mark.parametrize("spoil", [lower_threshold, other_name])
def test_nothing_is_handed_out_for_another_specification(copied, spoil):
    """The chain of events fits; only its first event says what the campaign was about."""
    spoil(copied)
    assert_nothing_is_handed_out(copied)


# ---------------------------------------------------------------------------------------------------------- whole events


class Record:
    """The events of a file, to be changed and written back; `chained` computes all digests again, as a forger would."""

    def __init__(self, path):
        self.path = path
        self.events = [Event(*row) for row in read(path, "SELECT * FROM safe2real_event ORDER BY sequence")]
        self.specification = system()

    def find(self, kind, deployment=None):
        return next(i for i, e in enumerate(self.events) if e.kind == kind and deployment in (None, e.deployment))

    def body(self, index):
        return json.loads(self.events[index].body)

    def put(self, index, **changes):
        """Change entries of a body."""
        self.events[index] = replace(self.events[index], body=to_text(self.body(index) | changes))

    def policy(self, digest):
        ((content,),) = read(self.path, "SELECT content FROM safe2real_policy WHERE digest = ?", digest)
        return policy_from_bytes(content)

    def add_policy(self, policy):
        content = policy_to_bytes(policy)
        values = (digest_of(content), content)
        change(self.path, "INSERT OR REPLACE INTO safe2real_policy (digest, content) VALUES (?, ?)", *values)
        return values[0]

    def write(self, *, chained_anew):
        if chained_anew:
            self.events = chained(replace(event, sequence=number) for number, event in enumerate(self.events, 1))
        write_events(self.path, self.events)


@pytest.fixture
def record(copied):
    return Record(copied)


def test_writing_a_record_back_changes_nothing(record, finished):
    record.write(chained_anew=True)
    assert problems_of(record.path, head=finished[1]) == []


@sampled("index", [0, 1, 5, 17, 40, 60, -2])
def test_a_deleted_event_is_found(record, index):
    sequence = record.events[index].sequence
    del record.events[index]
    record.write(chained_anew=False)
    assert f"events {sequence} to {sequence} are missing" in problems_of(record.path)
    assert_nothing_is_handed_out(record.path)


def test_the_last_events_are_missed_by_those_who_noted_the_head(record, finished):
    """A shorter record is a record: only who knows that there was more can tell."""
    del record.events[-2:]
    record.write(chained_anew=False)
    assert problems_of(record.path) == []
    assert problems_of(record.path, head=finished[1]) == [f"the event with digest {finished[1]} is no longer in the record"]


def test_an_empty_record_is_found(record):
    record.events.clear()
    record.write(chained_anew=False)
    assert problems_of(record.path) == ["the record is empty; its first event is missing"]


@sampled(("one", "other"), [(3, 4), (5, 20), (0, 1), (40, 41)], keep=[1])
@pytest.mark.parametrize("columns", [("kind", "deployment", "worker", "at", "body", "digest"), ("body",), ("digest",)])
def test_events_that_changed_places_are_found(record, one, other, columns):
    events, first, second = record.events, record.events[one], record.events[other]
    events[one] = replace(first, **{column: getattr(second, column) for column in columns})
    events[other] = replace(second, **{column: getattr(first, column) for column in columns})
    record.write(chained_anew=False)
    assert problems_of(record.path)
    assert_nothing_is_handed_out(record.path)


@sampled("kind", ["create", "ask", "tell", "abandon", "import"], keep=(1, 2))
@pytest.mark.parametrize("where", ["behind", "at the end"])
def test_a_repeated_event_is_found(record, kind, where):
    index = record.find(kind)
    at = index + 1 if where == "behind" else len(record.events)
    record.events.insert(at, record.events[index])
    record.events[:] = [replace(event, sequence=sequence) for sequence, event in enumerate(record.events, 1)]
    record.write(chained_anew=False)
    assert problems_of(record.path)
    assert_nothing_is_handed_out(record.path)


@sampled("index", [1, 4, 30, 80], keep=(0, 2))
def test_an_inserted_event_is_found(record, index):
    """Even one that fits in the chain behind the event before it: the one after it does not."""
    before = record.events[index - 1]
    new = Event(index + 1, "abandon", 5, None, before.at, '{"reason":"made up"}', "")
    record.events.insert(index, replace(new, digest=new.digest_after(before.digest)))
    record.events[:] = [replace(event, sequence=sequence) for sequence, event in enumerate(record.events, 1)]
    record.write(chained_anew=False)
    assert problems_of(record.path)
    assert_nothing_is_handed_out(record.path)


# --------------------------------------------------------------------- a forger who computes the whole chain again


def forge(record):
    """Write with digests that fit, and return what is found all the same: (sequence, what)."""
    record.write(chained_anew=True)
    try:
        with Campaign.open(record.path) as campaign:
            found = [(problem.sequence, problem.what) for problem in campaign.verify().problems]
    except Safe2RealError as error:
        pytest.fail(f"verify must report, and raised {error}")
    assert not any("changed after it was recorded" in what or "are missing" in what for _, what in found)
    return found


def mixed_asks(record):
    """Deployments of mixtures with less than the whole weight on the candidate, so that Delta decides about it."""
    asks = [i for i, event in enumerate(record.events) if event.kind == "ask"]
    return [i for i in asks if record.body(i)["reason"] == "MIXTURE" and record.body(i)["exploration_weight"] < 0.99]


def bounds_of(record, body, alpha, delta):
    """The lower bounds that belong to another weight and another Delta, from the recorded ones."""
    learner = s2r.Learner(record.specification, warm_start=False)
    trusted = learner.simulator.thresholds + learner.evidence.stated
    weight = body["exploration_weight"]
    values = (np.array(body["lower_bounds"]) - (1.0 - weight) * trusted) / weight + body["uncertainty"]
    return (alpha * (values - delta) + (1.0 - alpha) * trusted).tolist()


def with_weight(record, index, alpha):
    """The mixture of a deployment with weight alpha on its candidate, everything else made to agree."""
    body, number = record.body(index), record.events[index].deployment
    parts = body["candidates"]
    weights = [w * alpha / body["exploration_weight"] for w in body["weights"][:parts]]
    weights = [*weights, 1.0 - sum(weights)]
    coin = drawn(np.array(weights), coin_of(SEED, number))
    bounds = bounds_of(record, body, alpha, body["uncertainty"])
    return {"weights": weights, "exploration_weight": alpha, "lower_bounds": bounds, "drawn": coin}


def lower_delta_with_its_bounds(record, index, body):
    delta = body["uncertainty"] - 0.01
    return {"uncertainty": delta, "lower_bounds": bounds_of(record, body, body["exploration_weight"], delta)}


def other_weights(record, index, body):
    weights = body["weights"]
    return {"weights": [weights[0] + 1e-6, *weights[1:-1], weights[-1] - 1e-6]}


def more_weight_on_the_candidate(record, index, body):
    return with_weight(record, index, body["exploration_weight"] + 0.01)


def other_candidate(record, index, body):
    """The most daring policy, under a digest of its own."""
    return {"policies": [record.add_policy(DARING), *body["policies"][1:]]}


def other_baseline(record, index, body):
    return {"policies": [*body["policies"][:-1], record.add_policy(DARING)]}


def policy_of_another_system(record, index, body):
    other = s2r.MarkovPolicy.uniform(horizon=H, num_states=4, num_actions=2)
    return {"policies": [record.add_policy(other), *body["policies"][1:]]}


def policy_without_weight(record, index, body):
    return {"policies": [*body["policies"], body["policies"][0]], "weights": [*body["weights"], 0.0]}


def mixture_of_the_baseline_alone(record, index, body):
    alone = {"policies": body["policies"][-1:], "weights": [1.0], "candidates": 0, "drawn": 0, "exploration_weight": 0.0}
    learner = s2r.Learner(record.specification, warm_start=False)
    return alone | {"lower_bounds": (learner.simulator.thresholds + learner.evidence.stated).tolist()}


def two_baselines(record, index, body):
    """The weight of the baseline in two parts, with the coin that belongs to them."""
    half = body["weights"][-1] / 2
    weights = [*body["weights"][:-1], half, half]
    coin = drawn(np.array(weights), coin_of(SEED, record.events[index].deployment))
    return {"policies": [*body["policies"], body["policies"][-1]], "weights": weights, "drawn": coin}


def entries(**changed):
    """A forgery of entries, each by what is made of its old value, or by a new one."""
    return lambda record, index, body: {
        name: value(body[name]) if callable(value) else value for name, value in changed.items()
    }


UNCERTAIN = "the uncertainty is .* on these data, not"
TOO_MUCH = "the certificate does not hold|the recorded lower bounds claim more than the data prove"
FORGED_ASKS = {
    "lower Delta": (entries(uncertainty=lambda delta: delta - 0.01), UNCERTAIN),
    "lower Delta with its bounds": (lower_delta_with_its_bounds, UNCERTAIN),
    "no Delta": (entries(uncertainty=None), "the data did not allow a mixture here"),
    "higher bound": (entries(lower_bounds=lambda low: [low[0] + 1e-6, low[1]]), "bounds claim more than the data prove"),
    "fewer bounds": (entries(lower_bounds=lambda low: low[:1]), "1 lower bounds are recorded for 2 constraints"),
    "other weights": (other_weights, "the candidate has the weight"),
    "weights above 1": (entries(weights=lambda weights: [one + 0.1 for one in weights]), "weights sums to"),
    "more weight": (more_weight_on_the_candidate, "the certificate does not hold|the coin of this deployment"),
    "other candidate": (other_candidate, TOO_MUCH),
    "other baseline": (other_baseline, "what the candidate is mixed with is not the trusted baseline"),
    "another system": (policy_of_another_system, r"policy has shape \(H, S, A\) = \(4, 4, 2\)"),
    "unknown policy": (entries(policies=lambda old: ["0" * 64, *old[1:]]), "policy 000000000000 is missing"),
    "policy without weight": (policy_without_weight, "the mixture names policies without weight"),
    "baseline alone": (mixture_of_the_baseline_alone, "the data did not allow a mixture here"),
    "two baselines": (two_baselines, "what the candidate is mixed with is not the trusted baseline"),
    "other coin": (entries(drawn=lambda index: int(not index)), "is not the one that the coin of this deployment shows"),
    "certified": (entries(certified=True), "labelled certified though it was not"),
    "certified as a number": (entries(certified=0), "is not a deployment as it was recorded"),
    "more episodes": (entries(episodes_counted=lambda number: number + 1), "the model had counted"),
    "baseline as candidate": (entries(candidates=lambda number: number + 1, exploration_weight=1.0), TOO_MUCH),
    "called baseline": (entries(reason="BASELINE", uncertainty=None), "names other policies|not the trusted baseline"),
    "unknown reason": (entries(reason="STOP"), "is not a deployment as it was recorded"),
}


@sampled("which", [0, 10, -1], keep=[1])
@pytest.mark.parametrize(("forgery", "message"), FORGED_ASKS.values(), ids=FORGED_ASKS)
def test_a_forged_deployment_is_found_though_the_chain_fits(record, which, forgery, message):
    index = mixed_asks(record)[which]
    record.put(index, **forgery(record, index, record.body(index)))
    assert_first_found(record, index, message)


def assert_first_found(record, index, message):
    """The first thing that is wrong with a record whose chain fits is in the event at this index."""
    ((sequence, what), *_) = forge(record)
    assert sequence == index + 1
    assert re.search(message, what), what


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lower_bounds": [3.9, 3.8]}, "the recorded lower bounds"),
        ({"uncertainty": 0.1}, "a deployment of the baseline alone names other policies"),
        ({"reason": "MIXTURE"}, "the data did not allow a mixture here"),
        ({"exploration_weight": 0.5}, "the candidate has the weight 0, not 0.5"),
        ({"candidates": 1, "exploration_weight": 1.0}, "a deployment of the baseline alone names other policies"),
    ],
)
def test_a_forged_deployment_of_the_baseline_is_found(record, changes, message):
    index = record.find("ask", 1)
    record.put(index, **changes)
    assert_first_found(record, index, message)


def test_a_deployment_that_is_justified_by_what_was_learnt_later_is_found(record):
    """The body of a late deployment in the place of an early one, with the coin and the count of the early one."""
    early, late = mixed_asks(record)[2], mixed_asks(record)[-1]
    body = record.body(late)
    coin = drawn(np.array(body["weights"]), coin_of(SEED, record.events[early].deployment))
    record.put(early, **body | {"drawn": coin, "episodes_counted": record.body(early)["episodes_counted"]})
    assert_first_found(record, early, "the uncertainty is .* on these data|the data did not allow a mixture")


def test_deployments_moved_before_the_data_that_justify_them_are_found(record):
    """All asks first, each saying that nothing had been counted, and everything else behind them."""
    events = record.events
    events[1:] = sorted(events[1:], key=lambda event: event.kind != "ask")
    for index in range(1, DEPLOYMENTS + 2):
        record.put(index, episodes_counted=0)
    found = dict(forge(record))
    last = found[DEPLOYMENTS + 2]
    assert re.search("the uncertainty is .* on these data|the data did not allow a mixture", last), last


def test_a_deployment_after_the_stop_is_said_to_differ(tmp_path):
    """Everything is declared known, so there is nothing to learn: nothing would follow here and now, but it is safe."""
    path, free = tmp_path / "campaign.db", replace(system(), known=np.ones((3, 2), dtype=bool))
    with Campaign.create(path, free) as campaign:
        assert campaign.status(forecast=False).stopped
    record, learner = Record(path), s2r.Learner(free, warm_start=False)
    policy = s2r.MarkovPolicy.deterministic([0, 0, 1], num_actions=2, horizon=H)
    body = AskBody(
        reason="MIXTURE",
        weights=[1.0],
        policies=[record.add_policy(policy)],
        candidates=1,
        drawn=0,
        exploration_weight=1.0,
        uncertainty=0.0,
        lower_bounds=learner.evidence.estimate(policy).tolist(),
        certified=False,
        episodes_counted=0,
        bounds=record.body(0)["bounds"],
        by="somebody",
    )
    record.events.append(Event(2, "ask", 1, "robot", record.events[0].at, to_text(asdict(body)), ""))
    assert forge(record) == []
    with Campaign.open(path) as campaign:
        assert campaign.verify().differences == Differences(1, 0.0)


@sampled("which", [0, 10, -1], keep=[1])
def test_what_claims_less_than_is_provable_is_a_difference(record, which):
    """A later release may prove more than was claimed; that is said, and is no problem."""
    index = mixed_asks(record)[which]
    record.put(index, uncertainty=record.body(index)["uncertainty"] + 1e-6)
    assert forge(record) == []
    with Campaign.open(record.path) as campaign:
        found = campaign.verify()
    assert found.differences.deployments == 1
    assert found.differences.largest == pytest.approx(1e-6, rel=1e-3)
    assert "would be other ones today, by up to 1e-06" in found.describe()


def columns(kind, deployment=None, /, **changed):
    """A forgery of columns of an event."""

    def forgery(record):
        index = record.find(kind, deployment)
        record.events[index] = replace(record.events[index], **changed)
        return index

    return forgery


def bodies(kind, deployment=None, /, **changed):
    """A forgery of entries of a body, each by what is made of its old value, or by a new one."""

    def forgery(record):
        index = record.find(kind, deployment)
        record.put(index, **entries(**changed)(record, index, record.body(index)))
        return index

    return forgery


def repeated(kind, deployment=None, /, **changed):
    """A forgery by a copy of an event at the end of the record."""

    def forgery(record):
        record.events.append(replace(record.events[record.find(kind, deployment)], **changed))
        return len(record.events) - 1

    return forgery


def with_state(place, state):
    return bodies("tell", 15, states=lambda states: [*states[:place], state, *states[place + 1 :]])


def test_an_episode_that_began_elsewhere_refutes_all_that_was_handed_out_after_it(record):
    index = with_state(0, 1)(record)
    ((sequence, what), *_) = forge(record)
    assert sequence > index + 1
    assert what == "the data did not allow a mixture here: the answer was BASELINE"


def told_before_it_was_asked(record):
    ask, tell = record.find("ask", 15), record.find("tell", 15)
    record.events.insert(ask, record.events.pop(tell))
    return ask


def asked_again(record):
    index = record.find("ask", 15)
    record.events.insert(index + 1, record.events[index])
    return index + 1


def import_by_another_policy(record):
    return bodies("import", policy=record.add_policy(DARING))(record)


def never_created(record):
    del record.events[0]
    return 0


NOT_ASKED = "told that no deployment asked for"
NO_BEGINNING = "the campaign's first event is missing, or another one is in its place"
FORGED_EVENTS = {
    "state out of range": (with_state(2, 3), r"states\[2\] is 3; states run from 0 to 2"),
    "negative state": (with_state(2, -1), r"states\[2\] is -1"),
    "huge state": (with_state(2, 2**70), "states has entries of type object"),
    "one state more": (bodies("tell", 15, states=lambda states: [*states, 0]), "an episode of 4 steps"),
    "another action": (bodies("tell", 15, actions=lambda old: [1 - old[0], *old[1:]]), "its policy never does there"),
    "told twice": (repeated("tell", 15), "told that no deployment asked for, or a second time"),
    "told unasked": (columns("tell", 15, deployment=1000), NOT_ASKED),
    "told of nothing": (columns("tell", 15, deployment=None), NOT_ASKED),
    "told before it was asked": (told_before_it_was_asked, NOT_ASKED),
    "abandoned twice": (repeated("abandon", 9), "abandoned that is not out"),
    "abandoned after it was told": (repeated("abandon", 9, deployment=15), "abandoned that is not out"),
    "number left out": (columns("ask", 15, deployment=16), "deployment 16 does not follow deployment 14"),
    "asked by nobody": (columns("ask", 15, worker=None), "does not follow"),
    "asked again": (asked_again, "deployment 15 does not follow deployment 15"),
    "import by another policy": (import_by_another_policy, "which its policy never does there"),
    "import of nothing": (bodies("import", episodes=[]), "holds no list of episodes"),
    "import by no policy": (bodies("import", policy=["no", "digest"]), "policies are named by digests"),
    "created twice": (repeated("create"), NO_BEGINNING),
    "never created": (never_created, NO_BEGINNING),
    "another specification": (bodies("create", specification="0" * 64), "its specification was changed"),
    "another name": (bodies("create", campaign="00000000"), "the campaign's name or its specification was changed"),
    "unknown kind": (columns("abandon", 9, kind="forget"), "of the unknown kind 'forget'"),
}


@pytest.mark.parametrize(("forgery", "message"), FORGED_EVENTS.values(), ids=FORGED_EVENTS)
def test_a_forged_event_is_found_though_the_chain_fits(record, forgery, message):
    assert_first_found(record, forgery(record), message)


JUNK = (None, True, -1, 0.5, 10**400, 1e308, "x", [], {}, [None], [[]], {"x": 1}, "1", [10**400], ["x", "y"], [0.5, 0.5])


@pytest.mark.parametrize("kind", ["create", "ask", "tell", "abandon", "import"])
@sampled("every", [13, 1], keep=[0])
def test_no_body_makes_verify_fail_instead_of_reporting(record, kind, every):
    """Everything else in the place of every entry of a body, and of the whole; the events after it may be wrong too."""
    index = record.find(kind, 1 if kind in ("ask", "tell") else None)
    del record.events[max(index + 1, 6) :]
    keep, body = list(record.events), record.body(index)
    free = {("abandon", "reason"), ("import", "log"), ("create", "version"), ("ask", "by"), ("import", "by")}
    forged = [to_text(junk) for junk in JUNK] + ["", "{", "NaN", "[" * 2000, '{"a":1,"a":1}', "\x00"]
    forged += [to_text(body | {key: junk}) for key in body for junk in JUNK if (kind, key) not in free and junk != body[key]]
    forged += [to_text({k: v for k, v in body.items() if k != key}) for key in body if key != "by"] + [
        to_text(body | {"more": 1})
    ]
    assert len(forged) > 20
    for text in forged[::every]:
        record.events[:] = keep
        record.events[index] = replace(keep[index], body=text)
        assert forge(record), text


# -------------------------------------------------------------------------------------------- what only the head can show


def other_last_state(deployment):
    """A valid episode of the same policy, which did not happen."""
    return bodies("tell", deployment, states=lambda states: [*states[:-1], (states[-1] + 1) % 3])


@sampled("deployment", [1, 3, 7, 10, 15, 25, 31, 41], keep=(0, 5))
def test_a_changed_episode_is_found_where_a_later_certificate_rests_on_it(record, deployment):
    other_last_state(deployment)(record)
    found = forge(record)
    assert all(re.search("the uncertainty is|lower bounds|does not hold", what) for _, what in found)
    with Campaign.open(record.path) as campaign:
        assert found or campaign.verify().differences.deployments


@sampled("deployment", [2, 4, 18, 30, 40], keep=[2])
def test_a_changed_episode_that_is_not_found_has_changed_no_later_deployment(record, deployment):
    """It visits rows that no later candidate comes to: every proposal after it is the same, bit for bit."""
    other_last_state(deployment)(record)
    assert forge(record) == []
    with Campaign.open(record.path) as campaign:
        ledger = campaign.verify()
    assert ledger.identical == ledger.deployments == DEPLOYMENTS + 1
    assert ledger.differences == Differences(0, 0.0)


def less_weight_than_was_allowed(record):
    """A smaller weight on the candidate with its own bounds: what it says is true, it only never happened."""
    for index in mixed_asks(record):
        body = record.body(index)
        new = with_weight(record, index, body["exploration_weight"] / 2)
        if new["drawn"] == body["drawn"]:
            return record.put(index, **new)
    raise AssertionError("every coin shows another policy")


@pytest.mark.parametrize(
    "forgery",
    [
        pytest.param(other_last_state(DEPLOYMENTS), id="last"),  # no certificate rests on it, since it ends the record
        other_last_state(18),
        less_weight_than_was_allowed,
        columns("tell", 5, at="2020-01-01T00:00:00.000+00:00"),
        columns("ask", 5, worker="somebody else"),
        columns("import", worker="another log"),
        columns("abandon", 9, body='{"reason":"it went wrong"}'),
    ],
)
def test_what_no_certificate_rests_on_is_found_by_the_head_alone(record, forgery, request):
    """A forger with the whole file can write a history that is safe and consistent: who noted the head knows better."""
    if request.node.callspec.id == "last":
        del record.events[record.find("tell", DEPLOYMENTS) + 1 :]
        record.write(chained_anew=True)
    with Campaign.open(record.path) as campaign:
        ledger = campaign.verify()
    assert ledger.holds, ledger.describe()
    forgery(record)
    assert forge(record) == []
    assert problems_of(record.path, head=ledger.head) == [f"the event with digest {ledger.head} is no longer in the record"]


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt, ValueError])
def test_what_was_taken_in_by_half_is_never_used_again(tmp_path, monkeypatch, error):
    with Campaign.create(tmp_path / "arm.db", three_states().specification) as campaign:
        run_rounds(campaign, three_states(), 2)
        with monkeypatch.context() as patched:
            patched.setattr("safe2real.campaign.replay.count_in_order", Mock(side_effect=error))
            with pytest.raises(StorageFailure if error is ValueError else error):
                campaign.ask(worker="a")
        for _ in range(2):  # an episode is missing in its counts
            with pytest.raises(StorageFailure, match=r"by half|recorded episode is not one"):
                campaign.ask(worker="a")
    with Campaign.open(tmp_path / "arm.db") as campaign:
        assert campaign.ask(worker="a").number == 3
        assert campaign.verify().holds
