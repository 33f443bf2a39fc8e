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
from federation.directory.room_summary import MOST_MEMBERS, RoomSummaries, RoomSummary, read_summary
from federation.matrix.errors import MatrixError
from storage.database import Database
from storage.rooms.aliases import list_published_rooms

MOST_ROOMS: Final = 100
"""The most rooms on a page. As in Synapse."""
MOST_BYTES: Final = 512 * 1024
"""The largest page, except for a single larger room: topics may have 60 kB."""
MOST_CHARACTERS: Final = 1_000
"""The longest search term, pagination token of another server, and third-party network name."""
MOST_TYPES: Final = 100
MOST_READ: Final = 1_000
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
_BEHIND_ALL: Final = "0~"

Place = tuple[int, str]
"""The sort key: the largest rooms come first, and rooms of equal size are sorted by id."""


@dataclass(frozen=True, slots=True)
class Since:
    place: Place
    forwards: bool


@dataclass(frozen=True, slots=True)
class Question:
    limit: int = MOST_ROOMS
    since: Since | str | None = None
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


def from_query(query: Mapping[str, str], *, elsewhere: bool = False) -> Question:
    """Parse the query of a GET. `remote`: the request is for another server's directory."""
    limit = query.get("limit")
    return Question(
        limit=_limit(None if limit is None else _number(limit)),
        since=_since(query.get("since"), elsewhere=elsewhere),
        network=query.get("third_party_instance_id") or None,
    )


def from_body(body: object, *, elsewhere: bool = False) -> Question:
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
    return Question(
        limit=_limit(limit),
        since=_since(_text(body, "since"), elsewhere=elsewhere),
        words=tuple((term or "").casefold().split()),
        room_types=_types(filter_.get("room_types")),
        network=_text(body, "third_party_instance_id") or None,
        term=term,
    )


def _limit(limit: int | None) -> int:
    # "The maximum number of rooms to return. Defaults to 0 (no limit)."
    if limit is not None and limit < 0:
        raise MatrixError("M_INVALID_PARAM", "limit must not be negative.")
    return min(limit or MOST_ROOMS, MOST_ROOMS)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise MatrixError("M_INVALID_PARAM", "limit must be an integer.")
    return int(text)


def _since(text: str | None, *, elsewhere: bool) -> Since | str | None:
    if not text:
        return None
    if elsewhere and len(text) <= MOST_CHARACTERS:
        return text
    match = None if elsewhere else _SINCE.fullmatch(text)
    if match is None:
        raise MatrixError("M_INVALID_PARAM", "since is not a valid pagination token.")
    return Since((-int(match[2]), match[3]), match[1] == "n")


def _text(body: Mapping[str, Any], name: str) -> str | None:
    text = body.get(name)
    if text is not None and not isinstance(text, str):
        raise MatrixError("M_BAD_JSON", f"{name} must be a string.")
    if text is not None and len(text) > MOST_CHARACTERS:
        raise MatrixError("M_INVALID_PARAM", f"{name} must have at most {MOST_CHARACTERS} characters.")
    return text


def _types(types: object) -> frozenset[str | None] | None:
    if types is None:
        return None
    if not isinstance(types, list) or not all(one is None or isinstance(one, str) for one in types):
        raise MatrixError(
            "M_BAD_JSON", "room_types must be a list of strings, or null for rooms without a type."
        )
    if len(types) > MOST_TYPES:
        raise MatrixError("M_INVALID_PARAM", f"room_types must have at most {MOST_TYPES} entries.")
    return frozenset(types)


# -- responses --


def is_listed(room: RoomSummary, asker: str | None) -> bool:
    """Whether a published room is listed for the requester: another server, or None for local users.

    A room that outsiders can neither enter nor read is not listed, although it is published.
    """
    return room.is_open and (asker is None or not room.shuts_out(asker))


def page(rooms: Iterable[RoomSummary], question: Question) -> dict[str, Any]:
    """Return a page of the matching rooms, largest first."""
    found = () if question.network is not None else (room.said for room in rooms)
    matching = sorted((room for room in found if _matches(room, question)), key=_place)
    start, end = _bounds(matching, question)
    answer: dict[str, Any] = {
        "chunk": [_listed(room) for room in matching[start:end]],
        "total_room_count_estimate": len(matching),
    }
    if start > 0:
        answer["prev_batch"] = "p" + (_written(matching[start]) if start < len(matching) else _BEHIND_ALL)
    if end < len(matching):
        answer["next_batch"] = "n" + (_written(matching[end - 1]) if end > 0 else _BEFORE_ALL)
    return answer


