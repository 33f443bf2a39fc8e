"""The list of published rooms: what is asked of it, which rooms are on it, and its pages.

Client-server API, "Published room directory"; server-server API, "Published room directory".

The list of published rooms: of this server, for its users and for other servers; and of other servers.
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
"""On one page. As in Synapse."""
MOST_BYTES: Final = 512 * 1024
"""On one page, but for a single room that is larger: topics may have 60 kB."""
MOST_CHARACTERS: Final = 1_000
"""Of a search term, and of a third party's name."""
MOST_TYPES: Final = 100
MOST_READ: Final = 1_000
"""Rooms that are read of another server's answer, whatever was asked for."""

# As the specification has them; the other parts of a summary belong to spaces.
_LISTED: Final = (
    "room_id", "num_joined_members", "world_readable", "guest_can_join", "name", "topic", "canonical_alias",
    "avatar_url", "join_rule", "room_type",
)  # fmt: skip
_SEARCHED: Final = ("name", "topic", "canonical_alias")

# `n` or `p` for next and previous, and the place of the room at which the page before ended: how many have
# joined it, and its id. A place is compared and nothing else, so that one which never was does no harm.
_SINCE: Final = re.compile(r"([np])([0-9]{1,16})(.{0,255})", re.ASCII | re.DOTALL)
_BEFORE_ALL: Final = "9999999999999999"
_BEHIND_ALL: Final = "0~"

Place = tuple[int, str]
"""The largest rooms come first, and among equals the order is that of their ids."""


@dataclass(frozen=True, slots=True)
class Since:
    place: Place
    forwards: bool


@dataclass(frozen=True, slots=True)
class Question:
    limit: int = MOST_ROOMS
    since: Since | str | None = None
    """A string is another server's, which nobody else can read."""
    words: tuple[str, ...] = ()
    """Each of them must be found in what a room says of itself."""
    room_types: frozenset[str | None] | None = None
    """None: of every type. None among them: rooms that have no type."""
    network: str | None = None
    """A third party's network, of which this server has none."""
    term: str | None = None
    """The words as they were asked for."""


# -- what is asked --


def from_query(query: Mapping[str, str], *, elsewhere: bool = False) -> Question:
    """The question of a GET. `elsewhere`: the list is another server's."""
    limit = query.get("limit")
    return Question(
        limit=_limit(None if limit is None else _number(limit)),
        since=_since(query.get("since"), elsewhere=elsewhere),
        network=query.get("third_party_instance_id") or None,
    )


def from_body(body: object, *, elsewhere: bool = False) -> Question:
    """The question of a POST."""
    if not isinstance(body, dict):
        raise MatrixError("M_BAD_JSON", "The body is an object.")
    limit, filter_ = body.get("limit"), body.get("filter")
    if limit is not None and type(limit) is not int:
        raise MatrixError("M_BAD_JSON", "limit is an integer.")
    if filter_ is not None and not isinstance(filter_, dict):
        raise MatrixError("M_BAD_JSON", "filter is an object.")
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
        raise MatrixError("M_INVALID_PARAM", "limit is negative.")
    return min(limit or MOST_ROOMS, MOST_ROOMS)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise MatrixError("M_INVALID_PARAM", "limit is no number.")
    return int(text)


def _since(text: str | None, *, elsewhere: bool) -> Since | str | None:
    if not text:
        return None
    if elsewhere and len(text) <= MOST_CHARACTERS:
        return text
    match = None if elsewhere else _SINCE.fullmatch(text)
    if match is None:
        raise MatrixError("M_INVALID_PARAM", "since is not what was given out.")
    return Since((-int(match[2]), match[3]), match[1] == "n")


def _text(body: Mapping[str, Any], name: str) -> str | None:
    text = body.get(name)
    if text is not None and not isinstance(text, str):
        raise MatrixError("M_BAD_JSON", f"{name} is text.")
    if text is not None and len(text) > MOST_CHARACTERS:
        raise MatrixError("M_INVALID_PARAM", f"{name} is longer than {MOST_CHARACTERS} characters.")
    return text


def _types(types: object) -> frozenset[str | None] | None:
    if types is None:
        return None
    if not isinstance(types, list) or not all(one is None or isinstance(one, str) for one in types):
        raise MatrixError("M_BAD_JSON", "room_types is a list of types, null for rooms without one.")
    if len(types) > MOST_TYPES:
        raise MatrixError("M_INVALID_PARAM", f"room_types has more than {MOST_TYPES} entries.")
    return frozenset(types)


# -- what is answered --


def is_listed(room: RoomSummary, asker: str | None) -> bool:
    """Whether a published room is shown. `asker` is the server that asks, None for our own users.

    A room that nobody could enter or read is not, although it was published once.
    """
    return room.is_open and (asker is None or not room.shuts_out(asker))


def page(rooms: Iterable[RoomSummary], question: Question) -> dict[str, Any]:
    """The answer: a part of those rooms that match, the largest first."""
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
    """Which of them are on the page: those next to where the page before ended."""
    since = question.since
    assert not isinstance(since, str), "the list of this server is asked for with its own tokens"
    if since is None or since.forwards:
        start = 0 if since is None else bisect_right(matching, since.place, key=_place)
        return start, start + _fitting(matching[start : start + question.limit])
    end = bisect_left(matching, since.place, key=_place)
    return end - _fitting(matching[max(end - question.limit, 0) : end][::-1]), end


def _fitting(rooms: Sequence[Mapping[str, Any]]) -> int:
    """How many of the first of these make a page; at least one, or nobody would ever see the next."""
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


# -- another server's list --


def is_search(question: Question) -> bool:
    """Whether it takes a POST."""
    return bool(question.words) or question.room_types is not None


def query_of(question: Question) -> list[tuple[str, str]]:
    """What a GET asks."""
    assert not is_search(question), "a GET cannot say what is searched for"
    return [(name, str(value)) for name, value in _common(question).items()]


def body_of(question: Question) -> dict[str, Any]:
    """What a POST asks."""
    filter_: dict[str, Any] = {}
    if question.term:
        filter_["generic_search_term"] = question.term
    if question.room_types is not None:
        # null is no text, and comes first.
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
    """Another server's answer, as far as it can be passed on; None if it is no list of rooms."""
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
    """`public_rooms_over_federation`: whether other servers are answered."""

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
        """The list of this server, for its users."""
        return page(await self._published(None), question)

    async def answer(self, origin: str, question: Question) -> dict[str, Any]:
        """The same for another server."""
        if not self._over_federation:
            raise MatrixError("M_FORBIDDEN", "This server shows its list of rooms to its users alone.", 403)
        return page(await self._published(origin), question)

    async def remote(self, server: str, question: Question) -> dict[str, Any]:
        """The list of another server. Raises `PeerError`. The question was read as one for `elsewhere`."""
        if is_search(question):
            answer = await self._client.request("POST", server, request_target(PATH), body_of(question))
        else:
            answer = await self._client.request("GET", server, request_target(PATH, query=query_of(question)))
        read = read_page(answer)
        if read is None:
            raise PeerMalformed(server, "answered with something that is no list of rooms")
        return read

    async def _published(self, asker: str | None) -> list[RoomSummary]:
        async with self._database.transaction(readonly=True) as connection:
            room_ids = await list_published_rooms(connection)
        rooms = await self._summaries.of_all(room_ids)
        return [room for room in rooms.values() if is_listed(room, asker)]
