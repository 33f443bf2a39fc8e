"""What was seen of a server. None where nothing was tried, because what comes before it failed.

What an examination of another server ends in.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from federation.client.server_discovery import Candidate, DiscoveryAnswer, DiscoveryQuery, NoRoute, Route
from federation.keys.key_documents import ServerKey
from federation.matrix.errors import PeerError
from federation.peers.check.certificate import Certificate


@dataclass(frozen=True, slots=True)
class Standing:
    """What this node's own configuration says of the server."""

    is_self: bool = False
    is_admitted: bool = True
    is_configured: bool = False
    address: str | None = None
    is_plain: bool = False


@dataclass(frozen=True, slots=True)
class Handshake:
    """TLS with one address. `version` is set when it succeeded; `code` is OpenSSL's number of what is wrong
    with the certificate, `problem` its words, or those for anything else."""

    version: str | None = None
    code: int | None = None
    problem: str | None = None
    certificate: Certificate | None = None
    by_everybody: bool | None = None
    """Of this node itself: whether a server believes the certificate that has no more than the system's
    authorities."""


@dataclass(frozen=True, slots=True)
class Asked:
    """An unsigned request to one address. `date` is the header, times are milliseconds."""

    problem: PeerError | None = None
    content: Mapping[str, Any] = field(default_factory=dict, repr=False)
    date: str | None = None
    sent_at: int = 0
    came_at: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """One address of one candidate. `unreachable`: why there was no connection."""

    candidate: Candidate
    address: str
    is_blocked: bool = False
    unreachable: str | None = None
    handshake: Handshake | None = None
    keys: Asked | None = None
    version: Asked | None = None

    @property
    def name(self) -> str:
        return (
            f"[{self.address}]:{self.candidate.port}"
            if ":" in self.address
            else f"{self.address}:{self.candidate.port}"
        )

    def answers_as(self, server: str) -> bool:
        """Whether a Matrix server answers there that calls itself so."""
        keys = self.keys
        return keys is not None and keys.problem is None and keys.content.get("server_name") == server


@dataclass(frozen=True, slots=True)
class Signed:
    """A signed request to the server, for an event that there is not."""

    problem: PeerError | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """`names_without_address`: candidates that lead nowhere. `known_keys`: what this node has kept of the
    server's keys. `own_keys`: those of this node by id, where it examines itself."""

    server: str
    own_name: str
    now_ms: int
    standing: Standing = Standing()
    asked: tuple[tuple[DiscoveryQuery, DiscoveryAnswer], ...] = ()
    route: Route | NoRoute | None = None
    names_without_address: tuple[Candidate, ...] = ()
    places: tuple[Place, ...] = ()
    places_left_out: int = 0
    signed: Signed | None = None
    known_keys: Mapping[str, ServerKey] = field(default_factory=dict)
    own_keys: Mapping[str, bytes] = field(default_factory=dict)


class Verdict(StrEnum):
    FINE = "fine"
    WARNING = "warning"
    """It works, or may; whoever runs the server should know."""
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Finding:
    """`text` says what was found, `advice` what to do about it where something is to be done."""

    subject: str
    verdict: Verdict
    text: str
    advice: str = ""


def fine(subject: str, text: str) -> Finding:
    return Finding(subject, Verdict.FINE, text)


def warning(subject: str, text: str, advice: str) -> Finding:
    return Finding(subject, Verdict.WARNING, text, advice)


def fault(subject: str, text: str, advice: str) -> Finding:
    return Finding(subject, Verdict.FAULT, text, advice)


_ORDER: Final = (Verdict.FINE, Verdict.WARNING, Verdict.FAULT)


def worst(findings: Iterable[Finding]) -> Verdict:
    return max((finding.verdict for finding in findings), key=_ORDER.index, default=Verdict.FINE)
