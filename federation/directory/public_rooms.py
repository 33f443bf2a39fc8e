"""The published room directory: requests, filtering, pagination, and the directories of other servers.

Client-server API, "Published room directory"; server-server API, "Published room directory".
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from federation.client.client import FederationClient
from federation.client.errors import PeerMalformed
from federation.client.requests import request_target
from federation.directory.room_summary import MAX_MEMBERS, RoomSummaries, RoomSummary, parse_summary
from federation.matrix.errors import MatrixError
from storage.database import Database
from storage.rooms.aliases import list_published_rooms

MAX_ROOMS: Final = 100
"""The most rooms on a page. As in Synapse."""
MAX_BYTES: Final = 512 * 1024
"""The largest page, except for a single larger room: topics may have 60 kB."""
MAX_CHARACTERS: Final = 1_000
"""The longest search term, pagination token of another server, and third-party network name."""
MAX_TYPES: Final = 100
MAX_PARSED: Final = 1_000
"""The most rooms that are read from another server's response."""

# The fields of a directory entry; other fields of a summary are for spaces.
_LISTED: Final = (
    "room_id", "num_joined_members", "world_readable", "guest_can_join", "name", "topic", "canonical_alias",
    "avatar_url", "join_rule", "room_type",
)  # fmt: skip
_SEARCHED: Final = ("name", "topic", "canonical_alias")

# `n` or `p` for next and previous, then the position of the room at which the previous page ended: the
# number of its joined members, and its id. Positions are only compared, so an invented one is harmless.
_SINCE: Final = re.compile(r"([np])([0-9]{1,16})(.{0,255})", re.ASCII | re.DOTALL)
_BEFORE_ALL: Final = "9999999999999999"
_AFTER_ALL: Final = "0~"

SortKey = tuple[int, str]
"""The sort key: the largest rooms come first, and rooms of equal size are sorted by id."""


@dataclass(frozen=True, slots=True)
class PageToken:
    key: SortKey
    forwards: bool


@dataclass(frozen=True, slots=True)
class RoomsQuery:
    limit: int = MAX_ROOMS
    since: PageToken | str | None = None
    """A string is a token of another server, which only that server can interpret."""
    words: tuple[str, ...] = ()
    """Each of them must occur in the name, topic or alias of a room."""
    room_types: frozenset[str | None] | None = None
    """None means all types. None in the set means rooms without a type."""
    network: str | None = None
    """A third-party network; this server has none."""
    term: str | None = None
    """The search term as requested."""


# -- requests --


def from_query(query: Mapping[str, str], *, remote: bool = False) -> RoomsQuery:
    """Parse the query of a GET. `remote`: the request is for another server's directory."""
    limit = query.get("limit")
    return RoomsQuery(
        limit=_limit(None if limit is None else _number(limit)),
        since=_since(query.get("since"), remote=remote),
        network=query.get("third_party_instance_id") or None,
    )


def from_body(body: object, *, remote: bool = False) -> RoomsQuery:
    """Parse the body of a POST."""
    if not isinstance(body, dict):
        raise MatrixError("M_BAD_JSON", "The body must be an object.")
    limit, filter_ = body.get("limit"), body.get("filter")
    if limit is not None and type(limit) is not int:
        raise MatrixError("M_BAD_JSON", "limit must be an integer.")
    if filter_ is not None and not isinstance(filter_, dict):
        raise MatrixError("M_BAD_JSON", "filter must be an object.")
    filter_ = filter_ or {}
    term = _text(filter_, "generic_search_term")
    return RoomsQuery(
        limit=_limit(limit),
        since=_since(_text(body, "since"), remote=remote),
        words=tuple((term or "").casefold().split()),
        room_types=_types(filter_.get("room_types")),
        network=_text(body, "third_party_instance_id") or None,
        term=term,
    )


