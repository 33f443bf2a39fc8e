"""A Matrix backend, people who are not its users, and helpers for the behaviours."""

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
from tests.connectors.stream_recorder import StreamRecorder
from tests.support.driven_node.walking import Person

TRANSACTION = "io.palaver.transaction"


@dataclass(kw_only=True)
class BackendSetup:
    """All tests of a module share one, so each uses its own names."""

    side: MatrixBackend
    database: Database
    recorder: StreamRecorder
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

    # -- users --

    @property
    def domain(self) -> str:
        return self.side.server_name

    def named(self, name: str) -> str:
        """A unique name."""
        return f"{name}-{secrets.token_hex(4)}"

    def nobody(self) -> str:
        """A local user that does not exist."""
        return f"@{self.localpart(self.named('nobody'))}:{self.domain}"

    async def user(self, name: str = "alice", displayname: str | None = None) -> str:
        """A new local user."""
        user = f"@{self.localpart(self.named(name))}:{self.domain}"
        await self.side.ensure_user(user)
        if displayname is not None:
            await self.side.set_profile(user, displayname=displayname)
        return user

    async def person(self, name: str = "bob") -> Person:
        """A user of another server, or of the homeserver."""
        return await self.make_person(self.named(name))

    def named_alias(self, name: str) -> str:
        """An unused alias localpart."""
        return self.alias_localpart(self.named(name))

    def alias(self, name: str) -> str:
        return f"#{name}:{self.domain}"

    # -- actions --

    async def room(self, creator: str, **request: Any) -> str:
        """A public room, unless the request says otherwise."""
        asked = {"preset": "public_chat", **request}
        return (await self.side.create_room(CreateRoomRequest(creator=creator, **asked))).room_id

    async def meeting(self, **request: Any) -> tuple[str, str, Person]:
        """A local user, its room, and a person in it."""
        alice, bob = await self.user("alice"), await self.person("bob")
        room_id = await self.room(alice, **request)
        await self.come(bob, room_id)
        return room_id, alice, bob

    async def come(self, person: Person, room_id: str) -> None:
        """Join a local room, and wait until the backend knows."""
        await person.join(room_id, via=[self.domain])
        await self.until_member(room_id, person.user_id, "join")

    async def say(self, room_id: str, user: str, body: str, **how: Any) -> str:
        content = {"msgtype": "m.text", "body": body}
        return await self.side.send(room_id, user, "m.room.message", content, **how)

    async def state(self, room_id: str, type_: str, state_key: str = "") -> Any:
        """The content of a state event; None if there is none."""
        event = await self.side.state_event(room_id, type_, state_key)
        return None if event is None else event.content

    async def events(self, room_id: str) -> list[RoomEvent]:
        """The timeline from the start, one page."""
        return list((await self.side.messages(room_id, limit=1_000)).events)[::-1]

    # -- results --

    async def until(self, condition: Callable[[RoomEvent], object]) -> StreamedEvent:
        return await self.recorder.until(condition)

    async def until_event(self, event_id: str) -> StreamedEvent:
        return await self.recorder.until(lambda event: event.event_id == event_id)

    async def until_so(self, condition: Callable[[], Awaitable[object]]) -> None:
        await self.recorder.until_so(condition)

    async def until_member(self, room_id: str, user: str, membership: str) -> None:
        async def is_so() -> bool:
            return await self.side.membership(room_id, user) == membership

        await self.until_so(is_so)


async def refused(asked: Awaitable[object], *errcodes: str) -> MatrixError:
    """With one of these errcodes, and a non-empty sentence."""
    with pytest.raises(MatrixError) as refusal:
        await asked
    assert refusal.value.errcode in errcodes, refusal.value
    assert refusal.value.text
    return refusal.value


def said(content: Mapping[str, Any]) -> dict[str, Any]:
    """Without the transaction key of an attached node."""
    return {name: value for name, value in content.items() if name != TRANSACTION}


def bodies(events: Any) -> list[object]:
    """The texts of the messages, in order."""
    return [event.content.get("body") for event in events if event.type == "m.room.message"]


def of(room_id: str) -> Callable[[Any], bool]:
    """A filter for one room."""
    return lambda event: event.room_id == room_id
