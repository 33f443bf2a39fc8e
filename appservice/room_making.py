"""How a homeserver is asked for a room: the room that a node which is a homeserver itself would make, as the
body of `POST /createRoom`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from federation.canonical_json import NotCanonical, encode
from federation.errors import MatrixError
from federation.new_event import NewEvent
from federation.pdu.limits import MAX_OWN_CONTENT_BYTES
from federation.room_creation import invite_content, plan
from federation.room_event import RoomEvent
from federation.room_request import RoomRequest
from federation.room_version import RoomVersion

MARKER: Final = "io.palaver.key"
"""In the content of the first event of a room, so that whoever asked for it and was killed finds it again."""
MOST_KEY_BYTES: Final = 255

_CREATE: Final = "m.room.create"
_MEMBER: Final = "m.room.member"
_POWER_LEVELS: Final = "m.room.power_levels"
_ALIAS: Final = "m.room.canonical_alias"


@dataclass(frozen=True, slots=True)
class Making:
    """`state` is what the room says of itself besides its creation, its members and who may do what."""

    creator: str
    body: Mapping[str, Any]
    alias: str | None
    power_levels: Mapping[str, Any]
    state: tuple[NewEvent, ...]


def making(request: RoomRequest, server: str, mark: str | None) -> Making:
    """`server` is what the homeserver is called. Without a mark nobody will look for it. Every refusal is a
    `MatrixError`."""
    if request.room_id is not None:
        raise MatrixError("M_UNRECOGNIZED", "Here nobody but the homeserver chooses the id of a room.", 400)
    planned = plan(request, server, opaque="0")
    create = next(event for event in planned.events if event.type == _CREATE)
    levels = next(event for event in planned.events if event.type == _POWER_LEVELS)
    state = tuple(event for event in planned.events if event.type not in {_CREATE, _MEMBER, _POWER_LEVELS})
    body = body_of(planned.version, create, levels, state, mark, listed=request.listed)
    if request.alias is not None:
        body["room_alias_name"] = request.alias
    return Making(request.creator, body, planned.alias, levels.content, state)


def body_of(
    version: RoomVersion,
    create: NewEvent,
    levels: NewEvent,
    state: Sequence[NewEvent],
    mark: str | None,
    *,
    listed: bool,
) -> dict[str, Any]:
    for event in (create, levels, *state):
        _refuse_size(event)
    return {
        # "room_version: […] the homeserver's default" is not what everybody has agreed on.
        "room_version": version.id,
        "creation_content": dict(create.content) if mark is None else {**create.content, MARKER: mark},
        "power_level_content_override": dict(levels.content),
        # Nothing of it is left to the homeserver but what nobody asked for: some encrypt private rooms.
        "preset": "public_chat",
        "visibility": "public" if listed else "private",
        "initial_state": [
            {"type": event.type, "state_key": event.state_key, "content": dict(event.content)}
            # The levels once more: laid over those of a homeserver, they keep of it what they do not name.
            for event in (levels, *state)
        ],
    }


def _refuse_size(event: NewEvent) -> None:
    """A homeserver refuses it when the room is there already."""
    try:
        size = len(encode(dict(event.content)))
    except NotCanonical as problem:
        raise MatrixError("M_BAD_JSON", f"The event cannot be sent: {problem}.") from None
    if size > MAX_OWN_CONTENT_BYTES:
        raise MatrixError(
            "M_BAD_JSON",
            f"The event cannot be sent: its content has more than {MAX_OWN_CONTENT_BYTES} bytes.",
        )


def refuse_key(key: str | None) -> None:
    if key is not None and ("\0" in key or len(key.encode("utf-8", "replace")) > MOST_KEY_BYTES):
        raise MatrixError("M_INVALID_PARAM", f"A key has at most {MOST_KEY_BYTES} bytes.", 400)


def mark_of(creator: str, key: str) -> str:
    """Everybody in the room can read it, and nobody reads the key out of it."""
    return sha256(f"{creator}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def is_begun(making: Making, state: Sequence[RoomEvent]) -> bool:
    """Whether a homeserver has begun to make this room, and got no further than letting its creator in."""
    creator = making.creator
    named = {(event.type, event.state_key, event.sender): event.content for event in state}
    if named.keys() != {(_CREATE, "", creator), (_MEMBER, creator, creator)}:
        return False
    return _said_of(named[_CREATE, "", creator]) == _said_of(making.body["creation_content"])


def bears(create: RoomEvent | None, creator: str, mark: str) -> bool:
    """Whether it is the beginning of the room that was asked for. Anybody can write any mark into a room of
    their own."""
    return create is not None and create.sender == creator and create.content.get(MARKER) == mark


def invitation(request: RoomRequest) -> dict[str, Any]:
    """What the member events of those say whom the request names."""
    return invite_content(request, {})


def missing(making: Making, state: Sequence[RoomEvent]) -> list[NewEvent]:
    """What is to be said of a room that a homeserver was about to make when it was killed. Its creator is in
    it, and may say anything as long as the room says nothing of who may."""
    there = {(event.type, event.state_key) for event in state}
    if (_POWER_LEVELS, "") in there:
        # It comes with all the rest, at once.
        return []
    levels = NewEvent(_POWER_LEVELS, making.creator, making.power_levels, "")
    # The alias is what may fail: it may never have come to be.
    rest = sorted(making.state, key=lambda event: event.type == _ALIAS)
    return [event for event in (levels, *rest) if (event.type, event.state_key) not in there]


def _said_of(create: Mapping[str, Any]) -> dict[str, Any]:
    """Without what the homeserver says itself."""
    return {name: said for name, said in create.items() if name not in {"room_version", "creator"}}
