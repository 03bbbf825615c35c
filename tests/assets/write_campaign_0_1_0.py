"""How campaign-0.1.0.db was written: by the code of release 0.1.0, whose record later releases must open, continue, verify.

Run it with that release on the path, and with the name of the file to write:

    PYTHONPATH=<checkout of 0.1.0>/src python tests/assets/write_campaign_0_1_0.py campaign-0.1.0.db
"""

import sys

import numpy as np
from safe2real.explore import roll_out

import safe2real as s2r
from safe2real.campaign import Campaign, Deployment, Specification

SIMULATOR = np.array(
    [
        [[0.9, 0.1, 0.0], [0.3, 0.6, 0.1]],
        [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]],
        [[0.2, 0.0, 0.8], [0.0, 0.0, 1.0]],
    ]
)
REALITY = SIMULATOR.copy()
REALITY[1, 1] = [0.5, 0.5, 0.0]
UPRIGHT = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
MODEL = s2r.CMDP.of(s2r.Kernel.from_dense(SIMULATOR), 4, 0, s2r.AtLeast(UPRIGHT, 1.5, "upright"))
REAL = MODEL.with_kernel(s2r.Kernel.from_dense(REALITY))
BASELINE = s2r.MarkovPolicy.deterministic([0, 0, 0], num_actions=2, horizon=4)
SETTINGS = s2r.Settings(margin=1.5, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.3, seed=5)


def episode(policy: s2r.MarkovPolicy, number: int) -> s2r.Trajectory:
    return roll_out(REAL, policy, seed=3, round_number=number)


def tell(campaign: Campaign, deployment: Deployment, steps: int = 4) -> None:
    whole = episode(deployment.policy, deployment.number)
    seen = s2r.Trajectory.of(MODEL, whole.states[: steps + 1], whole.actions[:steps], partial=True)
    campaign.tell(deployment.id, seen, partial=True)


def write(place: str) -> None:
    with Campaign.create(place, Specification(MODEL, BASELINE, SETTINGS)) as campaign:
        campaign.import_log("last year", BASELINE, [episode(BASELINE, 10_000 + i) for i in range(40)])
        for _ in range(12):
            tell(campaign, campaign.ask(worker="arm")[0])
        left, right = campaign.ask(worker="left", n=2), campaign.ask(worker="right", n=2)
        tell(campaign, right[1])
        tell(campaign, left[0], steps=2)
        campaign.import_log("while others are out", BASELINE, [episode(BASELINE, 20_000 + i) for i in range(5)])
        campaign.abandon(left[1].id, "power cut")
        campaign.abandon(right[0].id, "gripper replaced")
        tell(campaign, left[1])  # late
        for _ in range(8):
            tell(campaign, campaign.ask(worker="arm")[0])
        first, second = campaign.ask(worker="left")[0], campaign.ask(worker="right")[0]
        tell(campaign, second)  # waits for the first, which is out
        status, ledger = campaign.status(forecast=False), campaign.verify()
        print(first.id, status, ledger.describe(), [event.kind for event in campaign.events()], sep="\n")


if __name__ == "__main__":
    write(sys.argv[1])
