"""What was seen of an episode, as a record keeps it: `exploration.episodes`, by which learners read logs too."""

from __future__ import annotations

from safe2real.exploration.episode_log import (
    Seen,
    check_told,
    episode_from_json,
    leaves,
    outside_support,
    seen_from,
    seen_in,
    transitions_in,
)

__all__ = [
    "Seen",
    "check_told",
    "episode_from_json",
    "leaves",
    "outside_support",
    "seen_from",
    "seen_in",
    "transitions_in",
]
