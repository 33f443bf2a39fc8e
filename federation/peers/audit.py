"""The audit of what servers do to each other: what is written down of a request.

Identifiers, how it ended and, where it was refused, in which words. Never what was said in it: no content, no
query but the identifiers in it, no header.

What is to be written into the audit a moment later: no more than fits, and what does not is counted.
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
from federation.peers.acts import Act
from federation.peers.limits import Buckets, Rate

LONGEST_DETAIL: Final = 300
"""Characters."""
EVERYBODY: Final = "*"
"""In the place of a peer: what is sent to all. No server can be called so."""


class Direction(StrEnum):
    IN = "in"
    """Another server asked us."""
    OUT = "out"
    """We asked another server."""


class Ending(StrEnum):
    """How it ended. Few, so that they can be searched for."""

    DONE = "done"
    REFUSED = "refused"
    UNAUTHENTICATED = "unauthenticated"
    """Refused before it was clear who asks."""
    RATE_LIMITED = "rate_limited"
    FAILED = "failed"
    """By a fault of whoever was asked."""
    NOT_ALLOWED = "not_allowed"
    """By our own rule never sent."""
    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed_out"
    MALFORMED = "malformed"
    """The answer was none."""
    ABANDONED = "abandoned"
    """Whoever wanted it did not wait for the end."""
    LOST = "lost"
    """Too many to be kept: how many, and nothing else of them."""


_OF_OUTCOME: Final[Mapping[Outcome, Ending]] = {
    Outcome.ANSWERED: Ending.DONE,
    Outcome.NOT_ALLOWED: Ending.NOT_ALLOWED,
    Outcome.UNREACHABLE: Ending.UNREACHABLE,
    Outcome.TLS: Ending.UNREACHABLE,
    Outcome.TIMED_OUT: Ending.TIMED_OUT,
    Outcome.REFUSED: Ending.REFUSED,
    Outcome.FAILED: Ending.FAILED,
    Outcome.MALFORMED: Ending.MALFORMED,
}


@dataclass(frozen=True, slots=True)
class Named:
    """Whom and what a request is about, as far as it is one of each."""

    user_id: str | None = None
    room_id: str | None = None
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """`peer` is None for whoever has not shown who he is."""

    at_ms: int
    peer: str | None
    direction: Direction
    act: str
    ending: Ending
    named: Named = Named()
    detail: str | None = None


def named(
    act: Act, places: Mapping[str, str], query: Mapping[str, str], content: Mapping[str, Any] | None
) -> Named:
    """`places`: what stands in the places of the path, by their names, in either spelling (`room_id`,
    `roomId`); `content`: what was signed, parsed; nobody has looked at it."""
    found = {name.replace("_", "").lower(): value for name, value in places.items()}
    said = content or {}
    return Named(
        cut(found.get("userid") or query.get("user_id") or _user_in(act, said)),
        cut(found.get("roomid")),
        cut(_subject(found, query) or _asked_about(act, said)),
    )


def places_in(template: str, uri: str) -> dict[str, str]:
    """What stands in the places of a template, by their names, in the path of a request of ours."""
    path = uri.partition("?")[0].split("/")
    return {
        name[1:-1]: unquote(segment)
        for name, segment in zip(template.split("/"), path, strict=False)
        if name.startswith("{")
    }


def query_in(uri: str) -> dict[str, str]:
    """The query of a request of ours."""
    return dict(parse_qsl(uri.partition("?")[2]))


def ending_of_refusal(error: MatrixError, *, authenticated: bool) -> tuple[Ending, str]:
    """How a request to us ended that was refused, and the words that were given for it."""
    detail = f"{error.status} {error.errcode}: {error.text}"
    if error.status == 429:
        return Ending.RATE_LIMITED, detail
    if error.status >= 500:
        return Ending.FAILED, detail
    return (Ending.REFUSED if authenticated else Ending.UNAUTHENTICATED), detail


def ending_of_problem(problem: BaseException | None) -> tuple[Ending, str | None]:
    """How a request of ours ended, and what went wrong."""
    if problem is None:
        return Ending.DONE, None
    if not isinstance(problem, PeerError):
        return Ending.ABANDONED, None
    if isinstance(problem, PeerRefused) and problem.status == 429:
        return Ending.RATE_LIMITED, problem.problem
    return _OF_OUTCOME[outcome_of(problem)], problem.problem


def named_by_transaction(transaction_id: str, pdus: Iterable[Any]) -> Named:
    """Events of several rooms are of none: a transaction is one row."""
    rooms = set(map(room_id_of, pdus))
    room_id = rooms.pop() if len(rooms) == 1 else None
    return Named(None, cut(room_id), cut(transaction_id))


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


def cut(value: Any) -> str | None:
    """No longer than an identifier, and nothing that a column cannot hold."""
    if not isinstance(value, str) or not value:
        return None
    if len(value) <= MAX_BYTES and value.isascii() and "\0" not in value:
        return value
    text = value[:MAX_BYTES].replace("\0", "\ufffd")
    return text.encode("utf-8", "replace").decode("utf-8")


def cut_detail(text: str | None) -> str | None:
    """As much as a row holds, in one line."""
    if text is None:
        return None
    return "".join(one if one.isprintable() else " " for one in text[:LONGEST_DETAIL])


def _subject(places: Mapping[str, str], query: Mapping[str, str]) -> str | None:
    for name in ("eventid", "txnid", "mediaid"):
        if name in places:
            return places[name]
    return query.get("event_id") or query.get("room_alias") or places.get("servername")


def _user_in(act: Act, content: Mapping[str, Any]) -> Any:
    """Whom a membership is of, or whose devices are asked for, where that is one."""
    match act.name:
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


def _asked_about(act: Act, content: Mapping[str, Any]) -> Any:
    return _only(content.get("server_keys")) if act.name == "notary_query" else None


def _only(members: Any) -> Any:
    return next(iter(members)) if isinstance(members, dict) and len(members) == 1 else None


MOST: Final = 10_000
OF_STRANGERS: Final = Rate(10, 100)
"""Rows for those who have not shown who they are: they must not be able to fill the disk."""

_COUNTED: Final = frozenset({Ending.UNAUTHENTICATED, Ending.RATE_LIMITED})
_ANYBODY: Final = "anybody"


@dataclass(slots=True)
class _Noted:
    entry: Entry
    times: int = 1


@dataclass(frozen=True, slots=True)
class Batch:
    """What was noted, in its order, and how much was lost until when."""

    entries: tuple[Entry, ...]
    lost: int
    lost_at_ms: int

    def to_be_written(self) -> list[Entry]:
        """That something was lost is a row too."""
        if not self.lost:
            return list(self.entries)
        said = f"{self.lost} acts were too many to be kept"
        return [
            *self.entries,
            Entry(self.lost_at_ms, None, Direction.IN, "audit", Ending.LOST, detail=said),
        ]


class AuditBuffer:
    """`now` is seconds of a clock that never runs backwards.

    The same refusal over and over is one row with a number.
    """

    def __init__(self, most: int = MOST, of_strangers: Rate = OF_STRANGERS) -> None:
        self._most = most
        self._of_strangers = of_strangers
        self._allowance: Buckets[str] = Buckets(1)
        self._numbers = count()
        self._noted: dict[Hashable, _Noted] = {}
        self._lost = 0
        self._lost_at_ms = 0
        self.lost = 0
        """Since the beginning."""

    def note(self, entry: Entry, now: float) -> None:
        repeated = entry.peer is None or entry.ending in _COUNTED
        key: Hashable = next(self._numbers)
        if repeated:
            key = entry.peer, entry.direction, entry.act, entry.ending, entry.detail
            known = self._noted.get(key)
            if known is not None:
                known.times += 1
                return
        is_stranger = entry.peer is None
        if len(self._noted) >= self._most or (
            is_stranger and self._allowance.take(_ANYBODY, self._of_strangers, now) is not None
        ):
            self._lose(entry)
            return
        self._noted[key] = _Noted(entry)

    def take(self) -> Batch:
        """All that is noted; it is forgotten here."""
        batch = Batch(tuple(map(_counted, self._noted.values())), self._lost, self._lost_at_ms)
        self._noted = {}
        self._lost = 0
        return batch

    def give_back(self, batch: Batch) -> None:
        """It could not be written. It comes before what was noted since."""
        since = self._noted
        self._noted = {}
        self._lost += batch.lost
        self._lost_at_ms = max(self._lost_at_ms, batch.lost_at_ms)
        for entry in batch.entries:
            self._noted[next(self._numbers)] = _Noted(entry)
        for key, noted in since.items():
            if len(self._noted) < self._most:
                self._noted[key] = noted
            else:
                self._lose(noted.entry, noted.times)

    def _lose(self, entry: Entry, times: int = 1) -> None:
        self._lost += times
        self.lost += times
        self._lost_at_ms = entry.at_ms

    def __len__(self) -> int:
        return len(self._noted)


def _counted(noted: _Noted) -> Entry:
    if noted.times == 1:
        return noted.entry
    detail = f"{noted.entry.detail} ({noted.times} times)" if noted.entry.detail else f"{noted.times} times"
    return replace(noted.entry, detail=detail)
