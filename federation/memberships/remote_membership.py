"""Joining, leaving and knocking on rooms that this server is not in, through one server after another.

The handshake is a generator: it yields requests, and receives the response of each or its `PeerError`.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from federation.client.errors import PeerMalformed, PeerRefused
from federation.events import Pdu, Signer
from federation.matrix.errors import MatrixError, PeerError
from federation.matrix.room_version import RoomVersion
from federation.memberships.membership_event import InvalidTemplate, MembershipChange, complete_template

R = TypeVar("R")

MAX_SERVERS: Final = 20
"""Servers that are tried before giving up."""

_FORWARDED_ERRCODES: Final = frozenset(
    {
        "M_FORBIDDEN",
        "M_INCOMPATIBLE_ROOM_VERSION",
        "M_INVITE_BLOCKED",
        "M_UNABLE_TO_AUTHORISE_JOIN",
        "M_UNABLE_TO_GRANT_JOIN",
    }
)
"""Errors that are meaningful to the user."""


@dataclass(frozen=True, slots=True)
class TemplateRequest:
    """GET make_join, make_leave or make_knock."""

    server: str


@dataclass(frozen=True, slots=True)
class SendRequest:
    """PUT send_join, send_leave or send_knock."""

    server: str
    event: Pdu


@dataclass(frozen=True, slots=True)
class HandshakeResult(Generic[R]):
    """`server` has accepted the event; `result` is its response, parsed and checked."""

    server: str
    event: Pdu
    version: RoomVersion
    result: R


@dataclass(frozen=True, slots=True)
class AllServersFailed:
    """The error of each server, in the order in which they were tried."""

    problems: tuple[PeerError, ...] = field(default=())

    def as_error(self) -> MatrixError:
        """The error for the user: the most meaningful refusal, or that no server could be reached."""
        refusals = [problem for problem in self.problems if isinstance(problem, PeerRefused)]
        # M_FORBIDDEN is definite. With the others, another server might accept the event.
        for refusal in sorted(refusals, key=lambda refusal: refusal.errcode != "M_FORBIDDEN"):
            if refusal.errcode in _FORWARDED_ERRCODES and refusal.status in (400, 403):
                assert refusal.errcode is not None, "None is not among the forwarded errors"
                return MatrixError(refusal.errcode, refusal.text or refusal.problem, refusal.status)
        if refusals and len(refusals) == len(self.problems) and all(r.status == 404 for r in refusals):
            return MatrixError("M_NOT_FOUND", "None of the servers that were tried knows this room.", 404)
        if not self.problems:
            return MatrixError("M_NOT_FOUND", "No server is known to be in this room.", 404)
        last = self.problems[-1]
        # "If M_MISSING_PARAM or M_INVALID_PARAM is returned […], the Client-Server API request SHOULD fail
        # with a 5xx error rather than being passed through."
        return MatrixError(
            "M_UNKNOWN", f"No server in this room accepted the request: {last.peer} {last.problem}.", 502
        )


PeerRequest = TemplateRequest | SendRequest
PeerAnswer = Mapping[str, Any] | PeerError
Handshake = Generator[PeerRequest, PeerAnswer, HandshakeResult[R] | AllServersFailed]


def try_servers(
    change: MembershipChange,
    servers: Sequence[str],
    signer: Signer,
    now_ms: int,
    check: Callable[[Mapping[str, Any], Pdu, RoomVersion, str], R | str],
) -> Handshake[R]:
    """Try the servers in turn until one accepts the event.

    `check` parses the response to the submitted event; if it returns a string, that describes what is wrong
    with it.
    """
    problems: list[PeerError] = []
    for server in dict.fromkeys(servers):
        if len(problems) == MAX_SERVERS:
            break
        if server == signer.server:
            continue
        outcome = yield from _try_server(change, server, signer, now_ms, check)
        if isinstance(outcome, HandshakeResult):
            return outcome
        problems.append(outcome)
    return AllServersFailed(tuple(problems))


def _try_server(
    change: MembershipChange,
    server: str,
    signer: Signer,
    now_ms: int,
    check: Callable[[Mapping[str, Any], Pdu, RoomVersion, str], R | str],
) -> Generator[PeerRequest, PeerAnswer, HandshakeResult[R] | PeerError]:
    offered = yield TemplateRequest(server)
    if isinstance(offered, PeerError):
        return offered
    made = complete_template(offered, change, signer, now_ms)
    if isinstance(made, InvalidTemplate):
        return PeerMalformed(server, f"answered with an invalid template: {made.problem}")
    event, version = made
    answer = yield SendRequest(server, event)
    if isinstance(answer, PeerError):
        # It may have accepted the event nevertheless. Submitting another one to another server does no harm
        # then.
        return answer
    result = check(answer, event, version, server)
    if isinstance(result, str):
        return PeerMalformed(server, f"answered the event with an invalid response: {result}")
    return HandshakeResult(server, event, version, result)
