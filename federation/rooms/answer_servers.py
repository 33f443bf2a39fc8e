"""What other servers ask about rooms and events.

What other servers may ask of a room's events, read from the query or the body. Server-server API,
"Retrieving events" and "Backfilling and retrieving missing events".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import orjson

from federation.events import EventId, Pdu
from federation.matrix.errors import MatrixError
from federation.rooms.read import RoomReading

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


class RoomRequests:
    """Every answer is JSON, put together from events as they are kept; every refusal is a `MatrixError`."""

    def __init__(self, server_name: str, rooms: RoomReading) -> None:
        self._server_name = server_name
        self._rooms = rooms

    async def event(self, origin: str, event_id: EventId, now_ms: int) -> bytes:
        """`GET /event/{eventId}`. Server ACLs do not speak of it."""
        event = (await self._rooms.known_events([event_id])).get(event_id)
        if event is None or event.verdict == "rejected":
            raise MatrixError("M_NOT_FOUND", "There is no such event here.", 404)
        await self._refuse_outsiders(origin, event.pdu.room_id)
        shown = await self._rooms.shown_to_server(origin, [event.pdu])
        head = orjson.dumps({"origin": self._server_name, "origin_server_ts": now_ms})
        return head[:-1] + b"," + _lists({"pdus": shown})[1:]

    async def state_ids(self, origin: str, room_id: str, query: Mapping[str, str]) -> bytes:
        """The state before an event, as ids."""
        ids, chain = await self._state(origin, room_id, query)
        return orjson.dumps({"pdu_ids": ids, "auth_chain_ids": chain})

    async def state(self, origin: str, room_id: str, query: Mapping[str, str]) -> bytes:
        """The state before an event, as events."""
        ids, chain = await self._state(origin, room_id, query)
        events = await self._rooms.events([*ids, *chain])
        return _lists({"pdus": _those(ids, events), "auth_chain": _those(chain, events)})

    async def _state(
        self, origin: str, room_id: str, query: Mapping[str, str]
    ) -> tuple[tuple[EventId, ...], tuple[EventId, ...]]:
        await self._admit(origin, room_id)
        found = await self._rooms.state_ids(room_id, event_id(query))
        if found is None:
            raise MatrixError("M_NOT_FOUND", "The state before that event is not known here.", 404)
        return found.pdu_ids, found.auth_chain_ids

    async def event_auth(self, origin: str, room_id: str, event_id: EventId) -> bytes:
        """The auth chain of an event."""
        await self._admit(origin, room_id)
        event = (await self._rooms.events([event_id])).get(event_id)
        if event is None or event.room_id != room_id:
            raise MatrixError("M_NOT_FOUND", "There is no such event in that room here.", 404)
        chain = await self._rooms.auth_chain([event_id])
        return _lists({"auth_chain": (await self._rooms.events(chain)).values()})

    async def backfill(
        self, origin: str, room_id: str, start: list[str], limit: str | None, now_ms: int
    ) -> bytes:
        """Events and what lies before them, as far as the server may see it."""
        await self._admit(origin, room_id)
        events = await self._rooms.backfill(room_id, *backfill(start, limit))
        shown = await self._rooms.shown_to_server(origin, events)
        head = orjson.dumps({"origin": self._server_name, "origin_server_ts": now_ms})
        return head[:-1] + b"," + _lists({"pdus": shown})[1:]

    async def missing_events(self, origin: str, room_id: str, body: object) -> bytes:
        """What lies between the events that the server has and those that it has heard of."""
        await self._admit(origin, room_id)
        asked = missing_events(body)
        events = await self._rooms.missing_events(
            room_id,
            earliest=asked.earliest,
            latest=asked.latest,
            limit=asked.limit,
            min_depth=asked.min_depth,
        )
        return _lists({"events": await self._rooms.shown_to_server(origin, events)})

    async def timestamp_to_event(self, origin: str, room_id: str, query: Mapping[str, str]) -> bytes:
        """The event next to a time."""
        await self._admit(origin, room_id)
        found = await self._rooms.nearest_to(room_id, *moment(query))
        if found is None:
            raise MatrixError("M_NOT_FOUND", "There is no event on that side of that time.", 404)
        event_id, origin_server_ts = found
        return orjson.dumps({"event_id": event_id, "origin_server_ts": origin_server_ts})

    async def _admit(self, origin: str, room_id: str) -> None:
        """Servers of the room that its ACL lets take part."""
        await self._refuse_outsiders(origin, room_id)
        acl = await self._rooms.acl(room_id)
        if acl is None or not acl.allows(origin):
            raise MatrixError("M_FORBIDDEN", "The room's m.room.server_acl keeps your server out.", 403)

    async def _refuse_outsiders(self, origin: str, room_id: str) -> None:
        """The same for a room that is unknown: whether it is, is no business of those outside."""
        if "\0" in room_id or not await self._rooms.is_server_in_room(room_id, origin):
            raise MatrixError("M_FORBIDDEN", "Your server is not in that room.", 403)


def _those(event_ids: Iterable[EventId], events: Mapping[EventId, Pdu]) -> list[Pdu]:
    return [events[event_id] for event_id in event_ids if event_id in events]


def _lists(named: Mapping[str, Iterable[Pdu]]) -> bytes:
    """An object of lists of events. They are written canonically already."""
    members = (
        b'"%b":[%b]' % (name.encode(), b",".join(pdu.canonical for pdu in pdus))
        for name, pdus in named.items()
    )
    return b"{%b}" % b",".join(members)