def _limit(limit: int | None) -> int:
    # "The maximum number of rooms to return. Defaults to 0 (no limit)."
    if limit is not None and limit < 0:
        raise MatrixError("M_INVALID_PARAM", "limit must not be negative.")
    return min(limit or MAX_ROOMS, MAX_ROOMS)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise MatrixError("M_INVALID_PARAM", "limit must be an integer.")
    return int(text)


def _since(text: str | None, *, remote: bool) -> PageToken | str | None:
    if not text:
        return None
    if remote and len(text) <= MAX_CHARACTERS:
        return text
    match = None if remote else _SINCE.fullmatch(text)
    if match is None:
        raise MatrixError("M_INVALID_PARAM", "since is not a valid pagination token.")
    return PageToken((-int(match[2]), match[3]), match[1] == "n")


def _text(body: Mapping[str, Any], name: str) -> str | None:
    text = body.get(name)
    if text is not None and not isinstance(text, str):
        raise MatrixError("M_BAD_JSON", f"{name} must be a string.")
    if text is not None and len(text) > MAX_CHARACTERS:
        raise MatrixError("M_INVALID_PARAM", f"{name} must have at most {MAX_CHARACTERS} characters.")
    return text


def _types(types: object) -> frozenset[str | None] | None:
    if types is None:
        return None
    if not isinstance(types, list) or not all(one is None or isinstance(one, str) for one in types):
        raise MatrixError("M_BAD_JSON", "room_types must be a list of strings, or null for rooms without a type.")
    if len(types) > MAX_TYPES:
        raise MatrixError("M_INVALID_PARAM", f"room_types must have at most {MAX_TYPES} entries.")
    return frozenset(types)


# -- responses --


def is_listed(room: RoomSummary, requester: str | None) -> bool:
    """Whether a published room is listed for the requester: another server, or None for local users.

    A room that outsiders can neither enter nor read is not listed, although it is published.
    """
    return room.is_open and (requester is None or not room.excludes(requester))


def page(rooms: Iterable[RoomSummary], query: RoomsQuery) -> dict[str, Any]:
    """Return a page of the matching rooms, largest first."""
    found = () if query.network is not None else (room.fields for room in rooms)
    matching = sorted((room for room in found if _matches(room, query)), key=_sort_key)
    start, end = _bounds(matching, query)
    response: dict[str, Any] = {
        "chunk": [_listed(room) for room in matching[start:end]],
        "total_room_count_estimate": len(matching),
    }
    if start > 0:
        response["prev_batch"] = "p" + (_token(matching[start]) if start < len(matching) else _AFTER_ALL)
    if end < len(matching):
        response["next_batch"] = "n" + (_token(matching[end - 1]) if end > 0 else _BEFORE_ALL)
    return response


def _matches(room: Mapping[str, Any], query: RoomsQuery) -> bool:
    if query.room_types is not None and room.get("room_type") not in query.room_types:
        return False
    if not query.words:
        return True
    texts = [room[name].casefold() for name in _SEARCHED if name in room]
    return all(any(word in text for text in texts) for word in query.words)


def _bounds(matching: Sequence[Mapping[str, Any]], query: RoomsQuery) -> tuple[int, int]:
    """Return the range of rooms on the page, next to the end of the previous page."""
    since = query.since
    assert not isinstance(since, str), "a string is a token of another server"
    if since is None or since.forwards:
        start = 0 if since is None else bisect_right(matching, since.key, key=_sort_key)
        return start, start + _count_fitting(matching[start : start + query.limit])
    end = bisect_left(matching, since.key, key=_sort_key)
    return end - _count_fitting(matching[max(end - query.limit, 0) : end][::-1]), end


def _count_fitting(rooms: Sequence[Mapping[str, Any]]) -> int:
    """Return how many of the rooms fit on a page; at least one, so that pagination makes progress."""
    size = 0
    for number, room in enumerate(rooms):
        size += len(orjson.dumps(_listed(room)))
        if size > MAX_BYTES:
            return max(number, 1)
    return len(rooms)


