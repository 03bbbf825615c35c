"""A campaign's record for other tools: CSV, JSON, Minari."""

from __future__ import annotations

import csv
import math
import shutil
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.files import whole_file
from safe2real.campaign.history import Entry, Episode, entries_of, episodes_of
from safe2real.campaign.replay import Replay
from safe2real.errors import Conflict, InvalidInput
from safe2real.evidence.mismatch_map import MismatchMap, Verdict, map_mismatch
from safe2real.model.cmdp import CMDP
from safe2real.model.serialization import from_text, to_text
from safe2real.model.trajectory import utilities_along
from safe2real.tables import spreadsheet_safe
from safe2real.version import __version__

if TYPE_CHECKING:
    from minari import MinariDataset

_NO_MINARI = "the Minari package is not installed; get it with: pip install 'safe2real[minari]'"


def export_csv(campaign: Campaign, folder: Path) -> list[Path]:
    """Write transitions.csv, deployments.csv and mismatch.csv into `folder`; files of that name are replaced.

    All files describe the same moment. Steps, states and actions count from 0; a cell without a value is empty. A text that
    a spreadsheet would run as a formula (it begins with =, +, -, @) gets an apostrophe; JSON has it unchanged.

    Args:
        campaign: to export.
        folder: created if missing.

    Returns:
        The paths of the three files.

    Raises:
        InvalidInput: `folder` cannot be created.
    """
    events = campaign.events()
    replay = Replay(campaign.fresh_learner())
    for event in events:
        replay.apply(event)
    model = campaign.problem.simulator
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"{folder} cannot be a folder ({error}); give another place for the tables") from error
    tables = {
        "transitions.csv": _transitions(episodes_of(campaign.name, events, model)),
        "deployments.csv": _deployments(entries_of(campaign.name, events, model), model),
        "mismatch.csv": _mismatch(map_mismatch(replay.learner.evidence)),
    }
    for name, rows in tables.items():
        with whole_file(folder / name) as file:
            csv.writer(file).writerows([spreadsheet_safe(cell) for cell in row] for row in rows)
    return [folder / name for name in tables]


def export_json(campaign: Campaign, path: Path) -> Path:
    """Write the whole record as one JSON document, which other programs can verify.

    Bodies of events and contents of policies are strings: exactly the texts that their SHA-256 digests were computed from.
    `Event.digest_after` defines an event's digest by its columns and the previous digest. Rows with values of another type
    than a campaign writes (SQLite accepts any type in any column) are left out: they prove nothing.

    Args:
        campaign: to export.
        path: of the file.

    Returns:
        `path`.
    """
    header = campaign.journal.header()
    with campaign.journal.reading() as transaction:
        specification = from_text(header.specification, "the specification")
        events = [event for event in transaction.events() if event.is_well_typed]
        policies = {
            digest: content.decode("utf-8", "replace")
            for digest, content in transaction.policies()
            if isinstance(digest, str)
        }
        rows = (list(astuple(one)) for one in transaction.signatures())
        signatures = [row for row in rows if [type(part) for part in row] == [int, str, str]]
    with whole_file(path) as file:  # one event or policy on a line: readable, and never in memory twice
        file.write(f'{{"campaign":{to_text(header.name)},\n"format":{header.format},\n"safe2real":{to_text(__version__)},\n')
        file.write(f'"specification":{to_text(specification)},\n"events":[\n')
        file.writelines(_lines(to_text(asdict(event)) for event in events))
        file.write('],\n"policies":{\n')
        file.writelines(_lines(f"{to_text(digest)}:{to_text(content)}" for digest, content in policies.items()))
        file.write("}")
        if signatures:
            file.write(f',\n"signatures":{to_text(signatures)}')
        file.write("}\n")
    return path


