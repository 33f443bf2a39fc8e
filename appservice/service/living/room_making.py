"""Making rooms on the homeserver.

A homeserver makes a room by one request, whose answer may be lost, and none of it shares a commit with ours.
So what is about to be asked for is written down first, the room bears a mark from its first event on, and
whoever comes after a kill looks for the mark.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeVar

from mautrix.api import Method, Path

from appservice.room_making import Making, bears, invitation, is_begun, making, mark_of, missing, refuse_key
from appservice.service.living.parts import MEMBER, Parts
from appservice.service.living.room_naming import IN_USE, RoomNaming, alias_taken
from federation.auth_rules.auth_event_selection import CREATE
from federation.errors import MatrixError
from federation.identifiers import domain, is_room_id
from federation.new_event import NewEvent
from federation.room_event import RoomEvent
from federation.room_request import CreatedRoom, RoomRequest
from federation.service.consumer_lease import ConsumerLease
from storage.created_rooms import delete_created, fetch_created, insert_created

_BEFORE_ANYTHING: Final = frozenset(
    {IN_USE, "M_UNSUPPORTED_ROOM_VERSION", "M_EXCLUSIVE", "M_LIMIT_EXCEEDED", "M_BAD_JSON"}
)
"""Why a homeserver refuses a room of which there is nothing yet."""
_LOCKS: Final = 16
T = TypeVar("T")


class RoomMaking(RoomNaming):
    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._lease = ConsumerLease(parts.database.address)
        self._under_way: set[asyncio.Task[Any]] = set()

    async def create_room(self, request: RoomRequest) -> CreatedRoom:
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
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _stop_making(self) -> None:
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        await self._lease.close()

    async def _make_under_key(self, request: RoomRequest, key: str) -> tuple[str, bool]:
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
        return self._lease.held(f"making rooms {int(mark, 16) % _LOCKS}")

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

    async def _invite_all(self, request: RoomRequest, room_id: str) -> dict[str, str]:
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