def _listed(room: Mapping[str, Any]) -> dict[str, Any]:
    return {name: room[name] for name in _LISTED if name in room}


def _sort_key(room: Mapping[str, Any]) -> SortKey:
    return -room["num_joined_members"], room["room_id"]


def _token(room: Mapping[str, Any]) -> str:
    return f"{room['num_joined_members']}{room['room_id']}"


# -- directories of other servers --


def is_search(query: RoomsQuery) -> bool:
    """Whether the request needs a POST."""
    return bool(query.words) or query.room_types is not None


def encode_query(query: RoomsQuery) -> list[tuple[str, str]]:
    """Return the query of a GET."""
    assert not is_search(query), "a search needs a POST"
    return [(name, str(value)) for name, value in _common(query).items()]


def encode_body(query: RoomsQuery) -> dict[str, Any]:
    """Return the body of a POST."""
    filter_: dict[str, Any] = {}
    if query.term:
        filter_["generic_search_term"] = query.term
    if query.room_types is not None:
        # null is sorted first.
        filter_["room_types"] = sorted(query.room_types, key=lambda one: one or "")
    return {**_common(query), "filter": filter_}


def _common(query: RoomsQuery) -> dict[str, Any]:
    params: dict[str, Any] = {"limit": query.limit}
    if isinstance(query.since, str):
        params["since"] = query.since
    if query.network is not None:
        params["third_party_instance_id"] = query.network
    return params


def parse_page(response: Mapping[str, Any]) -> dict[str, Any] | None:
    """Parse another server's response, leaving out invalid parts. None if it has no list of rooms."""
    chunk = response.get("chunk")
    if not isinstance(chunk, list):
        return None
    rooms = [fields for entry in chunk[:MAX_PARSED] if (fields := parse_summary(entry)) is not None]
    page: dict[str, Any] = {"chunk": [_listed(room) for room in rooms]}
    for name in ("next_batch", "prev_batch"):
        token = response.get(name)
        if isinstance(token, str) and 0 < len(token) <= MAX_CHARACTERS:
            page[name] = token
    estimate = response.get("total_room_count_estimate")
    if type(estimate) is int and 0 <= estimate <= MAX_MEMBERS:
        page["total_room_count_estimate"] = estimate
    return page


PATH: Final = "/_matrix/federation/v1/publicRooms"


class PublicRooms:
    """The published rooms of this server and of others. `public_rooms_over_federation`: whether other
    servers may query those of this server."""

    def __init__(
        self,
        database: Database,
        client: FederationClient,
        summaries: RoomSummaries,
        *,
        public_rooms_over_federation: bool = True,
    ) -> None:
        self._database = database
        self._client = client
        self._summaries = summaries
        self._over_federation = public_rooms_over_federation

    async def local(self, query: RoomsQuery) -> dict[str, Any]:
        """Return a page of this server's directory for local users."""
        return page(await self._published(None), query)

    async def handle_query(self, origin: str, query: RoomsQuery) -> dict[str, Any]:
        """Return a page of this server's directory for another server."""
        if not self._over_federation:
            raise MatrixError("M_FORBIDDEN", "This server shows its room directory to its own users only.", 403)
        return page(await self._published(origin), query)

    async def remote(self, server: str, query: RoomsQuery) -> dict[str, Any]:
        """Return a page of another server's directory. Raises `PeerError`. The request was parsed with
        `remote`."""
        if is_search(query):
            response = await self._client.request("POST", server, request_target(PATH), encode_body(query))
        else:
            response = await self._client.request("GET", server, request_target(PATH, query=encode_query(query)))
        parsed = parse_page(response)
        if parsed is None:
            raise PeerMalformed(server, "responded without a list of rooms")
        return parsed

    async def _published(self, requester: str | None) -> list[RoomSummary]:
        async with self._database.transaction(readonly=True) as connection:
            room_ids = await list_published_rooms(connection)
        rooms = await self._summaries.of_all(room_ids)
        return [room for room in rooms.values() if is_listed(room, requester)]
