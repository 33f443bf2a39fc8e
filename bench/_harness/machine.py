"""Properties of the machine and its software that affect a figure; never its name, paths or addresses."""

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any


def processors() -> list[int]:
    """Return the CPUs that this process may use."""
    return sorted(os.sched_getaffinity(0))


def load() -> float:
    """Return the load average of the last minute; above the number of CPUs, figures come out too low."""
    return round(os.getloadavg()[0], 2)


def description() -> dict[str, Any]:
    """Return the machine's description for the raw figures."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "cpus": len(processors()),
    }


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the installed version of each distribution."""
    return {package: version(package) for package in sorted(packages)}


def filesystem(path: Path) -> str:
    """Return the kind of file system, which decides the cost of a commit."""
    device = path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        # The kind stands behind a separator, because the number of optional fields before it varies.
        mount, _, kind = line.partition(" - ")
        if mount.split()[2] == number:
            return kind.split()[0]
    return "a file system of unknown kind"
