"""The page of a campaign for declared rewards shows their intervals as data came in."""

from dataclasses import replace

import numpy as np

import safe2real as s2r
from safe2real.campaign.journal import MemoryJournal
from safe2real.exploration import roll_out
from safe2real.plots.rewards import draw_rewards
from safe2real.report.campaign_report import write_campaign_report
from safe2real.testing.systems import random_case


def test_every_declared_reward_has_a_panel_and_the_page_shows_them(tmp_path):
    case = random_case(2)
    rewards = {"goal": np.eye(4)[:, :2], "all alike": np.ones((4, 2))}
    method = s2r.methods.ForRewards(rewards, accuracy=0.01)
    with s2r.Campaign.create(MemoryJournal(), case.problem, method=method, trust_margin=True) as campaign:
        for _ in range(6):
            deployment = campaign.ask(worker="arm")
            episode = roll_out(case.reality, deployment.policy, seed=1, round_number=deployment.number)
            campaign.tell(deployment.id, episode)
        page = write_campaign_report(campaign, tmp_path / "page.html", forecast=False).read_text()
        learner = campaign.fresh_learner()
    assert "<h2>Declared rewards</h2>" in page
    moments = [(0, learner.intervals()), (6, learner.intervals())]
    titles = [axes.get_title() for axes in draw_rewards(moments).axes]
    assert [title.split(":")[0] for title in titles] == ["all alike", "goal"]
    assert "accurate enough" in titles[0]  # every policy is worth the same
    exact = replace(learner.intervals()[0], lower=2.0 / 3.0, upper=4.0 / 3.0)
    (title,) = [axes.get_title() for axes in draw_rewards([(0, [exact])]).axes]
    assert ": 0.666666 to 1.33334 (" in title  # what is certain, and no more


def test_a_campaign_without_declared_rewards_has_no_such_part(tmp_path):
    case = random_case(2)
    with s2r.Campaign.create(MemoryJournal(), case.problem, trust_margin=True) as campaign:
        deployment = campaign.ask(worker="arm")
        campaign.tell(deployment.id, roll_out(case.reality, deployment.policy, seed=1, round_number=1))
        page = write_campaign_report(campaign, tmp_path / "page.html", forecast=False).read_text()
    assert "Declared rewards" not in page
