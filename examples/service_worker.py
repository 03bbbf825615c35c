"""A worker of a fleet: asks a service what to run, runs it, tells what happened, until nothing is left to do.

Start a service and make a token first (docs/service.md):

    safe2real serve token add cell-3 --role worker --at campaigns
    safe2real serve campaigns
    SAFE2REAL_TOKEN=s2r_... python examples/service_worker.py http://127.0.0.1:8080/campaigns/arm
"""

import sys

from safe2real.client import RemoteCampaign
from safe2real.errors import Halted, Stopped


def run(policy):
    """One episode on the machine: put yours here. This one stays in state 0 for as long as the policy is long."""
    actions = [int(policy.actions[step, 0]) for step in range(policy.horizon)]
    return {"states": [0] * (len(actions) + 1), "actions": actions}


def main(url, episodes=None):
    with RemoteCampaign(url) as campaign:  # the token is in SAFE2REAL_TOKEN
        while episodes is None or episodes > 0:
            try:
                deployment = campaign.ask()  # after a crash: the same one again
            except Stopped:
                return print("the model is accurate enough: nothing is left to run")
            except Halted as why:
                return print(f"STOP THE MACHINE: {why}")
            receipt = campaign.tell(deployment.id, run(deployment.policy))
            episodes = None if episodes is None else episodes - 1
            print(deployment.id, deployment.certificate.standing, "recorded" if receipt.new else "was recorded before")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