def export_minari(campaign: Campaign, dataset_id: str) -> MinariDataset:
    """Write all episodes as a Minari dataset, under MINARI_DATASETS_PATH or in Minari's default folder.

    Rewards are the utilities of the first constraint, or 0 without one. Every episode ends as a truncation. Its metadata
    (`dataset.storage.get_episode_metadata`) give its origin: deployment, worker, source, policy, partial, and whether it
    left the model after its last transition. Episodes without a transition are left out: Minari cannot store them.

    Args:
        campaign: to export.
        dataset_id: for example machine/campaign-v0.

    Returns:
        The dataset.

    Raises:
        InvalidInput: Minari is not installed, the id is invalid, or there is no episode yet.
        Conflict: the dataset exists.
    """
    try:
        import h5py  # noqa: F401 (Minari stores datasets with it, and does not report that it is missing)
        import minari
        from minari.data_collector import EpisodeBuffer
        from minari.dataset.minari_dataset import parse_dataset_id
        from minari.storage.datasets_root_dir import get_dataset_path
    except ImportError as error:
        raise InvalidInput(_NO_MINARI) from error
    from gymnasium.spaces import Discrete

    try:
        parse_dataset_id(dataset_id)
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"dataset_id is {dataset_id!r}; give a name like machine/campaign-v0") from error
    place = get_dataset_path(dataset_id)
    if place.exists():
        raise Conflict(f"there is a Minari dataset {dataset_id} at {place} already; give this one another name or version")
    model = campaign.problem.simulator
    recorded = list(episodes_of(campaign.name, campaign.events(), model))
    episodes = [episode for episode in recorded if len(episode.states) > 1]
    if not episodes:
        raise InvalidInput(f"campaign {campaign.name} has no episode yet, and Minari keeps no empty dataset; tell one first")
    buffers = [EpisodeBuffer(**_steps(model, episode)) for episode in episodes]
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # of a missing author
            dataset = minari.create_dataset_from_buffers(
                dataset_id,
                buffers,
                observation_space=Discrete(model.num_states),
                action_space=Discrete(model.num_actions),
                algorithm_name=campaign.method.name,
                description=f"safe2real {__version__}, campaign {campaign.name}",
            )
        dataset.storage.update_episode_metadata([_metadata(episode) for episode in episodes])
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)  # an incomplete dataset would look complete
        raise
    return dataset


# The tables

_Row = Sequence[Any]


def _transitions(episodes: Iterable[Episode]) -> Iterator[_Row]:
    yield (
        "sequence", "deployment", "worker", "source", "episode", "step",
        "state", "action", "next_state", "policy", "told_at", "partial", "left_model",
    )  # fmt: skip
    for one in episodes:
        origin = (one.sequence, one.deployment, one.worker, one.source, one.number)
        end = (one.policy, one.at, one.partial, one.left_model)
        nexts = [*one.states[1:], None]  # the action that left the model has no next state
        for step, action in enumerate(one.actions):
            yield (*origin, step, one.states[step], action, nexts[step], *end)
        if not one.actions:  # the episode began outside the model
            yield (*origin, 0, None, None, None, *end)


def _deployments(entries: Iterable[Entry], model: CMDP) -> Iterator[_Row]:
    names = model.labels
    bounds = [f"{kind}[{name}]" for name in names for kind in ("lower_bound", "threshold")]
    yield (
        "id", "number", "worker", "asked_at", "reason", "exploration_weight", "uncertainty", *bounds,
        "certified", "policy", "outcome", "closed_at", "samples",
    )  # fmt: skip
    for one in entries:
        body = one.body
        pairs = zip(body.lower_bounds, model.thresholds.tolist(), strict=True)
        yield (
            *(one.id, one.number, one.worker, one.asked_at, body.reason, body.exploration_weight, body.uncertainty),
            *(number for pair in pairs for number in pair),
            *(body.certified, one.policy, one.outcome, one.closed_at, one.samples),
        )


def _mismatch(found: MismatchMap) -> Iterator[_Row]:
    per_step = found.visits.ndim == 3
    yield (*(("step",) if per_step else ()), "state", "action", "visits", "distance", "lower", "upper", "verdict",
           "visits_needed")  # fmt: skip
    for index in np.ndindex(found.visits.shape):
        distance = float(found.distance[index])
        yield (
            *index,
            int(found.visits[index]),
            None if math.isnan(distance) else distance,
            float(found.lower[index]),
            float(found.upper[index]),
            Verdict(int(found.verdict[index])).name,
            float(found.visits_needed[index]),
        )


# The document


def _lines(entries: Iterable[str]) -> Iterator[str]:
    separator = ""
    for entry in entries:
        yield f"{separator}{entry}"
        separator = ",\n"
    yield "\n"


# The dataset


def _steps(model: CMDP, episode: Episode) -> dict[str, Any]:
    actions = episode.actions[: len(episode.states) - 1]  # without one that left the model
    rewards = utilities_along(model, episode.states, actions)[0].tolist() if model.num_constraints else [0.0] * len(actions)
    if len(rewards) > len(
        actions
    ):  # with counts_end the last state pays too, and a dataset has one reward for each action: add it to the last
        rewards[-2:] = [sum(rewards[-2:])]
    return {
        "observations": np.array(episode.states, dtype=np.int64),
        "actions": np.array(actions, dtype=np.int64),
        "rewards": rewards,
        "terminations": [False] * len(actions),
        "truncations": [False] * (len(actions) - 1) + [True],
    }


def _metadata(episode: Episode) -> dict[str, Any]:
    """Return an episode's metadata. Minari keeps texts and numbers, no nulls: a missing text is empty."""
    return {
        "deployment": episode.deployment or "",
        "worker": episode.worker or "",
        "source": episode.source or "",
        "policy": episode.policy,
        "partial": episode.partial,
        "left_model": episode.left_model,
    }
