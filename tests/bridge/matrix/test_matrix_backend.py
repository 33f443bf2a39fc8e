"""The interface of a Matrix backend, and that the homeserver implements it."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from bridge.matrix.backend import MatrixBackend
from federation.local_users.local_users import LocalUsers
from federation.matrix.capabilities import BackendCapability
from federation.matrix.message_content import edit, reaction, reply, text
from federation.rooms.creation import CreateRoomRequest
from storage.database import Database
from tests.federation.local_users.homes import homeserver_without_port


def as_side(rooms: LocalUsers) -> MatrixBackend:
    """mypy compares the signatures."""
    return rooms


def operations(part: type) -> Mapping[str, Callable[..., Any]]:
    return {name: called(value) for name, value in vars(part).items() if not name.startswith("_")}


def called(value: Any) -> Callable[..., Any]:
    function: Any = value.fget if isinstance(value, property) else value
    operation: Callable[..., Any] = function
    return operation


def parameters(operation: Callable[..., Any]) -> list[tuple[str, object, object]]:
    return [(one.name, one.kind, one.default) for one in inspect.signature(operation).parameters.values()]


@pytest.mark.parametrize(("name", "operation"), operations(MatrixBackend).items())
def test_homeserver_implements_every_operation(name: str, operation: Callable[..., Any]) -> None:
    """With the same parameter names, order and defaults."""
    ours = called(inspect.getattr_static(LocalUsers, name))
    assert parameters(ours) == parameters(operation)
    assert inspect.signature(operation).return_annotation is not inspect.Signature.empty


async def test_agent_round_trip(database: Database) -> None:
    """From registration to handling an event, using only the interface."""
    async with homeserver_without_port("here.test", database) as home:
        matrix = as_side(home.rooms)
        assert matrix.server_name == "here.test"
        assert BackendCapability.ROOM_IDS in matrix.capabilities
        cook, guest = "@cook:here.test", "@guest:here.test"
        for user, name in ((cook, "Cook"), (guest, "Appservice")):
            await matrix.ensure_user(user)
            await matrix.set_profile(user, displayname=name)
        request = CreateRoomRequest(
            creator=cook,
            preset="public_chat",
            version="11",
            room_id="agent-federation-default",
            alias="agent-federation-default",
            key="federation room",
        )
        room_id = (await matrix.create_room(request)).room_id
        assert room_id == "!agent-federation-default:here.test"
        assert await matrix.join("#agent-federation-default:here.test", guest) == room_id
        said = await matrix.send(room_id, cook, "m.room.message", text("Soup?"), transaction_id="1")
        await matrix.send(room_id, guest, "m.room.message", reply(said, text("Yes")), transaction_id="1")
        await matrix.send(room_id, guest, "m.reaction", reaction(said, "👍"))
        await matrix.send(room_id, cook, "m.room.message", edit(said, text("Soup!")))
        await matrix.set_state(room_id, cook, "io.cis.agent.registered", {"status": "online"}, "cook")
        await matrix.mark_read(room_id, guest, said)
        await matrix.set_typing(room_id, guest, typing=True)
        assert list(matrix.typing(room_id)) == [guest]
        assert [one.user_id for one in await matrix.receipts(room_id)] == [guest]
        async with matrix.subscription("test") as subscription:
            entries = await subscription.next()
            async with database.transaction() as connection:
                await subscription.advance(connection, entries[-1].position)
        assert said in [entry.event.event_id for entry in entries]
        assert len(await matrix.relations(room_id, said)) == 3
        page = await matrix.messages(room_id, limit=1, reader=guest)
        assert [event.type for event in page.events] == ["io.cis.agent.registered"]
        info = await matrix.upload(cook, b"recipe", "text/plain")
        async with matrix.download(str(info.mxc)) as medium:
            assert b"".join([chunk async for chunk in medium.chunks]) == b"recipe"
        new_room = await matrix.upgrade_room(room_id, cook, "12")
        assert await matrix.resolve_alias("#agent-federation-default:here.test") == (new_room, ("here.test",))
