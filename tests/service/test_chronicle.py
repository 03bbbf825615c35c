"""The course of a campaign as pages show it: in the user's words, thinned, and read once."""

import numpy as np
import pytest

import safe2real as s2r
from safe2real.campaign.history import entries_of
from safe2real.campaign.journal import MemoryJournal
from safe2real.errors import InvalidInput
from safe2real.service import chronicle
from safe2real.service.calls import Call
from safe2real.service.tokens import Caller, Role
from tests.campaign.systems import System, run_rounds, three_states

AUDITOR = Caller("eve", Role.AUDITOR)


@pytest.fixture
def system():
    """The three states, with the constraint written as a cost."""
    given = three_states()
    model = given.specification.simulator
    falls = s2r.AtMost([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]], 2.5, "falls")
    costly = s2r.CMDP.of(model.kernel, model.horizon, 0, falls)
    problem = s2r.Problem(costly, given.specification.baseline, given.specification.settings)
    return System(problem, costly.with_kernel(given.real.kernel))


@pytest.fixture
def campaign(system):
    with s2r.Campaign.create(MemoryJournal(), system.specification) as made:
        yield made


def course(campaign, **query):
    return chronicle.course(campaign, Call(AUDITOR, query=query))


def deployments(campaign, **query):
    return chronicle.deployments(campaign, Call(AUDITOR, query=query))


def test_the_course_is_what_was_recorded_in_the_users_words(campaign, system):
    run_rounds(campaign, system, 30)
    found = course(campaign)
    entries = entries_of(campaign.name, campaign.events(), system.specification.simulator)
    (falls,) = found["constraints"]
    assert (falls["name"], falls["relation"], falls["limit"]) == ("falls", "<=", 2.5)
    assert found["number"] == [entry.number for entry in entries]
    assert falls["proved"] == pytest.approx([4.0 - entry.body.lower_bounds[0] for entry in entries])
    told = [event for event in campaign.events() if event.kind == "tell"]
    counted = [sum(state == 2 for state in s2r.model.encoding.from_text(event.body, "")["states"][:4]) for event in told]
    assert falls["observed"] == pytest.approx(counted)
    assert falls["observed_mean"] == pytest.approx(np.mean(counted))
    assert falls["observed_count"] == 30


def test_only_what_is_new_is_read(campaign, system, monkeypatch):
    run_rounds(campaign, system, 5)
    assert course(campaign)["total"] == 5
    taken = []
    monkeypatch.setattr(chronicle.Chronicle, "take", lambda _, events: taken.extend(events))
    run_rounds(campaign, system, 1)
    course(campaign)
    assert [event.kind for event in taken] == ["ask", "tell"]


def test_a_part_of_an_episode_is_no_observation(campaign, system):
    deployment = campaign.ask(worker="one")
    episode = system.episode(deployment)
    part = s2r.Trajectory.of(system.real, episode.states[:3], episode.actions[:2], partial=True)
    campaign.tell(deployment.id, part, partial=True)
    (falls,) = course(campaign)["constraints"]
    assert (falls["observed"], falls["observed_mean"], falls["observed_count"]) == ([None], None, 0)
    assert deployments(campaign)["deployments"][0]["outcome"] == "cut short"


def test_given_up_deployments_are_listed_newest_first_with_their_reasons(campaign):
    for worker in ("one", "two", "three"):
        campaign.abandon(campaign.ask(worker=worker).id, f"{worker} lost its power")
    campaign.ask(worker="four")
    found = deployments(campaign, outcome="abandoned,withdrawn", limit="2")
    assert found["total"] == 3
    assert [one["why_given_up"] for one in found["deployments"]] == ["three lost its power", "two lost its power"]
    assert deployments(campaign, outcome="out")["deployments"][0]["worker"] == "four"
    with pytest.raises(InvalidInput, match="outcome is 'gone'"):
        deployments(campaign, outcome="gone")


def test_thinning_keeps_what_stands_out():
    values = np.zeros(100_000)
    values[[77, 50_123]] = [-1.0, 9.0]
    with_gaps = np.where(np.arange(100_000) % 2, np.nan, 0.5)
    with_gaps[70_000] = 3.0
    kept = chronicle.thinned([values, with_gaps], 100_000, 200)
    assert {0, 77, 50_123, 70_000, 99_999} <= set(kept.tolist())
    assert len(kept) <= 4 * 200 + 2
    assert chronicle.thinned([values], 100, 200).tolist() == list(range(100))
