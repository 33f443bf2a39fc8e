"""Answers requests of other servers for events and states.

Server-server API, "Retrieving events" and "Backfilling and retrieving missing events". The functions parse
the requests; `RoomRequestHandler` answers them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import orjson

from federation.events import EventId, Pdu
from federation.matrix.errors import MatrixError
from federation.rooms.read import RoomReader

MAX_BACKFILL: Final = 100
MAX_MISSING: Final = 20
"""As in Synapse. A request may ask for more, and then gets this many."""
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
        raise MatrixError("M_BAD_JSON", "The body must be an object.")
    return MissingEvents(
        _event_ids(body, "earliest_events"),
        _event_ids(body, "latest_events"),
        max(0, min(_integer(body, "limit", 10), MAX_MISSING)),
        _integer(body, "min_depth", 0),
    )


def backfill(events: Sequence[str], limit: str | None) -> tuple[tuple[EventId, ...], int]:
    """`v`: "The event IDs to backfill from", `limit`: "The maximum number of PDUs to retrieve"."""
    if not events:
        raise MatrixError("M_MISSING_PARAM", "v, the events to start from, is missing.")
    if len(events) > MAX_NAMED:
        raise MatrixError("M_INVALID_PARAM", f"v is given more than {MAX_NAMED} times.")
    if limit is None:
        raise MatrixError("M_MISSING_PARAM", "limit is missing.")
    return tuple(map(_without_nul, events)), max(0, min(_number(limit, "limit"), MAX_BACKFILL))


def parse_timestamp(query: Mapping[str, str]) -> tuple[int, Literal["forwards", "backwards"]]:
    """`ts` and `dir` of `timestamp_to_event`."""
    if "ts" not in query:
        raise MatrixError("M_MISSING_PARAM", "ts is missing.")
    direction = query.get("dir", "f")
    if direction not in ("f", "b"):
        raise MatrixError("M_INVALID_PARAM", "dir must be f or b.")
    return _number(query["ts"], "ts"), "forwards" if direction == "f" else "backwards"


def event_id(query: Mapping[str, str]) -> EventId:
    """`event_id` of `state` and `state_ids`."""
    if not query.get("event_id"):
        raise MatrixError("M_MISSING_PARAM", "event_id is missing.")
    return _without_nul(query["event_id"])


def _event_ids(body: Mapping[str, object], name: str) -> tuple[EventId, ...]:
    ids = body.get(name, [])
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise MatrixError("M_BAD_JSON", f"{name} must be a list of event ids.")
    if len(ids) > MAX_NAMED:
        raise MatrixError("M_INVALID_PARAM", f"{name} has more than {MAX_NAMED} entries.")
    return tuple(map(_without_nul, ids))


def _without_nul(text: str) -> str:
    # No id contains NUL, and Postgres accepts no text with NUL.
    if "\0" in text:
        raise MatrixError("M_INVALID_PARAM", "An id contains NUL.")
    return text


def _integer(body: Mapping[str, object], name: str, default: int) -> int:
    value = body.get(name, default)
    if type(value) is not int:
        raise MatrixError("M_BAD_JSON", f"{name} must be an integer.")
    return value


def _number(text: str, name: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        raise MatrixError("M_INVALID_PARAM", f"{name} must be an integer.")
    return int(text)


class RoomRequestHandler:
    """Answers requests for events and states of rooms.

    Every response is JSON, assembled from the stored canonical JSON of the events. Every refusal is a
    `MatrixError`.
    """

    def __init__(self, server_name: str, rooms: RoomReader) -> None:
        self._server_name = server_name
        self._rooms = rooms

    async def event(self, origin: str, event_id: EventId, now_ms: int) -> bytes:
        """`GET /event/{eventId}`. Server ACLs do not apply to it."""
        event = (await self._rooms.known_events([event_id])).get(event_id)
        if event is None or event.verdict == "rejected":
            raise MatrixError("M_NOT_FOUND", "This server does not have that event.", 404)
        await self._require_joined(origin, event.pdu.room_id)
        visible = await self._rooms.redact_for_server(origin, [event.pdu])
        prefix = orjson.dumps({"origin": self._server_name, "origin_server_ts": now_ms})
        return prefix[:-1] + b"," + _encode_lists({"pdus": visible})[1:]

    async def state_ids(self, origin: str, room_id: str, query: Mapping[str, str]) -> bytes:
        """The state before an event, as ids."""
        ids, chain = await self._state(origin, room_id, query)
        return orjson.dumps({"pdu_ids": ids, "auth_chain_ids": chain})

    async def state(self, origin: str, room_id: str, query: Mapping[str, str]) -> bytes:
        """The state before an event, as events."""
        ids, chain = await self._state(origin, room_id, query)
        events = await self._rooms.events([*ids, *chain])
        return _encode_lists({"pdus": _known_of(ids, events), "auth_chain": _known_of(chain, events)})

    async def _state(
        self, origin: str, room_id: str, query: Mapping[str, str]
    ) -> tuple[tuple[EventId, ...], tuple[EventId, ...]]:
        await self._require_admitted(origin, room_id)
        found = await self._rooms.state_ids(room_id, event_id(query))
        if found is None:
            raise MatrixError("M_NOT_FOUND", "This server does not know the state before that event.", 404)
        return found.pdu_ids, found.auth_chain_ids

    async def event_auth(self, origin: str, room_id: str, event_id: EventId) -> bytes:
        """The auth chain of an event."""
        await self._require_admitted(origin, room_id)
        event = (await self._rooms.events([event_id])).get(event_id)
        if event is None or event.room_id != room_id:
            raise MatrixError("M_NOT_FOUND", "This server does not have that event in that room.", 404)
        chain = await self._rooms.auth_chain([event_id])
        return _encode_lists({"auth_chain": (await self._rooms.events(chain)).values()})

    async def backfill(self, origin: str, room_id: str, start: list[str], limit: str | None, now_ms: int) -> bytes:
        """The events and those before them, redacted where the server may not see them."""
        await self._require_admitted(origin, room_id)
        events = await self._rooms.backfill(room_id, *backfill(start, limit))
        visible = await self._rooms.redact_for_server(origin, events)
        prefix = orjson.dumps({"origin": self._server_name, "origin_server_ts": now_ms})
        return prefix[:-1] + b"," + _encode_lists({"pdus": visible})[1:]

    async def missing_events(self, origin: str, room_id: str, body: object) -> bytes:
        """The events between those that the server has and later ones that it knows of."""
        await self._require_admitted(origin, room_id)
        query = missing_events(body)
        events = await self._rooms.missing_events(
            room_id, earliest=query.earliest, latest=query.latest, limit=query.limit, min_depth=query.min_depth
        )
        return _encode_lists({"events": await self._rooms.redact_for_server(origin, events)})

    async def timestamp_to_event(self, origin: str, room_id: str, query: Mapping[str, str]) -> bytes:
        """The event nearest to a time in a direction."""
        await self._require_admitted(origin, room_id)
        found = await self._rooms.nearest_to(room_id, *parse_timestamp(query))
        if found is None:
            raise MatrixError("M_NOT_FOUND", "There is no event in that direction from that time.", 404)
        event_id, origin_server_ts = found
        return orjson.dumps({"event_id": event_id, "origin_server_ts": origin_server_ts})

    async def _require_admitted(self, origin: str, room_id: str) -> None:
        """Refuse servers that are not in the room or that its ACL denies."""
        await self._require_joined(origin, room_id)
        acl = await self._rooms.acl(room_id)
        if acl is None or not acl.allows(origin):
            raise MatrixError("M_FORBIDDEN", "The room's m.room.server_acl denies your server.", 403)

    async def _require_joined(self, origin: str, room_id: str) -> None:
        """Refuse servers that are not in the room. The error is the same for an unknown room, so that other
        servers cannot find out whether it exists."""
        if "\0" in room_id or not await self._rooms.is_server_in_room(room_id, origin):
            raise MatrixError("M_FORBIDDEN", "Your server is not in that room.", 403)


def _known_of(event_ids: Iterable[EventId], events: Mapping[EventId, Pdu]) -> list[Pdu]:
    return [events[event_id] for event_id in event_ids if event_id in events]


def _encode_lists(named: Mapping[str, Iterable[Pdu]]) -> bytes:
    """Encode an object of lists of events from their canonical JSON."""
    members = (b'"%b":[%b]' % (name.encode(), b",".join(pdu.canonical for pdu in pdus)) for name, pdus in named.items())
    return b"{%b}" % b",".join(members)
