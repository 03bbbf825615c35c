"""The episodes of one campaign for another: after a refutation nobody has to roll them out again.

Problem: a campaign whose margin, support or gap was refuted is over, and what it collected was expensive. A new campaign
with other assumptions takes all of it in as logs, one for each policy that was run, in one step: which policies were run and
how often followed from earlier episodes, so the logs of only some of them are a biased sample. What was abandoned was seen
by nobody and is no part of them: certificates of the new campaign assume that it was not given up because of what happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.history import Episode, episodes_of
from safe2real.campaign.import_log import Overlap, import_logs
from safe2real.errors import Conflict, InvalidInput
from safe2real.exploration.episode_log import fitted_refusal
from safe2real.model.policy import carried_out
from safe2real.model.serialization import fingerprint


@dataclass(frozen=True, slots=True)
class CarriedOver:
    """What a campaign took in of another."""

    campaign: str  # the name of the other
    policies: int  # logs, one for each policy that was run there
    episodes: int  # that were not taken in before
    samples: int


def carry_over(into: Campaign, earlier: Campaign, *, overlap: Overlap | str = Overlap.REFUSE) -> CarriedOver:
    """Import every episode that was told to, or imported into, `earlier`; done again, it adds what has come since.

    Both campaigns must be about one real system in one numbering. Episodes keep the ids of their deployments, so none is
    counted twice. It is all or none, and counted in one step.

    Args:
        into: the campaign that goes on.
        earlier: the one whose episodes are taken; it is only read.
        overlap: "count" says that episodes which look like ones that the simulator of `into` was estimated from, or that
            have no id and look like recorded ones, are others; certificates then say so.

    Returns:
        How much there was.

    Raises:
        InvalidInput: the two are not about systems of one size, or are one and the same; or `overlap` is "skip".
        Conflict: an episode is a deployment of `into` itself, or its id names another one there; or the simulator of `into`
            was estimated from episodes that look like these.
    """
    here, there = into.problem.simulator, earlier.problem.simulator
    if overlap not in (Overlap.REFUSE, Overlap.COUNT):
        raise InvalidInput(f"overlap is {overlap!r}; give 'refuse' or 'count': what is here already is left out")
    if into.name == earlier.name:
        raise InvalidInput(f"{into.name} is the campaign itself; give another one, whose episodes are to be taken over")
    sizes = [(model.steps, model.num_states, model.num_actions) for model in (here, there)]
    if sizes[0] != sizes[1]:
        raise InvalidInput(
            f"episodes of {earlier.name} have (steps, states, actions) = {sizes[1]}, those of {into.name} {sizes[0]}; only "
            "episodes of the same system can be taken over"
        )
    had = {episode.deployment or episode.id for episode in episodes_of(into.name, into.events(), here)}
    logs: dict[tuple[str, bool], list[Episode]] = {}  # by policy, and whether they have ids
    for episode in episodes_of(earlier.name, earlier.events(), there):
        if _id_of(earlier, episode) not in had:
            named = bool(episode.deployment or episode.id)
            logs.setdefault((episode.policy, named), []).append(episode)
    if overlap != Overlap.COUNT:
        _refuse_fitted(into, [episode for log in logs.values() for episode in log])
    if not logs:
        return CarriedOver(earlier.name, 0, 0, 0)
    policies, numbers = earlier.stored_policies(), [episode.number for log in logs.values() for episode in log]
    given = [
        (
            carried_out(policies[digest], there),  # either of the two may count its end
            [_content(earlier, episode) for episode in log],
            # By their ids they are other episodes than those that were told here, however alike they look. Of a log without
            # ids nobody knows whether it was imported into both.
            Overlap.COUNT if named else overlap,
        )
        for (digest, named), log in logs.items()
    ]
    receipt = import_logs(into._record, f"{earlier.name}/{min(numbers)}-{max(numbers)}", given, partial=True)
    return CarriedOver(earlier.name, len({policy for policy, _ in logs}), len(numbers), receipt.samples)


def _refuse_fitted(into: Campaign, episodes: list[Episode]) -> None:
    """Refuse episodes from which the simulator of `into` was estimated, before the first log is imported."""
    fitted = into.problem.fitted_episodes()
    alike = sum(fingerprint(one.states, one.actions) in fitted for one in episodes) if fitted else 0
    if alike:
        fix = "Create the new campaign with the earlier simulator, or with one that was not estimated from these episodes"
        raise Conflict(fitted_refusal(alike, len(episodes), fix))


def _id_of(earlier: Campaign, episode: Episode) -> str:
    """That of its deployment, wherever it was told first; an imported one without an id is named by its place."""
    return episode.deployment or episode.id or f"{earlier.name}, episode {episode.number}"


def _content(earlier: Campaign, episode: Episode) -> dict[str, Any]:
    left = {"left_model": True} if episode.left_model else {}
    return {"states": list(episode.states), "actions": list(episode.actions), "id": _id_of(earlier, episode), **left}
