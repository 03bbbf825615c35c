"""A campaign takes over all that another has collected, once."""

import pytest

from safe2real.campaign import Campaign, carry_over
from safe2real.errors import Conflict, InvalidInput
from safe2real.exploration import roll_out
from safe2real.testing.systems import random_case
from tests.cli.driving import campaign as command
from tests.cli.driving import done

CASE = random_case(1)


def started(path, episodes, *, seed=3):
    with Campaign.create(path, CASE.problem) as campaign:
        for number in range(episodes):
            one = campaign.ask(worker="arm")
            campaign.tell(one.id, roll_out(CASE.reality, one.policy, seed=seed, round_number=number))


def samples_of(campaign):
    return campaign.status(forecast=False).samples


def test_nothing_is_lost_and_nothing_counts_twice(tmp_path):
    started(tmp_path / "old.db", 12)
    with Campaign.open(tmp_path / "old.db") as old:
        log = [roll_out(CASE.reality, CASE.problem.baseline, seed=9, round_number=i) for i in range(5)]
        old.import_log("archive", CASE.problem.baseline, log, overlap="count")
        given_up = old.ask(worker="arm")
        old.abandon(given_up.id, "gripper lost", worker="arm")
        with Campaign.create(tmp_path / "new.db", CASE.problem) as new:
            own = new.ask(worker="arm")
            new.tell(own.id, roll_out(CASE.reality, own.policy, seed=1, round_number=1))
            found = carry_over(new, old)
            assert (found.campaign, found.episodes) == (old.name, 17)
            assert found.samples == samples_of(old)
            assert samples_of(new) - samples_of(old) == own.policy.horizon
            again = carry_over(new, old)
            assert (again.episodes, again.samples) == (0, 0)
            late = old.ask(worker="arm")
            old.tell(late.id, roll_out(CASE.reality, late.policy, seed=3, round_number=99))
            assert carry_over(new, old).episodes == 1
            assert new.verify().holds


def test_a_campaign_of_another_size_or_itself_is_refused(tmp_path):
    started(tmp_path / "old.db", 1)
    with Campaign.open(tmp_path / "old.db") as old, pytest.raises(InvalidInput, match="is the campaign itself"):
        carry_over(old, old)


def test_it_is_a_command(tmp_path):
    started(tmp_path / "old.db", 6)
    Campaign.create(tmp_path / "new.db", CASE.problem).close()
    assert done("import", tmp_path / "new.db", "--from", tmp_path / "old.db")["episodes"] == 6
    assert command("import", tmp_path / "new.db").error == "invalid-input"


def test_no_way_round_counts_an_episode_twice(tmp_path):
    for name, episodes, seed in (("first.db", 6, 3), ("second.db", 4, 4)):
        started(tmp_path / name, episodes, seed=seed)
    Campaign.create(tmp_path / "third.db", CASE.problem).close()
    with (
        Campaign.open(tmp_path / "first.db") as first,
        Campaign.open(tmp_path / "second.db") as second,
        Campaign.open(tmp_path / "third.db") as third,
    ):
        carry_over(second, first)
        carry_over(third, second)
        assert carry_over(third, first).episodes == 0
        assert carry_over(first, second).episodes == 4  # its own come back and are left out
        assert samples_of(first) == samples_of(second) == samples_of(third)
        log = [roll_out(CASE.reality, CASE.problem.baseline, seed=11, round_number=i) for i in range(30)]
        for one in (first, third):
            one.import_log("the same unnamed log", CASE.problem.baseline, log, overlap="count")
        with pytest.raises(Conflict):
            carry_over(third, first)
