"""Creates rooms on the homeserver, and manages their aliases and directory entries.

A homeserver creates a room in one request, whose response may be lost and which shares no commit with this
node. So the intent is recorded first, the room carries a mark in its first event, and a process that resumes
after a kill searches for the mark.

The body of `POST /createRoom` describes the room that a node that is a homeserver itself would create.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, TypeVar

from mautrix.api import Method, Path

from appservice.homeserver.api import HomeserverUnavailable
from appservice.local_users.parts import MEMBER, Parts, UserOperations
from federation.auth_rules.auth_event_selection import POWER_LEVELS
from federation.auth_rules.levels import PowerLevels
from federation.events import CREATE
from federation.events.format import MAX_OWN_CONTENT_BYTES
from federation.events.room_event import NewEvent, RoomEvent
from federation.matrix.canonical_json import NotCanonical, encode
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain, is_room_alias, is_room_id
from federation.matrix.room_version import DEFAULT_ROOM_VERSION, RoomVersion, room_version, version_of_create_event
from federation.rooms.creation import CreatedRoom, CreateRoomRequest, invite_content, plan
from storage.concurrency import BackgroundTasks
from storage.rooms.aliases import delete_created, fetch_created, insert_created

MARKER: Final = "io.palaver.key"
"""In the content of the room's first event, so that a process that was killed finds the room again."""
MAX_KEY_BYTES: Final = 255

_CREATE: Final = "m.room.create"
_MEMBER: Final = "m.room.member"
_POWER_LEVELS: Final = "m.room.power_levels"
_ALIAS: Final = "m.room.canonical_alias"


@dataclass(frozen=True, slots=True)
class RoomPlan:
    """`state` is the room's state apart from its create event, members and power levels."""

    creator: str
    body: Mapping[str, Any]
    alias: str | None
    power_levels: Mapping[str, Any]
    state: tuple[NewEvent, ...]


def plan_room(request: CreateRoomRequest, server: str, mark: str | None) -> RoomPlan:
    """`server` is the homeserver's server name. A room without a mark is not searched for after a kill. Every
    refusal is a `MatrixError`."""
    if request.room_id is not None:
        raise MatrixError("M_UNRECOGNIZED", "On this node the homeserver chooses the ids of rooms.", 400)
    planned = plan(request, server, opaque="0")
    create = next(event for event in planned.events if event.type == _CREATE)
    levels = next(event for event in planned.events if event.type == _POWER_LEVELS)
    state = tuple(event for event in planned.events if event.type not in {_CREATE, _MEMBER, _POWER_LEVELS})
    body = create_room_body(planned.version, create, levels, state, mark, listed=request.listed)
    if request.alias is not None:
        body["room_alias_name"] = request.alias
    return RoomPlan(request.creator, body, planned.alias, levels.content, state)


def create_room_body(
    version: RoomVersion,
    create: NewEvent,
    levels: NewEvent,
    state: Sequence[NewEvent],
    mark: str | None,
    *,
    listed: bool,
) -> dict[str, Any]:
    for event in (create, levels, *state):
        _check_size(event)
    return {
        # "room_version: […] the homeserver's default": which may differ from the version that the nodes have
        # agreed on.
        "room_version": version.id,
        "creation_content": dict(create.content) if mark is None else {**create.content, MARKER: mark},
        "power_level_content_override": dict(levels.content),
        # Leave nothing to the homeserver's defaults: some encrypt private rooms.
        "preset": "public_chat",
        "visibility": "public" if listed else "private",
        "initial_state": [
            {"type": event.type, "state_key": event.state_key, "content": dict(event.content)}
            # The power levels again: merged into the homeserver's defaults, the override would keep levels
            # that it does not name.
            for event in (levels, *state)
        ],
    }


def _check_size(event: NewEvent) -> None:
    """Checked here because a homeserver refuses an oversized event only after it has created the room."""
    try:
        size = len(encode(dict(event.content)))
    except NotCanonical as problem:
        raise MatrixError("M_BAD_JSON", f"The event cannot be sent: {problem}.") from None
    if size > MAX_OWN_CONTENT_BYTES:
        raise MatrixError(
            "M_BAD_JSON", f"The event cannot be sent: its content has more than {MAX_OWN_CONTENT_BYTES} bytes."
        )


