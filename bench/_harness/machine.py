"""What of the machine and its software belongs to a figure; never its name, its paths or its addresses."""

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any


def processors() -> list[int]:
    """The CPUs that this process may run on."""
    return sorted(os.sched_getaffinity(0))


def load() -> float:
    """How many tasks wanted a CPU in the last minute; above the number of CPUs, figures come out too low."""
    return round(os.getloadavg()[0], 2)


def description() -> dict[str, Any]:
    """The machine as the raw figures keep it."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "cpus": len(processors()),
    }


def versions(packages: Sequence[str]) -> dict[str, str]:
    """The installed version of each distribution."""
    return {package: version(package) for package in sorted(packages)}


def filesystem(path: Path) -> str:
    """The kind of file system that holds it, on which the price of a commit hangs."""
    device = path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        # The kind stands behind a separator, because the number of optional fields before it varies.
        mount, _, kind = line.partition(" - ")
        if mount.split()[2] == number:
            return kind.split()[0]
    return "a file system of unknown kind"
