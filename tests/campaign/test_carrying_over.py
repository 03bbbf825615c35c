"""A campaign takes over all that another has collected, once."""

import numpy as np
import pytest

import safe2real as s2r
from safe2real.campaign import Campaign, carry_over
from safe2real.campaign.events import ImportBody
from safe2real.errors import Conflict, InvalidInput
from safe2real.exploration import roll_out
from safe2real.testing.systems import random_case
from tests.cli.commands import campaign as command
from tests.cli.commands import done

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


# In which order


def wrong_row(policies):
    """(problem, policies): action 1 leads over with probability 0.7 in truth and 0.3 in the simulator: its row is wrong."""
    table = np.zeros((2, 2, 2))
    table[:, 0, 0] = 1.0
    table[:, 1] = [0.7, 0.3]
    model = s2r.CMDP.of(s2r.Kernel.from_dense(table), 1, 0, s2r.AtLeast(np.ones((2, 2)), 0.5))
    settings = s2r.Settings(margin=0.4, calibrated_gap=0.0, mismatch_gap=0.4, tolerance=0.1, delta=0.3)
    baseline = s2r.MarkovPolicy.uniform(horizon=1, num_states=2, num_actions=2)
    chosen = [s2r.MarkovPolicy.stochastic(np.full((1, 2, 2), [p, 1.0 - p])) for p in np.linspace(0.001, 0.1, policies)]
    return s2r.Problem(model, baseline, settings), chosen


def adaptive_logs(policies, rng):
    """A user who drops each policy as soon as what it showed looks like the simulator, or after 30 episodes."""
    logs = []
    for policy in policies:
        acts = rng.random(30) < policy.probabilities[0, 0, 1]
        over = acts & (rng.random(30) < 0.7)
        end = 20 if over[:20].sum() <= 7 else 30
        log = [{"states": [0, int(o)], "actions": [int(a)]} for a, o in zip(acts[:end], over[:end], strict=True)]
        logs.append((policy, log, over[:end].sum() / end))
    return logs


def test_logs_that_a_user_chose_by_each_other_clear_no_wrong_row_in_one_step():
    problem, policies = wrong_row(300)
    alone, together = 0, 0
    for seed in range(6):
        logs = adaptive_logs(policies, np.random.default_rng(seed))
        policy, log, _ = min(logs, key=lambda one: one[2])
        first, all_of_them = s2r.Learner(problem), s2r.Learner(problem)
        first.import_episodes(policy, log)  # what an import one by one concludes before the others come
        alone += not first.evidence.suspects[0, 1]
        all_of_them.import_logs([(policy, log) for policy, log, _ in logs], overlap="count")
        together += not all_of_them.evidence.suspects[0, 1]
    assert alone >= 2  # the attack would work
    assert together == 0


def suspected(campaign):
    return bool(campaign.record.catch_up().learner.evidence.suspects[0, 1])


def test_a_campaign_counts_what_it_takes_over_in_one_step(tmp_path):
    """The same record with the luckiest log first: nothing is concluded from that one alone."""
    problem, policies = wrong_row(40)
    logs = adaptive_logs(policies, np.random.default_rng(2))
    policy, log, _ = min(logs, key=lambda one: one[2])
    lucky = [{"states": [0, int(i < 5)], "actions": [1]} for i in range(20)]
    with Campaign.create(tmp_path / "old.db", problem) as old, Campaign.create(tmp_path / "new.db", problem) as new:
        old.import_log("first", policy, lucky)
        assert not suspected(old)
        for number, (policy, log, _) in enumerate(logs):
            old.import_log(f"log {number}", policy, log, overlap="count")
        found = carry_over(new, old)
        assert (found.policies, found.episodes) == (40, len(lucky) + sum(len(log) for _, log, _ in logs))
        assert suspected(new)
        imports = [ImportBody.read(event) for event in new.events() if event.kind == "import"]
        assert {body.log for body in imports} == {imports[0].log}
        assert [body.part for body in imports] == list(range(1, imports[0].parts + 1))
        assert new.verify().holds
        with pytest.raises(InvalidInput, match="1 ids are there twice, the first is 'b'"):
            new.import_logs("b", [(one, [{"states": [0, 1], "actions": [1], "id": "b"}]) for one in policies[:2]])
        with pytest.raises(Conflict, match="another log of the same import"):
            new.import_logs("c", [(one, [{"states": [1, 0], "actions": [0]}]) for one in policies[:2]])
        with pytest.raises(InvalidInput, match=r"logs\[0\] is 3; give pairs"):
            new.import_logs("d", [3])
    with Campaign.open(tmp_path / "new.db") as again:
        assert suspected(again)