def _matches(room: Mapping[str, Any], question: Question) -> bool:
    if question.room_types is not None and room.get("room_type") not in question.room_types:
        return False
    if not question.words:
        return True
    said = [room[name].casefold() for name in _SEARCHED if name in room]
    return all(any(word in text for text in said) for word in question.words)


def _bounds(matching: Sequence[Mapping[str, Any]], question: Question) -> tuple[int, int]:
    """Return the range of rooms on the page, next to the end of the previous page."""
    since = question.since
    assert not isinstance(since, str), "a string is a token of another server"
    if since is None or since.forwards:
        start = 0 if since is None else bisect_right(matching, since.place, key=_place)
        return start, start + _fitting(matching[start : start + question.limit])
    end = bisect_left(matching, since.place, key=_place)
    return end - _fitting(matching[max(end - question.limit, 0) : end][::-1]), end


def _fitting(rooms: Sequence[Mapping[str, Any]]) -> int:
    """Return how many of the rooms fit on a page; at least one, so that pagination makes progress."""
    size = 0
    for number, room in enumerate(rooms):
        size += len(orjson.dumps(_listed(room)))
        if size > MOST_BYTES:
            return max(number, 1)
    return len(rooms)


def _listed(room: Mapping[str, Any]) -> dict[str, Any]:
    return {name: room[name] for name in _LISTED if name in room}


def _place(room: Mapping[str, Any]) -> Place:
    return -room["num_joined_members"], room["room_id"]


def _written(room: Mapping[str, Any]) -> str:
    return f"{room['num_joined_members']}{room['room_id']}"


# -- directories of other servers --


def is_search(question: Question) -> bool:
    """Whether the request needs a POST."""
    return bool(question.words) or question.room_types is not None


def query_of(question: Question) -> list[tuple[str, str]]:
    """Return the query of a GET."""
    assert not is_search(question), "a search needs a POST"
    return [(name, str(value)) for name, value in _common(question).items()]


def body_of(question: Question) -> dict[str, Any]:
    """Return the body of a POST."""
    filter_: dict[str, Any] = {}
    if question.term:
        filter_["generic_search_term"] = question.term
    if question.room_types is not None:
        # null is sorted first.
        filter_["room_types"] = sorted(question.room_types, key=lambda one: one or "")
    return {**_common(question), "filter": filter_}


def _common(question: Question) -> dict[str, Any]:
    asked: dict[str, Any] = {"limit": question.limit}
    if isinstance(question.since, str):
        asked["since"] = question.since
    if question.network is not None:
        asked["third_party_instance_id"] = question.network
    return asked


def read_page(answer: Mapping[str, Any]) -> dict[str, Any] | None:
    """Parse another server's response, leaving out invalid parts. None if it has no list of rooms."""
    chunk = answer.get("chunk")
    if not isinstance(chunk, list):
        return None
    rooms = [said for entry in chunk[:MOST_READ] if (said := read_summary(entry)) is not None]
    page: dict[str, Any] = {"chunk": [_listed(room) for room in rooms]}
    for name in ("next_batch", "prev_batch"):
        token = answer.get(name)
        if isinstance(token, str) and 0 < len(token) <= MOST_CHARACTERS:
            page[name] = token
    estimate = answer.get("total_room_count_estimate")
    if type(estimate) is int and 0 <= estimate <= MOST_MEMBERS:
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

    async def local(self, question: Question) -> dict[str, Any]:
        """Return a page of this server's directory for local users."""
        return page(await self._published(None), question)

    async def answer(self, origin: str, question: Question) -> dict[str, Any]:
        """Return a page of this server's directory for another server."""
        if not self._over_federation:
            raise MatrixError(
                "M_FORBIDDEN", "This server shows its room directory to its own users only.", 403
            )
        return page(await self._published(origin), question)

    async def remote(self, server: str, question: Question) -> dict[str, Any]:
        """Return a page of another server's directory. Raises `PeerError`. The request was parsed with
        `remote`."""
        if is_search(question):
            answer = await self._client.request("POST", server, request_target(PATH), body_of(question))
        else:
            answer = await self._client.request("GET", server, request_target(PATH, query=query_of(question)))
        read = read_page(answer)
        if read is None:
            raise PeerMalformed(server, "responded without a list of rooms")
        return read

    async def _published(self, asker: str | None) -> list[RoomSummary]:
        async with self._database.transaction(readonly=True) as connection:
            room_ids = await list_published_rooms(connection)
        rooms = await self._summaries.of_all(room_ids)
        return [room for room in rooms.values() if is_listed(room, asker)]
