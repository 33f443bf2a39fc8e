"""Joining, leaving and knocking where this server is not in the room: asking one server after another.

A conversation: it yields what is to be asked and is sent the answer, or the `PeerError` that came instead.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from federation.client.errors import PeerMalformed, PeerRefused
from federation.events import Pdu, Signer
from federation.matrix.errors import MatrixError, PeerError
from federation.matrix.room_version import RoomVersion
from federation.memberships.membership_event import Wish, WrongTemplate, completed

R = TypeVar("R")

MOST_SERVERS: Final = 20
"""How many are asked before giving up."""

_PASSED_ON: Final = frozenset(
    {
        "M_FORBIDDEN",
        "M_INCOMPATIBLE_ROOM_VERSION",
        "M_INVITE_BLOCKED",
        "M_UNABLE_TO_AUTHORISE_JOIN",
        "M_UNABLE_TO_GRANT_JOIN",
    }
)
"""What says something to the person who asked."""


@dataclass(frozen=True, slots=True)
class AskTemplate:
    """GET make_join, make_leave or make_knock."""

    server: str


@dataclass(frozen=True, slots=True)
class HandIn:
    """PUT send_join, send_leave or send_knock."""

    server: str
    event: Pdu


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """`server` took the event in; `result` is what its answer said, once checked."""

    server: str
    event: Pdu
    version: RoomVersion
    result: R


@dataclass(frozen=True, slots=True)
class NobodyHelped:
    """What was wrong with each server, in the order in which they were asked."""

    problems: tuple[PeerError, ...] = field(default=())

    def as_error(self) -> MatrixError:
        """What to tell the person who asked: the refusal that says most, or that no server could be asked."""
        refusals = [problem for problem in self.problems if isinstance(problem, PeerRefused)]
        # 403 means no; the others mean that somebody else might know better.
        for refusal in sorted(refusals, key=lambda refusal: refusal.errcode != "M_FORBIDDEN"):
            if refusal.errcode in _PASSED_ON and refusal.status in (400, 403):
                assert refusal.errcode is not None, "None is not among those that are passed on"
                return MatrixError(refusal.errcode, refusal.text or refusal.problem, refusal.status)
        if refusals and len(refusals) == len(self.problems) and all(r.status == 404 for r in refusals):
            return MatrixError("M_NOT_FOUND", "No server that was asked knows this room.", 404)
        if not self.problems:
            return MatrixError("M_NOT_FOUND", "No server is known to be in this room.", 404)
        last = self.problems[-1]
        # "If M_MISSING_PARAM or M_INVALID_PARAM is returned […], the Client-Server API request SHOULD fail
        # with a 5xx error rather than being passed through."
        return MatrixError(
            "M_UNKNOWN", f"No server in this room could help: {last.peer} {last.problem}.", 502
        )


Question = AskTemplate | HandIn
Answer = Mapping[str, Any] | PeerError
Conversation = Generator[Question, Answer, Done[R] | NobodyHelped]


def ask(
    wish: Wish,
    servers: Sequence[str],
    signer: Signer,
    now_ms: int,
    check: Callable[[Mapping[str, Any], Pdu, RoomVersion, str], R | str],
) -> Conversation[R]:
    """`check` reads the answer to the event that was handed in; a string says what is wrong with it."""
    problems: list[PeerError] = []
    for server in dict.fromkeys(servers):
        if len(problems) == MOST_SERVERS:
            break
        if server == signer.server:
            continue
        outcome = yield from _ask_one(wish, server, signer, now_ms, check)
        if isinstance(outcome, Done):
            return outcome
        problems.append(outcome)
    return NobodyHelped(tuple(problems))


def _ask_one(
    wish: Wish,
    server: str,
    signer: Signer,
    now_ms: int,
    check: Callable[[Mapping[str, Any], Pdu, RoomVersion, str], R | str],
) -> Generator[Question, Answer, Done[R] | PeerError]:
    offered = yield AskTemplate(server)
    if isinstance(offered, PeerError):
        return offered
    made = completed(offered, wish, signer, now_ms)
    if isinstance(made, WrongTemplate):
        return PeerMalformed(server, f"answered with a template that is wrong: {made.problem}")
    event, version = made
    answer = yield HandIn(server, event)
    if isinstance(answer, PeerError):
        # It may have taken the event in all the same. To hand in another one elsewhere does no harm then.
        return answer
    result = check(answer, event, version, server)
    if isinstance(result, str):
        return PeerMalformed(server, f"answered the event with something wrong: {result}")
    return Done(server, event, version, result)
