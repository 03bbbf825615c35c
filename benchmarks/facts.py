"""What a figure depends on besides the code: the machine, its load, and the versions of what runs on it."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("safe2real", "numpy", "numba", "llvmlite", "scipy", "highspy", "stormpy")


def machine() -> dict[str, Any]:
    """Facts for the head of a file of measurements; what the system does not say is left out."""
    facts: dict[str, Any] = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "versions": {name: found for name in PACKAGES if (found := _version(name))},
    }
    facts |= _processor()
    return facts


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor() -> dict[str, Any]:
    """Its name and its caches, where Linux tells."""
    facts: dict[str, Any] = {}
    information = Path("/proc/cpuinfo")
    if information.exists():
        names = [
            line.split(":", 1)[1].strip() for line in information.read_text().splitlines() if line.startswith("model name")
        ]
        facts["processor"] = names[0] if names else "unknown"
    caches = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind, level = (index / "type").read_text().strip(), (index / "level").read_text().strip()
        if kind != "Instruction":
            caches[f"L{level}"] = (index / "size").read_text().strip()
    return facts | ({"caches": caches} if caches else {})
