"""What other servers may ask of a room's events, read from the query or the body. Server-server API,
"Retrieving events" and "Backfilling and retrieving missing events"."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from federation.errors import MatrixError
from federation.pdu import EventId

MAX_BACKFILL: Final = 100
MAX_MISSING: Final = 20
"""As in Synapse. More can be asked for, and so much is given."""
MAX_NAMED: Final = 100
"""Event ids in one request."""


@dataclass(frozen=True, slots=True)
class MissingEvents:
    earliest: tuple[EventId, ...]
    latest: tuple[EventId, ...]
    limit: int
    min_depth: int


def missing_events(body: object) -> MissingEvents:
    """The body of `get_missing_events`: "`limit`: The maximum number of events to retrieve. Defaults to 10",
    "`min_depth`: The minimum depth of events to retrieve. Defaults to 0"."""
    if not isinstance(body, dict):
        raise MatrixError("M_BAD_JSON", "The body is an object.")
    return MissingEvents(
        _event_ids(body, "earliest_events"),
        _event_ids(body, "latest_events"),
        max(0, min(_integer(body, "limit", 10), MAX_MISSING)),
        _integer(body, "min_depth", 0),
    )


def backfill(events: Sequence[str], limit: str | None) -> tuple[tuple[EventId, ...], int]:
    """`v`: "The event IDs to backfill from", `limit`: "The maximum number of PDUs to retrieve"."""
    if not events:
        raise MatrixError("M_MISSING_PARAM", "v is missing: the events to start from.")
    if len(events) > MAX_NAMED:
        raise MatrixError("M_INVALID_PARAM", f"v is given more than {MAX_NAMED} times.")
    if limit is None:
        raise MatrixError("M_MISSING_PARAM", "limit is missing.")
    return tuple(map(_without_nul, events)), max(0, min(_number(limit, "limit"), MAX_BACKFILL))


def moment(query: Mapping[str, str]) -> tuple[int, Literal["forwards", "backwards"]]:
    """`ts` and `dir` of `timestamp_to_event`."""
    if "ts" not in query:
        raise MatrixError("M_MISSING_PARAM", "ts is missing.")
    direction = query.get("dir", "f")
    if direction not in ("f", "b"):
        raise MatrixError("M_INVALID_PARAM", "dir is f or b.")
    return _number(query["ts"], "ts"), "forwards" if direction == "f" else "backwards"


def event_id(query: Mapping[str, str]) -> EventId:
    """`event_id` of `state` and `state_ids`."""
    if not query.get("event_id"):
        raise MatrixError("M_MISSING_PARAM", "event_id is missing.")
    return _without_nul(query["event_id"])


def _event_ids(body: Mapping[str, object], name: str) -> tuple[EventId, ...]:
    ids = body.get(name, [])
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise MatrixError("M_BAD_JSON", f"{name} is a list of event ids.")
    if len(ids) > MAX_NAMED:
        raise MatrixError("M_INVALID_PARAM", f"{name} has more than {MAX_NAMED} entries.")
    return tuple(map(_without_nul, ids))


def _without_nul(text: str) -> str:
    # No id holds one, and Postgres takes no text with one.
    if "\0" in text:
        raise MatrixError("M_INVALID_PARAM", "An id holds NUL.")
    return text


def _integer(body: Mapping[str, object], name: str, default: int) -> int:
    value = body.get(name, default)
    if type(value) is not int:
        raise MatrixError("M_BAD_JSON", f"{name} is an integer.")
    return value


def _number(text: str, name: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        raise MatrixError("M_INVALID_PARAM", f"{name} is no integer.")
    return int(text)
