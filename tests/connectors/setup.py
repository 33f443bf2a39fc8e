"""A Matrix side, the people beside it who are not its users, and what a behaviour is asked of it with."""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import pytest

from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import GhostNames
from federation.events.room_event import RoomEvent, StreamedEvent
from federation.matrix.errors import MatrixError
from federation.rooms.creation import CreateRoomRequest
from storage.database import Database
from tests.connectors.backend_differences import Difference
from tests.connectors.stream_recorder import Onlooker
from tests.support.driven_node.walking import Person

TRANSACTION = "io.palaver.transaction"


@dataclass(kw_only=True)
class Ground:
    """All tests of a module stand on one, so that each takes names of its own."""

    side: MatrixBackend
    database: Database
    onlooker: Onlooker
    differences: frozenset[Difference]
    localpart: Callable[[str], str]
    """What stands before the colon in the user of ours whom somebody calls so."""
    alias_localpart: Callable[[str], str]
    """The same of an alias that rooms of ours may have, and no room of anybody else."""
    make_person: Callable[[str], Awaitable[Person]]
    again: Callable[[], AbstractAsyncContextManager[MatrixBackend]]
    """The side as another process has it: what only a process knows is gone."""
    send_to_device: Callable[[Person, str, Mapping[str, Any]], Awaitable[None]]
    names: GhostNames
    encrypt: Callable[[Person, str], Awaitable[None]]
    """A person makes a room of theirs an encrypted one."""

    # -- who --

    @property
    def domain(self) -> str:
        return self.side.server_name

    def named(self, name: str) -> str:
        """As nobody else is."""
        return f"{name}-{secrets.token_hex(4)}"

    def nobody(self) -> str:
        """A user of ours whom there is not."""
        return f"@{self.localpart(self.named('nobody'))}:{self.domain}"

    async def user(self, name: str = "alice", displayname: str | None = None) -> str:
        """One of ours, whom there is from now on."""
        user = f"@{self.localpart(self.named(name))}:{self.domain}"
        await self.side.ensure_user(user)
        if displayname is not None:
            await self.side.set_profile(user, displayname=displayname)
        return user

    async def person(self, name: str = "bob") -> Person:
        """Somebody who is none of ours."""
        return await self.make_person(self.named(name))

    def named_alias(self, name: str) -> str:
        """What stands before the colon in an alias that no room has yet."""
        return self.alias_localpart(self.named(name))

    def alias(self, name: str) -> str:
        return f"#{name}:{self.domain}"

    # -- what they do --

    async def room(self, creator: str, **request: Any) -> str:
        """One that everybody may come into, unless the request says otherwise."""
        asked = {"preset": "public_chat", **request}
        return (await self.side.create_room(CreateRoomRequest(creator=creator, **asked))).room_id

    async def meeting(self, **request: Any) -> tuple[str, str, Person]:
        """A room of ours, whose it is, and a person in it."""
        alice, bob = await self.user("alice"), await self.person("bob")
        room_id = await self.room(alice, **request)
        await self.come(bob, room_id)
        return room_id, alice, bob

    async def come(self, person: Person, room_id: str) -> None:
        """Into a room of ours; and we know it."""
        await person.join(room_id, via=[self.domain])
        await self.until_member(room_id, person.user_id, "join")

    async def say(self, room_id: str, user: str, body: str, **how: Any) -> str:
        content = {"msgtype": "m.text", "body": body}
        return await self.side.send(room_id, user, "m.room.message", content, **how)

    async def state(self, room_id: str, type_: str, state_key: str = "") -> Any:
        """The content of an entry; None where there is none."""
        event = await self.side.state_event(room_id, type_, state_key)
        return None if event is None else event.content

    async def events(self, room_id: str) -> list[RoomEvent]:
        """The timeline from the beginning, as far as one page has it."""
        return list((await self.side.messages(room_id, limit=1_000)).events)[::-1]

    # -- what comes of it --

    async def until(self, condition: Callable[[RoomEvent], object]) -> StreamedEvent:
        return await self.onlooker.until(condition)

    async def until_event(self, event_id: str) -> StreamedEvent:
        return await self.onlooker.until(lambda event: event.event_id == event_id)

    async def until_so(self, condition: Callable[[], Awaitable[object]]) -> None:
        await self.onlooker.until_so(condition)

    async def until_member(self, room_id: str, user: str, membership: str) -> None:
        async def is_so() -> bool:
            return await self.side.membership(room_id, user) == membership

        await self.until_so(is_so)


async def refused(asked: Awaitable[object], *errcodes: str) -> MatrixError:
    """With one of these, and a sentence that is one."""
    with pytest.raises(MatrixError) as refusal:
        await asked
    assert refusal.value.errcode in errcodes, refusal.value
    assert refusal.value.text
    return refusal.value


def said(content: Mapping[str, Any]) -> dict[str, Any]:
    """Without that by which a guest knows its own message again."""
    return {name: value for name, value in content.items() if name != TRANSACTION}


def bodies(events: Any) -> list[object]:
    """What messages among them say, in their order."""
    return [event.content.get("body") for event in events if event.type == "m.room.message"]


def of(room_id: str) -> Callable[[Any], bool]:
    """For a reader whom one room concerns."""
    return lambda event: event.room_id == room_id
