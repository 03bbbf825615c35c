"""The result of a trial: one JSON file, and the judgement of what it shows."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safe2real import __version__
from safe2real.errors import InvalidInput
from safe2real.evidence.baseline_margin import RETURNS_SHARE
from trial.flaws import Flaw
from trial.tally import Tallies, interval

_FORMAT = 2
_FAR_ABOVE = 2.0  # times delta: what the failures of a control must exceed
_MOSTLY = 0.5  # the share of runs that must halt where the margin is overstated
_MOST_FAILURES = 2000  # described one by one


@dataclass(slots=True)
class Record:
    """Everything that was counted."""

    seed: int
    asked: int  # deployments
    longest: int  # rounds of a run
    jobs: int
    seconds: float = 0.0
    complete: bool = False
    trial: Tallies = field(default_factory=Tallies)
    controls: dict[Flaw, Tallies] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)  # of the trial, not of the controls
    version: str = __version__

    def describe(self, case: dict[str, Any]) -> None:
        """Keep what can be told of a run that failed."""
        if len(self.failures) < _MOST_FAILURES:
            self.failures.append(case)

    def write(self, path: Path) -> None:
        """All at once, so that a reader never sees half a file."""
        document = {
            "format": _FORMAT,
            "version": self.version,
            "seed": self.seed,
            "asked": self.asked,
            "longest": self.longest,
            "jobs": self.jobs,
            "seconds": self.seconds,
            "complete": self.complete,
            "trial": self.trial.to_json(),
            "controls": {str(flaw): tallies.to_json() for flaw, tallies in self.controls.items()},
            "failures": self.failures,
        }
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(document, indent=1) + "\n")
        os.replace(part, path)

    @classmethod
    def read(cls, path: Path) -> Record:
        """What `write` wrote."""
        try:
            document = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{path} is not a result of a trial ({error}); make one with --out") from error
        if not isinstance(document, dict) or document.get("format") != _FORMAT:
            raise InvalidInput(f"{path} is not a result of a trial of this format ({_FORMAT}); make one with --out")
        return cls(
            seed=document["seed"],
            asked=document["asked"],
            longest=document["longest"],
            jobs=document["jobs"],
            seconds=document["seconds"],
            complete=document["complete"],
            trial=Tallies.from_json(document["trial"]),
            controls={Flaw(name): Tallies.from_json(entry) for name, entry in document["controls"].items()},
            failures=document["failures"],
            version=document["version"],
        )

    def problems(self) -> list[str]:
        """What speaks against the guarantee, or against the trial itself; empty when nothing does."""
        found = []
        for part, delta in self.trial.parts:
            tally = self.trial.of(part, delta)
            allowed = tally.allowed / tally.runs
            # A test on returns has a share of its own, beside the event that all other statements rest on.
            for failed, most in (tally.failed - tally.alarms, allowed), (tally.failed, allowed + RETURNS_SHARE * delta):
                low, _ = interval(failed, tally.runs)
                if low > most:
                    found.append(
                        f"{part}: at delta = {delta:g} runs fail with probability {low:.4f} or more, which is above {most:g}"
                    )
        for flaw, tallies in self.controls.items():
            tally, (_, delta) = tallies.total, tallies.parts[0]
            if flaw is Flaw.TESTED_MARGIN:
                low, _ = interval(tally.halted, tally.runs)
                if low < _MOSTLY:
                    found.append(
                        f"with {flaw} only a share of {low:.2f} or more halts: the tests of the margin see too little"
                    )
            elif tally.interval[0] < _FAR_ABOVE * delta:
                low = tally.interval[0]
                found.append(f"with {flaw} a share of {low:.3f} or more fails: too little to be sure that failures are seen")
        return found
