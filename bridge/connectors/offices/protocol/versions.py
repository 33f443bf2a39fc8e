"""Protocol versions, `MAJOR.MINOR.PATCH`, and the version handshake.

The handshake checks the query of the connection's URL before Socket.IO handles the request.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

MAX_PART_DIGITS = 9
_PART = re.compile(rf"[0-9]{{1,{MAX_PART_DIGITS}}}", re.ASCII)


class ProtocolVersion(NamedTuple):
    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


class ProtocolLine(NamedTuple):
    """All versions with the same MAJOR and MINOR."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


def parse_version(text: str) -> ProtocolVersion | None:
    """None if text is not three integers separated by dots."""
    parts = text.split(".")
    if len(parts) != 3 or not all(map(_PART.fullmatch, parts)):
        return None
    return ProtocolVersion(*map(int, parts))


def parse_line(text: str) -> ProtocolLine | None:
    version = parse_version(f"{text}.0")
    return None if version is None else ProtocolLine(version.major, version.minor)


def is_accepted(client: ProtocolVersion, lines: Collection[ProtocolLine]) -> bool:
    """ "MAJOR equal; with MAJOR 0 the MINOR must be equal too; from 1 on client MINOR ≤ server MINOR; PATCH
    free." """
    return any(
        client.major == line.major and (client.minor == line.minor if line.major == 0 else client.minor <= line.minor)
        for line in lines
    )


PARAMETER: Final = "a2c_version"
MISMATCH: Final = 4008
ANY_PATCH: Final = 999
MAX_ECHOED: Final = 100
"""Characters of an invalid version that the error message repeats."""


@dataclass(frozen=True, slots=True)
class AcceptedVersion:
    """`version` is None for a client that sent none: protocol versions came with 0.2."""

    version: ProtocolVersion | None


@dataclass(frozen=True, slots=True)
class VersionRefusal:
    """A response with status 400. Without a content length, clients may report a connection error instead."""

    body: bytes
    code: int | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        own = {} if self.code is None else {"x-a2c-error-code": str(self.code)}
        return {"content-type": "application/json", "content-length": str(len(self.body)), **own}


def check_version(
    values: Sequence[str], lines: Collection[ProtocolLine], *, accept_unversioned: bool
) -> AcceptedVersion | VersionRefusal:
    """`values` are the values of the query parameter; only the first is used."""
    if not values:
        if accept_unversioned:
            return AcceptedVersion(None)
        return _refusal("Missing a2c_version query parameter")
    version = parse_version(values[0])
    if version is None:
        return _refusal(f"Invalid a2c_version: Invalid version: {values[0][:MAX_ECHOED]}")
    if is_accepted(version, lines):
        return AcceptedVersion(version)
    lowest, highest = min(lines), max(lines)
    body = {
        "code": MISMATCH,
        "message": "Protocol version mismatch",
        "server_version": f"{highest}.0",
        "client_version": str(version),
        "min_supported": f"{lowest}.0",
        "max_supported": f"{highest}.{ANY_PATCH}",
    }
    return VersionRefusal(_encode(body), MISMATCH)


def _refusal(message: str) -> VersionRefusal:
    return VersionRefusal(_encode({"code": 400, "message": message}))


def _encode(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body).encode()
