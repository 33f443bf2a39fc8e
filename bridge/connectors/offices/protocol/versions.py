"""The protocol's version: `MAJOR.MINOR.PATCH`.

The handshake of versions: judged before Socket.IO sees anything, by the query of the connection's URL.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

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


PARAMETER: Final = "a2c_version"
MISMATCH: Final = 4008
ANY_PATCH: Final = 999
LONGEST: Final = 100
"""Characters of what is no version that are said again."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """`version` is None for a client of before there were any."""

    version: ProtocolVersion | None


@dataclass(frozen=True, slots=True)
class Refused:
    """Its status is 400. Without the length a client may see a broken connection instead."""

    body: bytes
    code: int | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        own = {} if self.code is None else {"x-a2c-error-code": str(self.code)}
        return {"content-type": "application/json", "content-length": str(len(self.body)), **own}


def judge(given: Sequence[str], lines: Collection[Line], *, accept_unversioned: bool) -> Accepted | Refused:
    """`given` are the values of the parameter: the first one counts."""
    if not given:
        return Accepted(None) if accept_unversioned else _refused("Missing a2c_version query parameter")
    version = parse(given[0])
    if version is None:
        return _refused(f"Invalid a2c_version: Invalid version: {given[0][:LONGEST]}")
    if is_accepted(version, lines):
        return Accepted(version)
    lowest, highest = min(lines), max(lines)
    body = {
        "code": MISMATCH,
        "message": "Protocol version mismatch",
        "server_version": f"{highest}.0",
        "client_version": str(version),
        "min_supported": f"{lowest}.0",
        "max_supported": f"{highest}.{ANY_PATCH}",
    }
    return Refused(_encoded(body), MISMATCH)


def _refused(message: str) -> Refused:
    return Refused(_encoded({"code": 400, "message": message}))


def _encoded(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body).encode()
