"""One contract for both: a campaign here, and the same one behind a service, record and answer alike."""

import inspect
from dataclasses import asdict, replace

import numpy as np
import pytest

from safe2real import MarkovPolicy, Trajectory
from safe2real.campaign import Campaign
from safe2real.client import RemoteCampaign
from safe2real.client.remote import LEFT_OUT
from safe2real.errors import Conflict, InvalidInput, StorageFailure
from safe2real.methods import ForRewards
from safe2real.service.campaign_pool import Service
from safe2real.service.storage import places_at
from tests.campaign.systems import three_states
from tests.service.servers import listening

REWARD = np.array([[0.0, 1.0], [0.0, 0.5], [0.0, 0.0]])


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    service = Service(places_at(str(tmp_path_factory.mktemp("campaigns"))))
    token = service.tokens.add("ann", "operator")
    with listening(service) as url:
        yield url, token


@pytest.fixture
def pair(service, tmp_path, request):
    """The same campaign twice: here, and behind the service."""
    url, token = service
    name = f"c{abs(hash(request.node.name))}"
    problem = three_states().specification
    with (
        Campaign.create(tmp_path / "here.db", problem) as here,
        RemoteCampaign.create(f"{url}/campaigns/{name}", problem, token) as there,
    ):
        yield here, there


def bare(value):
    """A result without what differs between two campaigns of the same problem: names, times and digests."""
    document = asdict(value) if not isinstance(value, list) else [bare(one) for one in value]
    if isinstance(document, dict):
        for key in ("id", "at", "name", "head", "held", "waiting_for", "overdue", "notices"):
            document.pop(key, None)
    return document


def same(here, there):
    np.testing.assert_equal(bare(there), bare(here))


def test_ask_tell_and_everything_that_is_read_are_the_same(pair):
    here, there = pair
    for _ in range(3):
        asked = [one.ask(worker="cell") for one in pair]
        assert asked[0].certificate.describe() == asked[1].certificate.describe()
        assert asked[0].reason is asked[1].reason
        assert asked[0].policy.actions.tolist() == asked[1].policy.actions.tolist()
        assert asked[0].mixture.weights.tolist() == asked[1].mixture.weights.tolist()
        assert asked[0].uncertainty == asked[1].uncertainty
        assert [one.ask(worker="cell").id for one in pair] == [one.id for one in asked]  # until it is told
        told = three_states().episode(asked[0])
        for one, deployment in zip(pair, asked, strict=True):
            first, again = (one.tell(deployment.id, told, worker="cell") for _ in range(2))
            assert (first.new, again.new, first.samples) == (True, False, 4)
    same(here.status(), there.status())
    assert there.status().forecast.rounds == here.forecast().rounds == there.forecast().rounds
    found = [one.mismatch_map() for one in pair]
    for name in ("visits", "distance", "lower", "upper", "verdict", "visits_needed"):
        np.testing.assert_array_equal(getattr(found[0], name), getattr(found[1], name))
    assert found[0].certified == found[1].certified
    plans = [one.plan(REWARD) for one in pair]
    assert plans[0].value == plans[1].value
    assert plans[0].bound == plans[1].bound
    assert plans[0].certificate.describe() == plans[1].certificate.describe()
    assert here.assurance().describe() == there.assurance().describe()
    seen = []
    ledgers = [here.verify(), there.verify(progress=lambda *one: seen.append(one))]
    same(*ledgers)
    assert ledgers[1].holds
    assert there.problem.settings == here.problem.settings


def public(kind, instance):
    """Every public name of a class and of its objects."""
    return {name for name in (*dir(kind), *vars(instance)) if not name.startswith("_")}


def test_all_of_a_campaign_is_there_or_named_with_the_reason(pair):
    here, there = pair
    missing = public(Campaign, here) - public(RemoteCampaign, there)
    for name in public(Campaign, here) & set(dir(RemoteCampaign)):
        local, remote = getattr(Campaign, name, None), getattr(RemoteCampaign, name)
        if inspect.isroutine(local):
            missing |= set(inspect.signature(local).parameters) - set(inspect.signature(remote).parameters) - {"place"}
    missing |= {"solution"} if there.plan(REWARD).solution is None else set()
    assert missing == set(LEFT_OUT)
    assert all(LEFT_OUT.values())


