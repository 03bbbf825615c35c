"""Seeds for `env.reset`, all made here: no seed is used for two episodes that are counted together.

A stream is a function of the entropy it began with, of the problem and method or the trial it belongs to, and of all data
that were counted beside it. So a second trial, a learner that imports the episodes of another and explores on, and a learner
whose simulator was fitted to them see other episodes, even where all began with the same seed. Seeds stay below 2^31, which
every environment accepts.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from hashlib import blake2b
from itertools import count

from safe2real._compiled import rollout
from safe2real.errors import Conflict
from safe2real.model.validation import seed_number

_BELOW = 2**31


def entropy_of(seed: int | None) -> int:
    """Return `seed`, or a number of 48 bits drawn from the operating system without one."""
    return secrets.randbits(48) if seed is None else seed_number("seed", seed)


def unused_seed(candidates: Iterable[int], used: set[int]) -> int:
    """Return the first candidate that was not used, and note it as used."""
    seed = next(one for one in candidates if one not in used)
    used.add(seed)
    return seed


def refuse_repeated(seeds: Iterable[int | None], used: Container[int] = ()) -> list[int]:
    """Refuse episodes of environment seeds that were used before, or twice among themselves; unknown seeds are None.

    Returns:
        The seeds that are known.

    Raises:
        Conflict: with how many there are, and the first of them.
    """
    known = [seed for seed in seeds if seed is not None]
    twice = [seed for seed, often in Counter(known).items() if often > 1 or seed in used]
    if twice:
        raise Conflict(
            f"{len(twice)} of the {len(known)} environment seeds were used for other episodes that are counted here, "
            f"the first is {twice[0]}: the environment repeated itself, and an episode counts once. Leave the repeated "
            "episodes out (their `seed` says which they are), and collect others with another seed"
        )
    return known


class EnvironmentSeeds:
    """The environment seeds of one learner or trial."""

    def __init__(self, entropy: int, *beside: bytes | Callable[[], bytes]) -> None:
        """Begin a stream.

        Args:
            entropy: the same gives the same seeds again.
            beside: what tells this stream from others of the same entropy, such as a trial's number; see `branch`.
        """
        self.entropy, self._stream = entropy, entropy
        self._beside: list[bytes | Callable[[], bytes]] = [*beside]  # not yet part of the stream
        self.used: set[int] = set()  # by this stream, and by imported episodes that name their seed
        self._out: int | None = None  # the seed that `of_round` gave last, until its episode is observed

    def branch(self, *beside: bytes | Callable[[], bytes]) -> None:
        """Go on with a stream that depends on `beside` too; functions are called when the stream is first needed."""
        self._beside += beside

    @property
    def stream(self) -> int:
        """The number that the seeds of all rounds follow from."""
        for one in self._beside:
            content = one() if callable(one) else one
            digest = blake2b(content, digest_size=8, key=self._stream.to_bytes(8, "little")).digest()
            self._stream = int.from_bytes(digest, "little")
        self._beside.clear()
        return self._stream

    def resume(self, entropy: int, stream: int, used: set[int]) -> None:
        """Go on where a saved stream was."""
        self.entropy, self._stream, self.used = entropy, stream, used
        self._beside.clear()

    def of_round(self, number: int) -> int:
        """Return the seed of a round and note it as used; a seed that was used before is drawn again."""
        self._out = unused_seed(self._candidates(number), self.used)
        return self._out

    def refuse_used(self, seed: int | None) -> None:
        """Refuse an observed episode whose seed was used before, unless `of_round` gave it for this very episode.

        Raises:
            Conflict: another episode of this seed is counted.
        """
        if seed != self._out:
            refuse_repeated([seed], self.used)

    def note(self, seed: int | None) -> None:
        """Note the seed of an episode that was observed."""
        self.used.update(() if seed is None else (seed,))
        self._out = None

    def draw(self, number: int, index: int) -> float:
        """Return the index-th uniform number of a round: even ones from 2 on are for the policy's own actions."""
        return rollout.draw(self.stream, number, index)

    def _candidates(self, number: int) -> Iterator[int]:
        return (int(self.draw(number, index) * _BELOW) for index in count(1, 2))
