"""Making rooms on the homeserver.

A homeserver makes a room by one request, whose answer may be lost, and none of it shares a commit with ours.
So what is about to be asked for is written down first, the room bears a mark from its first event on, and
whoever comes after a kill looks for the mark.

How a homeserver is asked for a room: the room that a node which is a homeserver itself would make, as the
body of `POST /createRoom`.

What rooms are called on the homeserver, and whether its public list has them.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, TypeVar

from mautrix.api import Method, Path

from appservice.homeserver.api import HomeserverAway
from appservice.local_users.parts import MEMBER, HasParts, Parts
from federation.auth_rules.auth_event_selection import POWER_LEVELS
from federation.auth_rules.levels import PowerLevels
from federation.events import CREATE
from federation.events.format import MAX_OWN_CONTENT_BYTES
from federation.events.room_event import NewEvent, RoomEvent
from federation.matrix.canonical_json import NotCanonical, encode
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain, is_room_alias, is_room_id
from federation.matrix.room_version import (
    DEFAULT_ROOM_VERSION,
    RoomVersion,
    room_version,
    version_of_create_event,
)
from federation.rooms.creation import CreatedRoom, CreateRoomRequest, invite_content, plan
from storage.concurrency import BackgroundTasks
from storage.rooms.aliases import delete_created, fetch_created, insert_created

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


def making(request: CreateRoomRequest, server: str, mark: str | None) -> Making:
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


def invitation(request: CreateRoomRequest) -> dict[str, Any]:
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


MOST_SERVERS: Final = 500
IN_USE: Final = "M_ROOM_IN_USE"


class RoomNaming(HasParts):
    async def resolve_alias(self, alias: str) -> tuple[str, Sequence[str]] | None:
        found = await self._resolve(alias)
        return None if found is None else (found[0], self._servers(found[1]))

    async def create_alias(self, alias: str, room_id: str, user: str) -> None:
        self._refuse_strangers(user)
        self._refuse_alias(alias)
        refuse_room_id(room_id)
        try:
            await self._parts.client.ask(
                Method.PUT, Path.v3.directory.room[alias], {"room_id": room_id}, user=user
            )
        except MatrixError as refused:
            if refused.status != 409:
                raise
            there = await self.resolve_alias(alias)
            if there is None or there[0] != room_id:
                raise MatrixError(IN_USE, f"{alias} is the name of another room.", 409) from refused

    async def remove_alias(self, alias: str) -> None:
        self._refuse_alias(alias)
        try:
            await self._parts.client.ask(Method.DELETE, Path.v3.directory.room[alias])
        except MatrixError as refused:
            if refused.status != 404:
                raise

    async def publish(self, room_id: str, *, published: bool) -> None:
        refuse_room_id(room_id)
        if await self.is_published(room_id) == published:
            return
        await self._parts.client.ask(
            Method.PUT,
            Path.v3.directory.list.room[room_id],
            {"visibility": "public" if published else "private"},
            user=await self._most_powerful(room_id),
        )

    async def is_published(self, room_id: str) -> bool:
        try:
            answer = await self._parts.client.ask(Method.GET, Path.v3.directory.list.room[room_id])
        except MatrixError as refused:
            if refused.status == 404:
                return False
            raise
        return answer.get("visibility") == "public"

    async def _most_powerful(self, room_id: str) -> str:
        """Of those of ours who are in the room."""
        create, levels = [
            await self._parts.rooms.state_event(room_id, *key) for key in (CREATE, POWER_LEVELS)
        ]
        power = PowerLevels(create, levels, version_of(create))
        members = await self._parts.rooms.members(room_id)
        ours = [member.user_id for member in members if self._parts.namespaces.agent(member.user_id)]
        return max(ours, key=power.of_user, default=await self._resident(room_id))

    def _servers(self, named: Iterable[str]) -> tuple[str, ...]:
        """The homeserver first, the others as they come."""
        ours = self._parts.server_name
        return tuple(sorted(dict.fromkeys(named), key=lambda name: name != ours))[:MOST_SERVERS]

    def _refuse_alias(self, alias: str) -> None:
        if not is_room_alias(alias) or domain(alias) != self._parts.server_name:
            raise MatrixError("M_INVALID_PARAM", f"{alias[:255]} cannot be an alias of this server.", 400)

    def _named(self, answer: Mapping[str, Any], name: str) -> str:
        """What a homeserver says that it has done must have a name."""
        value = answer.get(name)
        if not isinstance(value, str) or not value:
            raise HomeserverAway(self._parts.client.url, f"its answer has no {name}")
        return value


def version_of(create: RoomEvent | None) -> RoomVersion:
    """By whose rules it is read who may do what. Versions 1 and 2 have those of 3."""
    named = None if create is None else version_of_create_event(create.content)
    return room_version("3" if named in ("1", "2") else named) or DEFAULT_ROOM_VERSION


def alias_taken(alias: str) -> MatrixError:
    # As the other side says it, and the homeserver too.
    return MatrixError(IN_USE, f"{alias} is the name of another room.", 400)


def refuse_room_id(room_id: str) -> None:
    if not is_room_id(room_id):
        raise MatrixError("M_INVALID_PARAM", f"{room_id[:255]} is no id of a room.", 400)


_BEFORE_ANYTHING: Final = frozenset(
    {IN_USE, "M_UNSUPPORTED_ROOM_VERSION", "M_EXCLUSIVE", "M_LIMIT_EXCEEDED", "M_BAD_JSON"}
)
"""Why a homeserver refuses a room of which there is nothing yet."""
_LOCKS: Final = 16
T = TypeVar("T")


class RoomMaking(RoomNaming):
    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._background = BackgroundTasks()

    async def create_room(self, request: CreateRoomRequest) -> CreatedRoom:
        """What was begun under a key, and has been killed since, is found and finished."""
        self._refuse_strangers(request.creator)
        refuse_key(request.key)
        known = await self._made_before(request.creator, request.key)
        if known is not None:
            room_id, is_new = known, False
        else:
            if not await self._parts.ghosts.is_known(request.creator):
                raise MatrixError("M_NOT_FOUND", f"There is no user {request.creator} here.", 404)
            if request.key is None:
                made = making(request, self._parts.server_name, None)
                room_id, is_new = await self._to_its_end(self._make(made)), True
            else:
                room_id, is_new = await self._to_its_end(self._make_under_key(request, request.key))
        return CreatedRoom(room_id, is_new, await self._invite_all(request, room_id))

    async def _to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Whoever stops waiting does not stop it: the homeserver does not stop either."""
        return await asyncio.shield(self._background.spawn("making a room", work, reports=False))

    async def _stop_making(self) -> None:
        await self._background.close()

    async def _make_under_key(self, request: CreateRoomRequest, key: str) -> tuple[str, bool]:
        """No two processes make it at once."""
        creator, mark = request.creator, mark_of(request.creator, key)
        made = making(request, self._parts.server_name, mark)
        async with self._making(mark):
            known = await self._made_before(creator, key)
            if known is not None:
                return known, False
            begun = not await self._begin(creator, mark)
            found = await self._found_begun(made, mark) if begun else None
            if found is not None:
                room_id, is_new = found, False
            else:
                try:
                    room_id, is_new = await self._make(made), True
                except MatrixError as refused:
                    room_id, is_new = await self._instead(made, mark, refused, begun=begun)
            await self._remember_room(creator, key, mark, room_id)
        return room_id, is_new

    async def _instead(
        self, made: Making, mark: str, refused: MatrixError, *, begun: bool
    ) -> tuple[str, bool]:
        """Where the alias is taken, it may be by this very room. Raises the refusal if it stays one."""
        if refused.errcode == IN_USE:
            found = await self._found_begun(made, mark)
            if found is not None:
                return found, False
            # A homeserver that was killed before anybody was in the room has given it its name already.
            if begun and made.alias is not None and await self._free(made.alias):
                return await self._make(made), True
        await self._end(made.creator, mark)
        raise refused

    # -- one room --

    async def _make(self, made: Making) -> str:
        """When it is refused, nothing stays of it."""
        creator = made.creator
        try:
            answer = await self._parts.client.ask(Method.POST, Path.v3.createRoom, made.body, user=creator)
        except MatrixError as refused:
            # 409 is said to whoever comes second in the same moment.
            if made.alias is not None and (refused.errcode == IN_USE or refused.status == 409):
                raise alias_taken(made.alias) from refused
            if refused.errcode not in _BEFORE_ANYTHING:
                await self._sweep(made)
            if refused.errcode == "M_TOO_LARGE":
                raise MatrixError("M_BAD_JSON", f"The event cannot be sent: {refused.text}", 400) from refused
            raise
        room_id = self._named(answer, "room_id")
        await self._note(room_id, MEMBER, creator, creator)
        if await self._parts.rooms.state_event(room_id, "m.room.encryption") is not None:
            await self._abandon(room_id, creator, made.alias)
            raise MatrixError(
                "M_FORBIDDEN",
                "The homeserver encrypts every room, and agents can read nothing in one: it needs"
                " `encryption_enabled_by_default_for_room_type: off`, or `invite`.",
                403,
            )
        if made.body["visibility"] == "public" and not await self.is_published(room_id):
            self._parts.report(
                f"The homeserver does not take {made.alias or room_id} into its public list of rooms:"
                " see `room_list_publication_rules` there."
            )
        return room_id

    async def _found_begun(self, made: Making, mark: str) -> str | None:
        """The room that was made before a kill, with whatever the homeserver had not said of it yet."""
        room_id = await self._find_marked(made.creator, mark)
        if room_id is None:
            return None
        left_to_say = missing(made, await self._parts.rooms.state(room_id))
        for event in left_to_say:
            await self._put_state(room_id, made.creator, event)
        if left_to_say:
            await self._parts.rooms.doubt(room_id)
        return room_id

    async def _put_state(self, room_id: str, user: str, event: NewEvent) -> str:
        path = Path.v3.rooms[room_id].state[event.type]
        path = path[event.state_key] if event.state_key else path
        answer = await self._parts.client.ask(Method.PUT, path, event.content, user=user)
        return self._named(answer, "event_id")

    async def _find_marked(self, creator: str, mark: str) -> str | None:
        async for room_id, create in self._rooms_of(creator):
            if bears(create, creator, mark):
                return room_id
        return None

    async def _rooms_of(self, user: str) -> AsyncIterator[tuple[str, RoomEvent]]:
        """Those that the homeserver knows the user to be in, with the events that they begin with."""
        answer = await self._parts.client.ask(Method.GET, Path.v3.joined_rooms, user=user)
        named = answer.get("joined_rooms")
        for room_id in named if isinstance(named, list) else ():
            if not isinstance(room_id, str) or not is_room_id(room_id):
                continue
            if await self._parts.rooms.membership(room_id, user) != "join":
                await self._note(room_id, MEMBER, user, user)
            create = await self._parts.rooms.state_event(room_id, *CREATE)
            if create is not None:
                yield room_id, create

    async def _sweep(self, made: Making) -> None:
        """A homeserver that refuses a room may have let its creator in already."""
        async for room_id, create in self._rooms_of(made.creator):
            if create.sender == made.creator and is_begun(made, await self._parts.rooms.state(room_id)):
                await self._abandon(room_id, made.creator, made.alias)

    async def _abandon(self, room_id: str, creator: str, alias: str | None) -> None:
        """The room that could not be made as it should be."""
        if alias is not None and self._parts.namespaces.room(alias) is not None:
            await self.remove_alias(alias)
        await self._parts.client.ask(Method.POST, Path.v3.rooms[room_id].leave, {}, user=creator)
        await self._note(room_id, MEMBER, creator, creator)

    async def _free(self, alias: str) -> bool:
        """Take a name of ours from a room that none of us is in. Nobody else can have given it."""
        if self._parts.namespaces.room(alias) is None:
            return False
        found = await self.resolve_alias(alias)
        if found is not None and await self._parts.rooms.resident(found[0]) is not None:
            return False
        await self.remove_alias(alias)
        return True

    # -- what is written down --

    def _making(self, mark: str) -> AbstractAsyncContextManager[object]:
        """Held by whoever makes the room: a few locks are enough for all rooms."""
        return self._parts.database.session.lease(f"making rooms {int(mark, 16) % _LOCKS}")

    async def _made_before(self, creator: str, key: str | None) -> str | None:
        if key is None:
            return None
        async with self._parts.database.transaction(readonly=True) as connection:
            return await fetch_created(connection, creator, key)

    async def _begin(self, creator: str, mark: str) -> bool:
        """Whether nobody has begun it before."""
        async with self._parts.database.transaction() as connection:
            return await insert_created(connection, creator, _begun(mark), "")

    async def _end(self, creator: str, mark: str) -> None:
        async with self._parts.database.transaction() as connection:
            await delete_created(connection, creator, _begun(mark))

    async def _remember_room(self, creator: str, key: str, mark: str, room_id: str) -> None:
        async with self._parts.database.transaction() as connection:
            await insert_created(connection, creator, key, room_id)
            await delete_created(connection, creator, _begun(mark))

    # -- who comes into it --

    async def _invite_all(self, request: CreateRoomRequest, room_id: str) -> dict[str, str]:
        """Who was ever invited is not invited again. Why the others could not be."""
        content, refused = invitation(request), {}
        for user in dict.fromkeys(request.invite):
            if user == request.creator or await self._parts.rooms.membership(room_id, user) is not None:
                continue
            if await self._is_nobody(user):
                refused[user] = "There is no such user."
                continue
            try:
                # As state, because `/invite` does not say that a room is for two alone.
                invite = NewEvent(MEMBER, request.creator, content, user)
                event_id = await self._put_state(room_id, request.creator, invite)
            except MatrixError as error:
                refused[user] = error.text
                continue
            now = self._parts.now_ms()
            await self._parts.rooms.noted(room_id, MEMBER, user, request.creator, content, event_id, now)
        return refused

    async def _is_nobody(self, user: str) -> bool:
        """A homeserver invites whomever it is told to, whether or not there is such a user of its own."""
        if self._parts.namespaces.owns_user(user):
            return not await self._parts.ghosts.is_known(user)
        if domain(user) != self._parts.server_name:
            return False
        try:
            await self._parts.client.ask(Method.GET, Path.v3.profile[user])
        except MatrixError as refused:
            return refused.status == 404
        return False


def _begun(mark: str) -> str:
    return f"making {mark}"