def test_the_record_and_what_comes_next(pair):
    here, there = pair
    for one in pair:
        deployment = one.ask(worker="cell")
        one.tell(deployment.id, three_states().episode(deployment))
    mine, theirs = (one.events() for one in pair)
    assert [(event.kind, event.deployment) for event in mine] == [(event.kind, event.deployment) for event in theirs]
    assert theirs[0].digest == theirs[0].digest_after("")
    assert here.stored_policies().keys() == there.stored_policies().keys() != set()
    for digest, policy in there.stored_policies().items():
        np.testing.assert_equal(asdict(policy), asdict(here.stored_policies()[digest]))
    proposals = [one.proposal() for one in pair]
    for name in ("round", "reason", "exploration_weight", "uncertainty", "coin", "drawn"):
        assert getattr(proposals[0], name) == getattr(proposals[1], name)
    assert proposals[0].certificate.describe() == proposals[1].certificate.describe()
    assert proposals[0].mixture.weights.tolist() == proposals[1].mixture.weights.tolist()
    assert len(there.events()) == len(theirs)  # nothing was recorded by looking
    assert there.name == there.status(forecast=False).name
    assert there.format == here.format
    assert repr(there.method) == repr(here.method)
    fresh = [one.fresh_learner() for one in pair]
    assert repr(fresh[0]) == repr(fresh[1])
    with RemoteCampaign.open(f"{there._transport.address}", there._transport._headers["Authorization"][7:]) as again:
        assert again.name == there.name


def test_batches_abandonments_and_force(pair):
    for one in pair:
        first, second = one.ask_batch(2, worker="a")
        assert one.abandon(first.id, "power", worker="a").new
        assert not one.abandon(first.id, "power", worker="a").new
        path = three_states().episode(second)
        with pytest.raises(Conflict, match="is held by 'a', not by 'b'"):
            one.tell(second.id, path, worker="b")
        assert one.tell(second.id, path, worker="b", force="a was replaced").new
        held = [deployment.id for deployment in one.ask_batch(2, worker="gone")]
        assert one.abandon_all("gone", "dismantled") == held
    same(*(one.status(forecast=False) for one in pair))


def test_episodes_that_left_the_model_or_were_cut_short(pair):
    for one in pair:
        deployment, other = one.ask_batch(2, worker="a")
        action = int(deployment.policy.actions[0, 0])
        cut = Trajectory.of(three_states().specification.simulator, [0, 0], [action], partial=True)
        assert one.tell(deployment.id, cut, partial=True).samples == 1
        assert one.tell(other.id, ([0], [int(other.policy.actions[0, 0])]), left_model=True).new
        status = one.status(forecast=False)
        assert (status.cut_short, status.left_model, status.standing) == (1, 1, "refuted")
    assert pair[0].assurance().describe() == pair[1].assurance().describe()


def test_logs(pair):
    logs = [{"states": [0, 0, 0, 0, state], "actions": [0, 0, 0, 0], "id": f"e{state}"} for state in (0, 1)]
    for one in pair:
        baseline = three_states().specification.baseline
        assert one.import_log("january", baseline, logs).samples == 8
        assert not one.import_log("january", baseline, logs).new
        with pytest.raises(Conflict, match="another log was imported as 'january'"):
            one.import_log("january", baseline, logs[:1])
        assert one.import_log("more", baseline, logs, overlap="skip").skipped == 2
        model = three_states().specification.simulator
        again = [Trajectory.of(model, [0] * 5, [0] * 4, seed=7)] * 2
        with pytest.raises(Conflict, match="the first is 7: the environment repeated itself"):
            one.import_log("repeated", baseline, again, overlap="count")
    same(*(one.status(forecast=False) for one in pair))


def test_a_baseline_without_its_margin_on_the_simulator_is_refused_unless_somebody_knows_better(service, tmp_path):
    problem, (url, token) = three_states().specification, service
    lost = replace(problem, baseline=MarkovPolicy.deterministic([1, 1, 1], num_actions=2, horizon=4))
    place = f"{url}/campaigns/lost"
    for create in (lambda **said: Campaign.create(tmp_path / "lost.db", lost, **said),
                   lambda **said: RemoteCampaign.create(place, lost, token, **said)):  # fmt: skip
        with pytest.raises(InvalidInput, match="less than the stated"):
            create()
        create(trust_margin=True).close()


