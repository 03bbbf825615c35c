"""Choose the next deployment from the data, and plan policies from them."""

from safe2real.exploration.certificate import Certificate
from safe2real.exploration.explore import ExploreEvent, explore
from safe2real.exploration.learner import Learner, load_learner
from safe2real.exploration.plan import Origin, Plan, load_plan
from safe2real.exploration.policy_trial import PolicyTrial, TrialTerms, Turn, trial_run
from safe2real.exploration.proposal import Proposal
from safe2real.exploration.simulate import Run, collect, roll_out, simulate, simulate_many

__all__ = [
    "Certificate",
    "ExploreEvent",
    "Learner",
    "Origin",
    "Plan",
    "PolicyTrial",
    "Proposal",
    "Run",
    "TrialTerms",
    "Turn",
    "collect",
    "explore",
    "load_learner",
    "load_plan",
    "roll_out",
    "simulate",
    "simulate_many",
    "trial_run",
]
