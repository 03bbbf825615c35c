"""A running service: its campaigns, its tokens, and what they may take. It knows nothing of HTTP but who asks."""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.documents import label_of
from safe2real.campaign.signing import keys_from_environment, who_calls
from safe2real.errors import InvalidInput
from safe2real.methods.named import problem_and_method
from safe2real.model.serialization import check_unpacked, to_text
from safe2real.service.campaign_pool import Hosted
from safe2real.service.limits import Limits, Rate
from safe2real.service.metrics import Metrics
from safe2real.service.problems import Forbidden, NotFound, NoToken
from safe2real.service.request import Call, boolean
from safe2real.service.storage import Places, checked_name
from safe2real.service.tokens import Caller, Role, Tokens


@dataclass(frozen=True, slots=True)
class Options:
    """How the service is run."""

    auth: bool = True  # whether a token is needed; without, only on loopback
    limits: Limits = field(default_factory=Limits)


class Service:
    """Everything that requests share."""

    def __init__(self, places: Places, options: Options | None = None) -> None:
        self.places, self.options = places, options or Options()
        self.limits = self.options.limits
        self.tokens = Tokens(places) if self.options.auth else None
        self.nobody = Caller(who_calls(keys_from_environment()), Role.OPERATOR)  # who calls where no token is needed
        self.rate, self.failures = Rate(self.limits.rate), Rate(self.limits.failures)
        self.metrics = Metrics()
        self.streams: Counter[str] = Counter()  # pages that watch, by the token's name
        self._hosted: dict[str, Hosted] = {}
        self._helpers = ThreadPoolExecutor(2, "service")  # for the database of tokens and names
        self._makers = ThreadPoolExecutor(2, "making")  # for what takes long: new campaigns, copies; no token waits for it

    async def who(self, authorization: str | None, address: str) -> Caller:
        """Who shows this header.

        Raises:
            NoToken: Nobody may.
            TooMany: There are too many requests.
        """
        if self.tokens is None:
            return self.nobody
        caller = await self._caller(self.tokens, authorization)
        if caller is None:
            self.failures.take(address)
            raise NoToken("this needs a token that is valid: send the header `Authorization: Bearer TOKEN`")
        self.rate.take(caller.name)
        return caller

    async def is_still(self, caller: Caller, authorization: str | None) -> bool:
        """Whether this header still shows the same: a stream lives longer than some tokens."""
        return self.tokens is None or await self._caller(self.tokens, authorization) == caller

    async def _caller(self, tokens: Tokens, authorization: str | None) -> Caller | None:
        kind, _, token = (authorization or "").partition(" ")
        shown = token.strip() if kind.lower() == "bearer" else ""
        if not shown:
            return None
        if tokens.is_fresh:  # a thread only where the disk may have to be waited for
            return tokens.caller(shown)
        found: Caller | None = await self.aside(tokens.caller, shown)
        return found

    def check(self, caller: Caller, roles: frozenset[Role], name: str | None) -> None:
        """Whether a token is for this.

        Raises:
            Forbidden: It is not; the same is said of campaigns that are there and that are not.
        """
        if caller.role not in roles:
            raise Forbidden(f"this token has the role {caller.role}; this needs {' or '.join(sorted(roles))}")
        if name is not None and caller.campaign not in (None, name):
            raise Forbidden(f"this token is for the campaign {caller.campaign!r} alone")

    async def hosted(self, name: str) -> Hosted:
        """The campaign of that name.

        Raises:
            NotFound: There is none.
        """
        if name not in self._hosted:
            if name not in await self.aside(self.places.names):
                raise NotFound("there is no campaign of this name; see GET /api/v1/campaigns")
            # Another request may have been faster meanwhile.
            self._hosted.setdefault(name, Hosted(name, self.places.place_of(name)))
        return self._hosted[name]

    async def names(self, caller: Caller) -> list[str]:
        """The campaigns that a caller may see."""
        found = await self.aside(self.places.names)
        return [name for name in found if caller.campaign in (None, name)]

    async def create(self, call: Call) -> dict[str, Any]:
        """Begin a campaign; an existing one is never overwritten."""
        made: dict[str, Any] = await self.slowly(self._create, call)
        return made

    def _create(self, call: Call) -> dict[str, Any]:
        optional = ("trust_margin", "lease", "withdraw_overdue", "exist_ok")
        given = call.document(required=("name", "problem"), optional=optional)
        name = checked_name(given["name"])
        check_unpacked(given["problem"], "the problem")
        problem, method = problem_and_method(to_text(given["problem"]))
        self.places.prepare(name)
        made = Campaign.create(
            self.places.place_of(name),
            problem,
            method=method,
            trust_margin=boolean(given, "trust_margin"),
            lease=given.get("lease"),
            withdraw_overdue=boolean(given, "withdraw_overdue"),
            exist_ok=boolean(given, "exist_ok"),
        )
        with made:
            return {"name": name, "campaign": made.name, **label_of(made)}

    async def aside(self, work: Any, *arguments: Any) -> Any:
        """What may wait for a disk, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._helpers, work, *arguments)

    async def slowly(self, work: Any, *arguments: Any) -> Any:
        """What may take minutes, in one of two threads."""
        return await asyncio.get_running_loop().run_in_executor(self._makers, work, *arguments)

    def without_places(self, message: str, name: str) -> str:
        """A message for clients, who need not know where the campaigns are kept."""
        if name in self._hosted:
            message = message.replace(self._hosted[name].shown_place, f"campaign {name}")
        return message.replace(self.places.shown, "the service's database")

    def open_now(self) -> list[Hosted]:
        """Those that were asked for since the start."""
        return list(self._hosted.values())

    def close(self) -> None:
        for one in self._hosted.values():
            one.close()
        self._helpers.shutdown()
        self._makers.shutdown(cancel_futures=True)


def check_loopback(host: str) -> None:
    """Without tokens anybody who reaches the service may do anything.

    Raises:
        InvalidInput: The address can be reached from elsewhere.
    """
    if host not in ("127.0.0.1", "::1", "localhost"):
        raise InvalidInput(f"--no-auth with --host {host}: without tokens the service answers on loopback alone, 127.0.0.1")