def require_valid_key(key: str | None) -> None:
    if key is not None and ("\0" in key or len(key.encode("utf-8", "replace")) > MAX_KEY_BYTES):
        raise MatrixError("M_INVALID_PARAM", f"A key has at most {MAX_KEY_BYTES} bytes.", 400)


def room_mark(creator: str, key: str) -> str:
    """Members can read the mark, but cannot derive the key from it."""
    return sha256(f"{creator}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def is_unfinished(room_plan: RoomPlan, state: Sequence[RoomEvent]) -> bool:
    """Whether the homeserver has started to create this room and got no further than the creator's join."""
    creator = room_plan.creator
    named = {(event.type, event.state_key, event.sender): event.content for event in state}
    if named.keys() != {(_CREATE, "", creator), (_MEMBER, creator, creator)}:
        return False
    return _own_content(named[_CREATE, "", creator]) == _own_content(room_plan.body["creation_content"])


def has_mark(create: RoomEvent | None, creator: str, mark: str) -> bool:
    """Whether this is the create event of the requested room. Any user can write any mark into a room of
    their own."""
    return create is not None and create.sender == creator and create.content.get(MARKER) == mark


def invite_content_for(request: CreateRoomRequest) -> dict[str, Any]:
    """The content of the member events of the invited users."""
    return invite_content(request, {})


def missing_state(room_plan: RoomPlan, state: Sequence[RoomEvent]) -> list[NewEvent]:
    """The state that is missing in a room whose creation was interrupted by a kill of the homeserver. The
    creator is in the room, and may set everything as long as it has no power levels."""
    present = {(event.type, event.state_key) for event in state}
    if (_POWER_LEVELS, "") in present:
        # The homeserver sets it together with everything else.
        return []
    levels = NewEvent(_POWER_LEVELS, room_plan.creator, room_plan.power_levels, "")
    # Last, because it may fail: the alias may not exist.
    rest = sorted(room_plan.state, key=lambda event: event.type == _ALIAS)
    return [event for event in (levels, *rest) if (event.type, event.state_key) not in present]


def _own_content(create: Mapping[str, Any]) -> dict[str, Any]:
    """Without the fields that the homeserver adds."""
    return {name: value for name, value in create.items() if name not in {"room_version", "creator"}}


MAX_SERVERS: Final = 500
IN_USE: Final = "M_ROOM_IN_USE"


class RoomDirectory(UserOperations):
    async def resolve_alias(self, alias: str) -> tuple[str, Sequence[str]] | None:
        found = await self._resolve(alias)
        return None if found is None else (found[0], self._servers(found[1]))

    async def create_alias(self, alias: str, room_id: str, user: str) -> None:
        self._require_ghost(user)
        self._require_own_alias(alias)
        require_room_id(room_id)
        try:
            await self._parts.client.request(Method.PUT, Path.v3.directory.room[alias], {"room_id": room_id}, user=user)
        except MatrixError as refused:
            if refused.status != 409:
                raise
            resolved = await self.resolve_alias(alias)
            if resolved is None or resolved[0] != room_id:
                raise MatrixError(IN_USE, f"{alias} is an alias of another room.", 409) from refused

    async def remove_alias(self, alias: str) -> None:
        self._require_own_alias(alias)
        try:
            # Homeservers may require a user with power in the room.
            user = self._parts.namespaces.node_user
            await self._parts.client.request(Method.DELETE, Path.v3.directory.room[alias], user=user)
        except MatrixError as refused:
            if refused.status != 404:
                raise

    async def publish(self, room_id: str, *, published: bool) -> None:
        require_room_id(room_id)
        if await self.is_published(room_id) == published:
            return
        await self._parts.client.request(
            Method.PUT,
            Path.v3.directory.list.room[room_id],
            {"visibility": "public" if published else "private"},
            user=await self._most_powerful(room_id),
        )

    async def is_published(self, room_id: str) -> bool:
        try:
            answer = await self._parts.client.request(Method.GET, Path.v3.directory.list.room[room_id])
        except MatrixError as refused:
            if refused.status == 404:
                return False
            raise
        return answer.get("visibility") == "public"

    async def _most_powerful(self, room_id: str) -> str:
        """Return the ghost in the room with the most power."""
        create, levels = [await self._parts.rooms.state_event(room_id, *key) for key in (CREATE, POWER_LEVELS)]
        power = PowerLevels(create, levels, version_of(create))
        members = await self._parts.rooms.members(room_id)
        ghosts = [member.user_id for member in members if self._parts.namespaces.agent(member.user_id)]
        return max(ghosts, key=power.of_user, default=await self._resident(room_id))

    def _servers(self, named: Iterable[str]) -> tuple[str, ...]:
        """The servers to join by: the homeserver, then the others in the given order."""
        own = self._parts.server_name
        return tuple(sorted(dict.fromkeys(named), key=lambda name: name != own))[:MAX_SERVERS]

    def _require_own_alias(self, alias: str) -> None:
        if not is_room_alias(alias) or domain(alias) != self._parts.server_name:
            raise MatrixError("M_INVALID_PARAM", f"{alias[:255]} cannot be an alias of this server.", 400)

    def _required_field(self, answer: Mapping[str, Any], name: str) -> str:
        """Raises `HomeserverUnavailable` if the response lacks the field."""
        value = answer.get(name)
        if not isinstance(value, str) or not value:
            raise HomeserverUnavailable(self._parts.client.url, f"its response has no {name}")
        return value


def version_of(create: RoomEvent | None) -> RoomVersion:
    """The room version whose power level rules apply. Versions 1 and 2 have those of 3."""
    named = None if create is None else version_of_create_event(create.content)
    return room_version("3" if named in ("1", "2") else named) or DEFAULT_ROOM_VERSION


def alias_taken(alias: str) -> MatrixError:
    # The same errcode and status as the homeserver backend and the homeserver itself.
    return MatrixError(IN_USE, f"{alias} is an alias of another room.", 400)


def require_room_id(room_id: str) -> None:
    if not is_room_id(room_id):
        raise MatrixError("M_INVALID_PARAM", f"{room_id[:255]} is not a room id.", 400)


_REFUSED_BEFORE_CREATION: Final = frozenset(
    {IN_USE, "M_UNSUPPORTED_ROOM_VERSION", "M_EXCLUSIVE", "M_LIMIT_EXCEEDED", "M_BAD_JSON"}
)
"""Errcodes with which a homeserver refuses a room before it creates any part of it."""
_LOCKS: Final = 16
T = TypeVar("T")


class RoomCreation(RoomDirectory):
    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._background = BackgroundTasks()

    async def create_room(self, request: CreateRoomRequest) -> CreatedRoom:
        """A creation with a key that was interrupted by a kill is resumed and completed."""
        self._require_ghost(request.creator)
        require_valid_key(request.key)
        known = await self._created_before(request.creator, request.key)
        if known is not None:
            room_id, is_new = known, False
        else:
            if not await self._parts.ghosts.is_registered(request.creator):
                raise MatrixError("M_NOT_FOUND", f"There is no user {request.creator} on this server.", 404)
            if request.key is None:
                room_plan = plan_room(request, self._parts.server_name, None)
                room_id, is_new = await self._run_to_completion(self._create(room_plan)), True
            else:
                room_id, is_new = await self._run_to_completion(self._create_with_key(request, request.key))
        return CreatedRoom(room_id, is_new, await self._invite_all(request, room_id))

    async def _run_to_completion(self, work: Coroutine[Any, Any, T]) -> T:
        """A cancelled caller does not cancel the work, because the homeserver completes the request
        anyway."""
        return await asyncio.shield(self._background.spawn("creation of a room", work, reports=False))

    async def _close_creation(self) -> None:
        await self._background.close()

    async def _create_with_key(self, request: CreateRoomRequest, key: str) -> tuple[str, bool]:
        """Only one process creates the room at a time."""
        creator, mark = request.creator, room_mark(request.creator, key)
        room_plan = plan_room(request, self._parts.server_name, mark)
        async with self._creation_lock(mark):
            known = await self._created_before(creator, key)
            if known is not None:
                return known, False
            begun = not await self._record_intent(creator, mark)
            found = await self._resume_creation(room_plan, mark) if begun else None
            if found is not None:
                room_id, is_new = found, False
            else:
                try:
                    room_id, is_new = await self._create(room_plan), True
                except MatrixError as refused:
                    room_id, is_new = await self._recover_from_refusal(room_plan, mark, refused, begun=begun)
            await self._record_created(creator, key, mark, room_id)
        return room_id, is_new

    async def _recover_from_refusal(
        self, room_plan: RoomPlan, mark: str, refused: MatrixError, *, begun: bool
    ) -> tuple[str, bool]:
        """A taken alias may belong to this very room. Raises `refused` if the refusal stands."""
        if refused.errcode == IN_USE:
            found = await self._resume_creation(room_plan, mark)
            if found is not None:
                return found, False
            # A homeserver that was killed before the creator joined has already assigned the alias.
            if begun and room_plan.alias is not None and await self._release_alias(room_plan.alias):
                return await self._create(room_plan), True
        await self._delete_intent(room_plan.creator, mark)
        raise refused

    # -- one room --

    async def _create(self, room_plan: RoomPlan) -> str:
        """A refused creation leaves nothing behind."""
        creator = room_plan.creator
        try:
            answer = await self._parts.client.request(Method.POST, Path.v3.createRoom, room_plan.body, user=creator)
        except MatrixError as refused:
            # 409 is returned to the later of two concurrent requests.
            if room_plan.alias is not None and (refused.errcode == IN_USE or refused.status == 409):
                raise alias_taken(room_plan.alias) from refused
            if refused.errcode not in _REFUSED_BEFORE_CREATION:
                await self._abandon_unfinished(room_plan)
            if refused.errcode == "M_TOO_LARGE":
                raise MatrixError("M_BAD_JSON", f"The event cannot be sent: {refused.text}", 400) from refused
            raise
        room_id = self._required_field(answer, "room_id")
        await self._record_result(room_id, MEMBER, creator, creator)
        if await self._parts.rooms.state_event(room_id, "m.room.encryption") is not None:
            await self._abandon(room_id, creator, room_plan.alias)
            raise MatrixError(
                "M_FORBIDDEN",
                "The homeserver encrypts every room, and agents cannot read encrypted rooms: set"
                " `encryption_enabled_by_default_for_room_type: off`, or `invite`, in its configuration.",
                403,
            )
        if room_plan.body["visibility"] == "public" and not await self.is_published(room_id):
            self._parts.report(
                f"The homeserver does not list {room_plan.alias or room_id} in its public room directory:"
                " see `room_list_publication_rules` in its configuration."
            )
        return room_id

    async def _resume_creation(self, room_plan: RoomPlan, mark: str) -> str | None:
        """Find the room that was created before a kill, and add the state that the homeserver had not set
        yet."""
        room_id = await self._find_marked_room(room_plan.creator, mark)
        if room_id is None:
            return None
        missing = missing_state(room_plan, await self._parts.rooms.state(room_id))
        for event in missing:
            await self._put_state(room_id, room_plan.creator, event)
        if missing:
            await self._parts.rooms.invalidate(room_id)
        return room_id

    async def _put_state(self, room_id: str, user: str, event: NewEvent) -> str:
        path = Path.v3.rooms[room_id].state[event.type]
        path = path[event.state_key] if event.state_key else path
        answer = await self._parts.client.request(Method.PUT, path, event.content, user=user)
        return self._required_field(answer, "event_id")

    async def _find_marked_room(self, creator: str, mark: str) -> str | None:
        async for room_id, create in self._rooms_of(creator):
            if has_mark(create, creator, mark):
                return room_id
        return None

    async def _rooms_of(self, user: str) -> AsyncIterator[tuple[str, RoomEvent]]:
        """Yield the rooms that the user has joined according to the homeserver, with their create events."""
        answer = await self._parts.client.request(Method.GET, Path.v3.joined_rooms, user=user)
        joined = answer.get("joined_rooms")
        for room_id in joined if isinstance(joined, list) else ():
            if not isinstance(room_id, str) or not is_room_id(room_id):
                continue
            if await self._parts.rooms.membership(room_id, user) != "join":
                await self._record_result(room_id, MEMBER, user, user)
            create = await self._parts.rooms.state_event(room_id, *CREATE)
            if create is not None:
                yield room_id, create

    async def _abandon_unfinished(self, room_plan: RoomPlan) -> None:
        """A homeserver that refuses a room may have joined the creator to it already."""
        async for room_id, create in self._rooms_of(room_plan.creator):
            if create.sender == room_plan.creator and is_unfinished(room_plan, await self._parts.rooms.state(room_id)):
                await self._abandon(room_id, room_plan.creator, room_plan.alias)

    async def _abandon(self, room_id: str, creator: str, alias: str | None) -> None:
        """Leave a room that could not be created as planned, and remove its alias."""
        if alias is not None and self._parts.namespaces.room(alias) is not None:
            await self.remove_alias(alias)
        await self._parts.client.request(Method.POST, Path.v3.rooms[room_id].leave, {}, user=creator)
        await self._record_result(room_id, MEMBER, creator, creator)

    async def _release_alias(self, alias: str) -> bool:
        """Remove an alias of this node's namespace from a room without ghosts. No one else can have assigned
        it."""
        if self._parts.namespaces.room(alias) is None:
            return False
        found = await self.resolve_alias(alias)
        if found is not None and await self._parts.rooms.resident(found[0]) is not None:
            return False
        await self.remove_alias(alias)
        return True

    # -- database records --

    def _creation_lock(self, mark: str) -> AbstractAsyncContextManager[object]:
        """Held while a room is created. A few locks are enough for all rooms."""
        return self._parts.database.session.lease(f"making rooms {int(mark, 16) % _LOCKS}")

    async def _created_before(self, creator: str, key: str | None) -> str | None:
        if key is None:
            return None
        async with self._parts.database.transaction(readonly=True) as connection:
            return await fetch_created(connection, creator, key)

    async def _record_intent(self, creator: str, mark: str) -> bool:
        """Return whether no creation with this mark was recorded before."""
        async with self._parts.database.transaction() as connection:
            return await insert_created(connection, creator, _pending_key(mark), "")

    async def _delete_intent(self, creator: str, mark: str) -> None:
        async with self._parts.database.transaction() as connection:
            await delete_created(connection, creator, _pending_key(mark))

    async def _record_created(self, creator: str, key: str, mark: str, room_id: str) -> None:
        async with self._parts.database.transaction() as connection:
            await insert_created(connection, creator, key, room_id)
            await delete_created(connection, creator, _pending_key(mark))

    # -- invites --

    async def _invite_all(self, request: CreateRoomRequest, room_id: str) -> dict[str, str]:
        """Invite each user once; users with any membership are skipped. Return why the others could not be
        invited."""
        content, refused = invite_content_for(request), {}
        for user in dict.fromkeys(request.invite):
            if user == request.creator or await self._parts.rooms.membership(room_id, user) is not None:
                continue
            if await self._is_unknown_user(user):
                refused[user] = "There is no such user."
                continue
            try:
                # As state, because `/invite` cannot set `is_direct`.
                invite = NewEvent(MEMBER, request.creator, content, user)
                event_id = await self._put_state(room_id, request.creator, invite)
            except MatrixError as error:
                refused[user] = error.text
                continue
            now = self._parts.now_ms()
            await self._parts.rooms.record_change(room_id, MEMBER, user, request.creator, content, event_id, now)
        return refused

    async def _is_unknown_user(self, user: str) -> bool:
        """A homeserver invites any user id, whether or not it has such a user."""
        if self._parts.namespaces.owns_user(user):
            return not await self._parts.ghosts.is_registered(user)
        if domain(user) != self._parts.server_name:
            return False
        try:
            await self._parts.client.request(Method.GET, Path.v3.profile[user])
        except MatrixError as refused:
            return refused.status == 404
        return False


def _pending_key(mark: str) -> str:
    return f"making {mark}"
