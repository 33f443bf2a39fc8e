"""Audit entries for requests between servers, and the buffer of entries that are not written yet.

An entry has identifiers, the outcome and, for a refusal, its text. It never has content, headers, or query
parameters other than identifiers. The buffer is bounded, and counts the entries that it drops.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from federation.client.errors import PeerRefused, outcome_of
from federation.events.format import room_id_of
from federation.events.received import Accepted, Dropped, ReceiveResult, Rejected, SoftFailed
from federation.matrix.errors import MatrixError, PeerError
from federation.matrix.identifiers import MAX_BYTES
from federation.observer import Outcome
from federation.peers.actions import Action
from federation.peers.limits import Buckets, Rate

MAX_DETAIL_LENGTH: Final = 300
"""Characters."""
ALL_PEERS: Final = "*"
"""The peer of an entry for events that are sent to all peers. It is not a valid server name."""


class Direction(StrEnum):
    IN = "in"
    """A request of another server."""
    OUT = "out"
    """A request to another server."""


class AuditOutcome(StrEnum):
    """The outcome of a request. There are few, so that they can be searched for."""

    DONE = "done"
    REFUSED = "refused"
    UNAUTHENTICATED = "unauthenticated"
    """Refused because authentication failed."""
    RATE_LIMITED = "rate_limited"
    FAILED = "failed"
    """Failed because of an error of the server that received the request."""
    NOT_ALLOWED = "not_allowed"
    """Not sent, since this server does not federate with the other one."""
    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed_out"
    MALFORMED = "malformed"
    """The response was invalid."""
    ABANDONED = "abandoned"
    """The requester cancelled or disconnected."""
    LOST = "lost"
    """Dropped entries, of which only the number is known."""


_OUTCOMES: Final[Mapping[Outcome, AuditOutcome]] = {
    Outcome.ANSWERED: AuditOutcome.DONE,
    Outcome.NOT_ALLOWED: AuditOutcome.NOT_ALLOWED,
    Outcome.UNREACHABLE: AuditOutcome.UNREACHABLE,
    Outcome.TLS: AuditOutcome.UNREACHABLE,
    Outcome.TIMED_OUT: AuditOutcome.TIMED_OUT,
    Outcome.REFUSED: AuditOutcome.REFUSED,
    Outcome.FAILED: AuditOutcome.FAILED,
    Outcome.MALFORMED: AuditOutcome.MALFORMED,
}


@dataclass(frozen=True, slots=True)
class Identifiers:
    """The user, room and other subject (such as an event) of a request, if there is exactly one of each."""

    user_id: str | None = None
    room_id: str | None = None
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An audit entry. `peer` is None if the peer is not authenticated."""

    at_ms: int
    peer: str | None
    direction: Direction
    action: str
    outcome: AuditOutcome
    identifiers: Identifiers = Identifiers()
    detail: str | None = None


def identifiers_of(
    action: Action, parameters: Mapping[str, str], query: Mapping[str, str], content: Mapping[str, Any] | None
) -> Identifiers:
    """The identifiers in a request. `parameters`: the path parameters by name, in either spelling (`room_id`,
    `roomId`). `content`: the parsed body, which has not been validated."""
    found = {name.replace("_", "").lower(): value for name, value in parameters.items()}
    body = content or {}
    return Identifiers(
        truncate(found.get("userid") or query.get("user_id") or _user_in(action, body)),
        truncate(found.get("roomid")),
        truncate(_subject(found, query) or _requested_server(action, body)),
    )


def path_parameters(template: str, uri: str) -> dict[str, str]:
    """The path parameters of an outgoing request, by their names in the template."""
    path = uri.partition("?")[0].split("/")
    return {
        name[1:-1]: unquote(segment)
        for name, segment in zip(template.split("/"), path, strict=False)
        if name.startswith("{")
    }


def query_parameters(uri: str) -> dict[str, str]:
    """The query parameters of an outgoing request."""
    return dict(parse_qsl(uri.partition("?")[2]))


def outcome_of_refusal(error: MatrixError, *, authenticated: bool) -> tuple[AuditOutcome, str]:
    """The outcome of a refused incoming request, and the error that was returned."""
    detail = f"{error.status} {error.errcode}: {error.text}"
    if error.status == 429:
        return AuditOutcome.RATE_LIMITED, detail
    if error.status >= 500:
        return AuditOutcome.FAILED, detail
    return (AuditOutcome.REFUSED if authenticated else AuditOutcome.UNAUTHENTICATED), detail


def outcome_of_error(problem: BaseException | None) -> tuple[AuditOutcome, str | None]:
    """The outcome of an outgoing request, and what went wrong."""
    if problem is None:
        return AuditOutcome.DONE, None
    if not isinstance(problem, PeerError):
        return AuditOutcome.ABANDONED, None
    if isinstance(problem, PeerRefused) and problem.status == 429:
        return AuditOutcome.RATE_LIMITED, problem.problem
    return _OUTCOMES[outcome_of(problem)], problem.problem


def transaction_identifiers(transaction_id: str, pdus: Iterable[Any]) -> Identifiers:
    """The identifiers of a transaction. It has a room only if all its events are of that room."""
    rooms = set(map(room_id_of, pdus))
    room_id = rooms.pop() if len(rooms) == 1 else None
    return Identifiers(None, truncate(room_id), truncate(transaction_id))


_WORDS: Final[Mapping[type[ReceiveResult], str]] = {
    Accepted: "accepted",
    SoftFailed: "soft-failed",
    Rejected: "rejected",
    Dropped: "dropped",
}


