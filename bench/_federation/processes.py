"""What processes have used, as the kernel counts it."""

import os
from pathlib import Path

TICK = 1 / os.sysconf("SC_CLK_TCK")
"""Seconds, in which the kernel counts CPU."""


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    return sum(_times(pid)[:2])


def family_cpu_seconds(pid: int) -> float:
    """The same of a process and of all its children, those that have ended among them: a Postgres."""
    return sum(_times(pid)) + sum(map(cpu_seconds, _children(pid)))


def resident_bytes(pid: int) -> int:
    """Memory of a process at this moment."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _times(pid: int) -> list[float]:
    """User and system time of its own, then of its children that have ended and been waited for."""
    # Behind the name, which may hold anything: fields 14 to 17 of proc(5), counted from field 3.
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        # It has ended since it was listed; its parent has its time now, and is asked again with the next.
        return [0.0]
    return [int(field) * TICK for field in fields[11:15]]
