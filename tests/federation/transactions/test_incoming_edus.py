"""Handling of the EDUs of transactions, on a room graph and a database."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from federation.transactions.edus import (
    CustomEdu,
    DeviceListUpdate,
    Presence,
    Receipt,
    Receipts,
    SigningKeyUpdate,
    ToDevice,
    Typing,
    UserPresence,
)
from federation.transactions.incoming_edus import IncomingEdus
from federation.transactions.outgoing_edus import device_list_update, presence, receipt, to_device, typing
from storage.database import Connection, Database
from storage.federation.edus import ReceiptRow, fetch_receipts
from tests.federation.standing import denying
from tests.support.graph import US, Graph, graph_on, join
from tests.support.rooms import BOB, CAROL, Room, public_room

ORIGIN = "b.example"


@dataclass
class Listener:
    """Records what it receives. `broken`: storing to-device messages fails."""

    heard: list[object] = field(default_factory=list)
    broken: bool = False

    def handle_typing(self, typing: Typing) -> None:
        self.heard.append(typing)

    def handle_receipts(self, receipts: Receipts) -> None:
        self.heard.append(receipts)

    def handle_presence(self, presence: Presence) -> None:
        self.heard.append(presence)

    def handle_device_update(self, update: DeviceListUpdate | SigningKeyUpdate) -> None:
        self.heard.append(update)

    def handle_custom(self, origin: str, edu: CustomEdu) -> None:
        self.heard.append((origin, edu))

    async def handle_to_device(self, connection: Connection, message: ToDevice) -> None:
        if self.broken:
            raise OSError("the disk is full")
        assert connection.is_in_transaction()
        self.heard.append(message)


@dataclass
class Receiving:
    room: Room
    graph: Graph
    listener: Listener
    edus: IncomingEdus

    async def receive(self, *edus: Any) -> list[object]:
        """Return what the listener received."""
        await self.edus.receive(ORIGIN, [raw(edu) for edu in edus])
        heard, self.listener.heard = self.listener.heard, []
        return heard


def raw(edu: Any) -> Any:
    return {"edu_type": edu.edu_type, "content": edu.content} if hasattr(edu, "edu_type") else edu


@pytest.fixture
async def receiving(database: Database) -> AsyncIterator[Receiving]:
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        listener = Listener()
        yield Receiving(room, here, listener, IncomingEdus(database, here.graph, listener))


async def test_typing_requires_membership_of_a_known_room(receiving: Receiving) -> None:
    """Typing of other users and in other rooms is ignored."""
    room_id = receiving.room.room_id
    types = Typing(room_id, BOB, True)
    stranger = Typing(room_id, "@stranger:b.example", True)
    elsewhere = Typing("!elsewhere:b.example", BOB, True)
    assert await receiving.receive(*map(typing, (stranger, types, elsewhere))) == [types]


async def test_receipts_are_stored_and_listeners_notified(receiving: Receiving, database: Database) -> None:
    """Receipts of unknown rooms are ignored."""
    room_id = receiving.room.room_id
    reads = Receipt(room_id, BOB, "$e", 5)
    in_thread = Receipt(room_id, BOB, "$f", 6, "$t")
    elsewhere = Receipt("!elsewhere:b.example", BOB, "$e", 5)
    heard = await receiving.receive(*map(receipt, (reads, in_thread, elsewhere)))
    assert heard == [Receipts((reads,)), Receipts((in_thread,))]
    async with database.transaction() as connection:
        assert await fetch_receipts(connection, room_id) == [
            ReceiptRow(room_id, BOB, "", "$e", 5),
            ReceiptRow(room_id, BOB, "$t", "$f", 6),
        ]


async def test_the_acl_applies_to_typing_and_receipts(receiving: Receiving) -> None:
    """Both are ignored for a room that denies the server; presence is not."""
    denying(receiving.room)
    acl = receiving.room.state()["m.room.server_acl", ""]
    await receiving.graph.graph.receive("a.example", [dict(acl.event)])
    room_id = receiving.room.room_id
    online = UserPresence(BOB, "online")
    heard = await receiving.receive(
        typing(Typing(room_id, BOB, True)), receipt(Receipt(room_id, BOB, "$e", 5)), presence(online)
    )
    assert heard == [Presence((online,))]


async def test_device_updates_and_custom_edus_reach_the_listener(receiving: Receiving) -> None:
    """Device lists, signing keys, and types that the specification does not define."""
    heard = await receiving.receive(
        device_list_update(BOB, "D", 1, ()),
        {"edu_type": "m.signing_key_update", "content": {"user_id": BOB}},
        {"edu_type": "io.cis.agent.heartbeat", "content": {"a": 1}},
    )
    assert heard == [
        DeviceListUpdate(BOB, "D", 1, (), False, None, None),
        SigningKeyUpdate(BOB, None, None),
        (ORIGIN, CustomEdu("io.cis.agent.heartbeat", {"a": 1})),
    ]


async def test_an_invalid_edu_does_not_affect_the_others(receiving: Receiving) -> None:
    """It is ignored."""
    types = Typing(receiving.room.room_id, BOB, True)
    wrong = typing(Typing(receiving.room.room_id, CAROL, True))
    assert await receiving.receive(None, wrong, {"edu_type": "m.typing"}, typing(types)) == [types]


async def test_a_to_device_message_is_handled_once(receiving: Receiving) -> None:
    """Repetitions of its transaction are recognised by its id."""
    message = ToDevice(BOB, "t", "m1", {US: {"*": {"x": 1}}})
    assert await receiving.receive(to_device(message), to_device(message)) == [message]
    assert await receiving.receive(to_device(message)) == []
    assert await receiving.edus.prune() == 0


async def test_a_to_device_message_that_could_not_be_stored_fails_the_transaction(receiving: Receiving) -> None:
    """The transaction is repeated, and the message counts as new then."""
    message = ToDevice(BOB, "t", "m1", {US: {"*": {"x": 1}}})
    receiving.listener.broken = True
    with pytest.raises(OSError, match="disk"):
        await receiving.receive(to_device(message))
    receiving.listener.broken = False
    assert await receiving.receive(to_device(message)) == [message]
