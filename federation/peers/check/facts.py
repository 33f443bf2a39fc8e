"""The facts that a peer check gathers about a server, and its findings.

A fact is None if it was not tested, because a test before it has failed.
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
class ServerStatus:
    """How the configuration of this node treats the server."""

    is_self: bool = False
    is_admitted: bool = True
    is_configured: bool = False
    address: str | None = None
    is_plain: bool = False


@dataclass(frozen=True, slots=True)
class TlsHandshake:
    """A TLS handshake with one address. `version` is set if it succeeded. `code` is OpenSSL's verification
    error for the certificate, and `problem` its text, or that of any other error."""

    version: str | None = None
    code: int | None = None
    problem: str | None = None
    certificate: Certificate | None = None
    trusted_by_system: bool | None = None
    """For a check of this node itself: whether a server that trusts only the system's authorities accepts the
    certificate."""


@dataclass(frozen=True, slots=True)
class ProbeResponse:
    """The response to an unsigned request to one address. `date` is the header; times are milliseconds."""

    problem: PeerError | None = None
    content: Mapping[str, Any] = field(default_factory=dict, repr=False)
    date: str | None = None
    sent_at: int = 0
    received_at: int = 0


@dataclass(frozen=True, slots=True)
class AddressProbe:
    """The tests of one address of one candidate. `unreachable`: why no connection was made."""

    candidate: Candidate
    address: str
    is_blocked: bool = False
    unreachable: str | None = None
    handshake: TlsHandshake | None = None
    keys: ProbeResponse | None = None
    version: ProbeResponse | None = None

    @property
    def name(self) -> str:
        return (
            f"[{self.address}]:{self.candidate.port}"
            if ":" in self.address
            else f"{self.address}:{self.candidate.port}"
        )

    def answers_as(self, server: str) -> bool:
        """Whether a Matrix server with that server name answers at this address."""
        keys = self.keys
        return keys is not None and keys.problem is None and keys.content.get("server_name") == server


@dataclass(frozen=True, slots=True)
class SignedProbe:
    """The result of a signed request to the server, for an event that does not exist."""

    problem: PeerError | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about a server. `names_without_address`: candidates that could not be resolved. `known_keys`:
    the server's keys that this node has stored. `own_keys`: the keys of this node by id, if it checks
    itself."""

    server: str
    own_name: str
    now_ms: int
    status: ServerStatus = ServerStatus()
    queries: tuple[tuple[DiscoveryQuery, DiscoveryAnswer], ...] = ()
    route: Route | NoRoute | None = None
    names_without_address: tuple[Candidate, ...] = ()
    probes: tuple[AddressProbe, ...] = ()
    addresses_left_out: int = 0
    signed: SignedProbe | None = None
    known_keys: Mapping[str, ServerKey] = field(default_factory=dict)
    own_keys: Mapping[str, bytes] = field(default_factory=dict)


class Verdict(StrEnum):
    FINE = "fine"
    WARNING = "warning"
    """It works, or may work, but the operator should know."""
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Finding:
    """`text` describes what was found, `advice` what to do about it, if anything."""

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
