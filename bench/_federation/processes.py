"""Resources used by processes, as the kernel counts them."""

import os
from pathlib import Path

TICK = 1 / os.sysconf("SC_CLK_TCK")
"""Seconds, in which the kernel counts CPU."""


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of a process so far."""
    return sum(_times(pid)[:2])


def family_cpu_seconds(pid: int) -> float:
    """Return the time of a process and all its children, including ended ones: for a Postgres."""
    return sum(_times(pid)) + sum(map(cpu_seconds, _children(pid)))


def resident_bytes(pid: int) -> int:
    """Return the memory of a process now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _times(pid: int) -> list[float]:
    """Return the user and system time of the process, and of its children that have ended."""
    # Behind the name, which may hold anything: fields 14 to 17 of proc(5), counted from field 3.
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        # It has ended since it was listed; its parent has its time now, and is asked again with the next.
        return [0.0]
    return [int(field) * TICK for field in fields[11:15]]