def transaction_detail(results: Iterable[ReceiveResult], edus: int) -> str:
    """`2 accepted, 1 rejected; 3 EDUs`."""
    received = tuple(results)
    if not edus and len(received) == 1:
        return f"1 {_WORDS[type(received[0])]}"
    counted = Counter(_WORDS[type(result)] for result in received)
    events = ", ".join(f"{counted[word]} {word}" for word in _WORDS.values() if counted[word])
    parts = [events, f"{edus} EDUs" if edus else ""]
    return "; ".join(filter(None, parts)) or "empty"


def truncate(value: Any) -> str | None:
    """Shorten a value to the length of an identifier, and replace characters that Postgres cannot store."""
    if not isinstance(value, str) or not value:
        return None
    if len(value) <= MAX_BYTES and value.isascii() and "\0" not in value:
        return value
    text = value[:MAX_BYTES].replace("\0", "\ufffd")
    return text.encode("utf-8", "replace").decode("utf-8")


def truncate_detail(text: str | None) -> str | None:
    """Shorten a detail and put it on one line."""
    if text is None:
        return None
    return "".join(one if one.isprintable() else " " for one in text[:MAX_DETAIL_LENGTH])


def _subject(parameters: Mapping[str, str], query: Mapping[str, str]) -> str | None:
    for name in ("eventid", "txnid", "mediaid"):
        if name in parameters:
            return parameters[name]
    return query.get("event_id") or query.get("room_alias") or parameters.get("servername")


def _user_in(action: Action, content: Mapping[str, Any]) -> Any:
    """The user of a membership event, or whose devices are requested if it is only one."""
    match action.name:
        case "send_join" | "send_leave" | "send_knock":
            return content.get("sender")
        case "invite":
            event = content.get("event")
            return event.get("state_key") if isinstance(event, dict) else None
        case "device_keys_query":
            return _only(content.get("device_keys"))
        case "device_keys_claim":
            return _only(content.get("one_time_keys"))
    return None


def _requested_server(action: Action, content: Mapping[str, Any]) -> Any:
    return _only(content.get("server_keys")) if action.name == "notary_query" else None


def _only(members: Any) -> Any:
    return next(iter(members)) if isinstance(members, dict) and len(members) == 1 else None


MAX_BUFFERED: Final = 10_000
UNAUTHENTICATED_RATE: Final = Rate(10, 100)
"""Entries of unauthenticated peers, so that they cannot fill the disk."""

_COUNTED: Final = frozenset({AuditOutcome.UNAUTHENTICATED, AuditOutcome.RATE_LIMITED})
_ALL_UNAUTHENTICATED: Final = "anybody"


@dataclass(slots=True)
class _BufferedEntry:
    entry: AuditEntry
    times: int = 1


@dataclass(frozen=True, slots=True)
class AuditBatch:
    """The buffered entries in their order, the number of dropped ones, and the time of the last dropped
    one."""

    entries: tuple[AuditEntry, ...]
    lost: int
    lost_at_ms: int

    def entries_to_write(self) -> list[AuditEntry]:
        """The entries, and one for those that were dropped."""
        if not self.lost:
            return list(self.entries)
        detail = f"{self.lost} entries were dropped because the buffer was full"
        return [
            *self.entries,
            AuditEntry(self.lost_at_ms, None, Direction.IN, "audit", AuditOutcome.LOST, detail=detail),
        ]


class AuditBuffer:
    """Buffers audit entries. A refusal that is repeated is one entry with a count.

    `now` parameters are seconds of a monotonic clock.
    """

    def __init__(self, most: int = MAX_BUFFERED, unauthenticated_rate: Rate = UNAUTHENTICATED_RATE) -> None:
        self._most = most
        self._unauthenticated_rate = unauthenticated_rate
        self._allowance: Buckets[str] = Buckets(1)
        self._numbers = count()
        self._pending: dict[Hashable, _BufferedEntry] = {}
        self._lost = 0
        self._lost_at_ms = 0
        self.lost = 0
        """Entries dropped since the start."""

    def add(self, entry: AuditEntry, now: float) -> None:
        repeated = entry.peer is None or entry.outcome in _COUNTED
        key: Hashable = next(self._numbers)
        if repeated:
            key = entry.peer, entry.direction, entry.action, entry.outcome, entry.detail
            known = self._pending.get(key)
            if known is not None:
                known.times += 1
                return
        is_unauthenticated = entry.peer is None
        if len(self._pending) >= self._most or (
            is_unauthenticated
            and self._allowance.take(_ALL_UNAUTHENTICATED, self._unauthenticated_rate, now) is not None
        ):
            self._drop(entry)
            return
        self._pending[key] = _BufferedEntry(entry)

    def take(self) -> AuditBatch:
        """Remove and return all buffered entries."""
        batch = AuditBatch(tuple(map(_counted, self._pending.values())), self._lost, self._lost_at_ms)
        self._pending = {}
        self._lost = 0
        return batch

    def give_back(self, batch: AuditBatch) -> None:
        """Put back entries that could not be written, before those buffered since."""
        since = self._pending
        self._pending = {}
        self._lost += batch.lost
        self._lost_at_ms = max(self._lost_at_ms, batch.lost_at_ms)
        for entry in batch.entries:
            self._pending[next(self._numbers)] = _BufferedEntry(entry)
        for key, buffered in since.items():
            if len(self._pending) < self._most:
                self._pending[key] = buffered
            else:
                self._drop(buffered.entry, buffered.times)

    def _drop(self, entry: AuditEntry, times: int = 1) -> None:
        self._lost += times
        self.lost += times
        self._lost_at_ms = entry.at_ms

    def __len__(self) -> int:
        return len(self._pending)


def _counted(buffered: _BufferedEntry) -> AuditEntry:
    if buffered.times == 1:
        return buffered.entry
    detail = f"{buffered.entry.detail} ({buffered.times} times)" if buffered.entry.detail else f"{buffered.times} times"
    return replace(buffered.entry, detail=detail)
