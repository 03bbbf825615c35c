"""Numbers for Prometheus: requests by address and status, their times, and where every open campaign stands."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict

from safe2real.campaign.campaign import Campaign
from safe2real.standing import Standing

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds
_OF_A_CAMPAIGN = ("rounds", "told", "abandoned", "withdrawn", "samples", "suspects", "events")


class Metrics:
    """Counted since the start of the server."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._times: dict[str, list[int]] = defaultdict(lambda: [0] * (len(_BUCKETS) + 1))
        self._seconds: dict[str, float] = defaultdict(float)

    def count(self, address: str, status: int, seconds: float) -> None:
        """One answer; `address` is a route's, not the one that was asked for: there are few of them."""
        self._requests[address, status] += 1
        self._times[address][bisect_left(_BUCKETS, seconds)] += 1
        self._seconds[address] += seconds

    def text(self) -> list[str]:
        """Lines of the exposition format."""
        lines = ["# TYPE safe2real_requests_total counter"]
        for (address, status), number in sorted(self._requests.items()):
            lines.append(f'safe2real_requests_total{{address="{_quoted(address)}",status="{status}"}} {number}')
        lines.append("# TYPE safe2real_request_seconds histogram")
        for address, counts in sorted(self._times.items()):
            label, total = f'address="{_quoted(address)}"', 0
            for bound, number in zip((*map(str, _BUCKETS), "+Inf"), counts, strict=True):
                total += number
                lines.append(f'safe2real_request_seconds_bucket{{{label},le="{bound}"}} {total}')
            lines.append(f"safe2real_request_seconds_sum{{{label}}} {self._seconds[address]:.6f}")
            lines.append(f"safe2real_request_seconds_count{{{label}}} {total}")
        return lines


def campaign_lines(name: str, campaign: Campaign) -> list[str]:
    """Where a campaign stands."""
    status = campaign.status(forecast=False)
    label = f'campaign="{_quoted(name)}"'
    numbers = {one: getattr(status, one) for one in _OF_A_CAMPAIGN}
    numbers |= {"held": len(status.held), "overdue": len(status.overdue), "waiting": status.episodes_waiting}
    numbers |= {"stopped": int(status.stopped), "halted": int(status.halted), "tolerance": status.tolerance}
    lines = [f"safe2real_campaign_readable{{{label}}} 1"]
    lines += [f"safe2real_campaign_{key}{{{label}}} {value}" for key, value in numbers.items()]
    lines.append(f"safe2real_campaign_uncertainty{{{label}}} {status.uncertainty}".replace(" inf", " +Inf"))
    for standing in Standing:
        lines.append(f'safe2real_campaign_standing{{{label},standing="{standing}"}} {int(status.standing is standing)}')
    return lines


def unreadable_line(name: str) -> str:
    """Of a campaign of which nothing is known now."""
    return f'safe2real_campaign_readable{{campaign="{_quoted(name)}"}} 0'


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
