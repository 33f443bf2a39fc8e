"""The protocol's version: `MAJOR.MINOR.PATCH`."""

import re
from collections.abc import Collection
from typing import NamedTuple

LONGEST_PART = 9
_PART = re.compile(rf"[0-9]{{1,{LONGEST_PART}}}", re.ASCII)


class ProtocolVersion(NamedTuple):
    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


class Line(NamedTuple):
    """All versions that differ in their patch alone."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


def parse(text: str) -> ProtocolVersion | None:
    """None for what is not three integers."""
    parts = text.split(".")
    if len(parts) != 3 or not all(map(_PART.fullmatch, parts)):
        return None
    return ProtocolVersion(*map(int, parts))


def parse_line(text: str) -> Line | None:
    version = parse(f"{text}.0")
    return None if version is None else Line(version.major, version.minor)


def is_accepted(client: ProtocolVersion, lines: Collection[Line]) -> bool:
    """ "MAJOR equal; with MAJOR 0 the MINOR must be equal too; from 1 on client MINOR ≤ server MINOR; PATCH
    free." """
    return any(
        client.major == line.major
        and (client.minor == line.minor if line.major == 0 else client.minor <= line.minor)
        for line in lines
    )