def test_what_is_refused_here_is_refused_there_with_the_same_words(pair):
    calls = (
        lambda one: one.ask(worker=""),
        lambda one: one.ask_batch(0, worker="a"),
        lambda one: one.tell("00000000-1-000000", ([0] * 4, [0] * 4), left_model=True),
        lambda one: one.abandon(one.ask(worker="a").id, "\x00"),
        lambda one: one.plan([[2.0, 0.0]] * 3),
        lambda one: one.declare({"pick": REWARD}),
        lambda one: one.tell(one.ask(worker="a").id, {"states": []}),
    )
    for call in calls:
        said = []
        for one in pair:
            with pytest.raises(InvalidInput) as refused:
                call(one)
            name = one.status(forecast=False).name
            said.append(str(refused.value).replace(name, "NAME"))
        assert said[0] == said[1]


def test_a_worker_tells_states_and_actions_without_a_model(pair):
    for one in pair:
        for kind in (list, tuple, np.array):
            deployment = one.ask(worker="a")
            path = three_states().episode(deployment)
            told = one.tell(deployment.id, (kind(path.states.tolist()), kind(path.actions.tolist())))
            assert (told.new, told.samples) == (True, 4)
            assert not one.tell(deployment.id, path).new  # the same episode
        id = one.ask(worker="a").id
        for wrong, kind in (([[0, 0], [0]], "a list"), (([0], [0], [0]), "a tuple of 3"), (7, "a int")):
            with pytest.raises(InvalidInput, match=rf"the episode is {kind}; give the pair \(states, actions\)") as refused:
                one.tell(id, wrong)
            assert "model," not in str(refused.value)  # a worker has none
        with pytest.raises(InvalidInput):
            one.tell(id, ([[0], [0, 1]], [0]))


def test_what_an_episode_holds_is_not_what_is_done_with_it(pair):
    for one in pair:
        deployment = one.ask(worker="a")
        told = three_states().episode(deployment)
        episode = {"states": told.states.tolist(), "actions": told.actions.tolist()}
        for key in ("force", "worker", "partial"):
            with pytest.raises(InvalidInput, match=r"the episode .* key"):
                one.tell(deployment.id, {**episode, key: "mine"})
        assert one.tell(deployment.id, episode).new


def test_declared_rewards(service, tmp_path):
    url, token = service
    stated, method = three_states().specification, ForRewards({"pick": REWARD}, accuracy=0.5)
    problem = replace(stated, settings=replace(stated.settings, robust_safety=True))
    with (
        Campaign.create(tmp_path / "here.db", problem, method=method) as here,
        RemoteCampaign.create(f"{url}/campaigns/declared", problem, token, method=method) as there,
    ):
        for one in (here, there):
            assert one.declare({"place": 1.0 - REWARD}, drop=["pick"]).new
        same(*(one.status(forecast=False) for one in (here, there)))
        with pytest.raises(Conflict, match="holds a campaign already"):
            RemoteCampaign.create(f"{url}/campaigns/declared", problem, token)
        RemoteCampaign.create(f"{url}/campaigns/declared", problem, token, method=method, exist_ok=True).close()


def test_who_calls_is_who_the_token_is_of(pair):
    _, there = pair
    assert there.by == "ann"
    assert "ann" not in repr(there)


def test_no_service_and_no_token(service):
    url, token = service
    with pytest.raises(StorageFailure, match="does not answer"):
        RemoteCampaign("http://127.0.0.1:9/campaigns/arm", token, patience=0.2).ask(worker="a")
    with pytest.raises(InvalidInput, match="this needs a token that is valid"):
        RemoteCampaign(f"{url}/campaigns/arm", "s2r_wrong").ask(worker="a")
    with pytest.raises(InvalidInput, match="no campaign of this name"):
        RemoteCampaign(f"{url}/campaigns/nowhere", token).status()


ADDRESSES = (
    "",
    "ftp://x/campaigns/a",
    "http://x",
    "https://u:p@x/campaigns/a",
    "https://x/campaigns/a?token=1",
    None,
    "https://[x/campaigns/a",
    "https://x:y/campaigns/a",
)


@pytest.mark.parametrize("url", ADDRESSES)
def test_addresses_that_are_none(url):
    with pytest.raises(InvalidInput, match="the campaign's address"):
        RemoteCampaign(url, "t")


def test_a_token_does_not_travel_in_the_clear_and_is_not_shown():
    with pytest.raises(InvalidInput, match="would carry the token in the clear"):
        RemoteCampaign("http://fleet.example/campaigns/arm", "t")
    with pytest.raises(InvalidInput) as refused:
        RemoteCampaign("https://fleet.example/campaigns/arm", "s2r secret")
    assert "secret" not in str(refused.value)
