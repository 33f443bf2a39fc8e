"""Typing, presence, receipts and to-device messages."""

import asyncio

import pytest

from federation.matrix.errors import MatrixError
from federation.transactions.edus import MAX_STATUS_BYTES, Receipt, ToDevice, UserPresence
from tests.appservice.local_users.fake_homeserver import ALICE, COOK, EVE, Side


async def until_told(node_with_rooms: Side, count: int) -> list[str]:
    """Wait for requests to the homeserver, by the end of their paths."""
    async with asyncio.timeout(20):
        while len(node_with_rooms.rooms.moments) < count:
            await asyncio.sleep(0.01)  # another task receives it
    return [path.rpartition("/v3/")[2].replace("%21", "!").replace("%3A", ":").replace("%40", "@")
            for path, _ in node_with_rooms.rooms.moments]  # fmt: skip


async def test_typing_users_are_in_the_room(node_with_rooms: Side) -> None:
    """The timeout is limited."""
    room_id = await node_with_rooms.room()
    await node_with_rooms.side.set_typing(room_id, COOK, typing=True, lasts_ms=10**9)
    assert tuple(node_with_rooms.side.typing(room_id)) == (COOK,)
    assert await until_told(node_with_rooms, 1) == [f"rooms/{room_id}/typing/{COOK}"]
    assert node_with_rooms.rooms.moments[0][1] == {"typing": True, "timeout": 120_000}
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        await node_with_rooms.side.set_typing(room_id, EVE, typing=True)
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        await node_with_rooms.side.set_typing(room_id, ALICE, typing=True)
    for unknown in ("!no:their.server", "", "!\0:x"):
        with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
            await node_with_rooms.side.set_typing(unknown, COOK, typing=True)


async def test_presence_is_validated(node_with_rooms: Side) -> None:
    """And only for ghosts."""
    await node_with_rooms.side.set_presence(COOK, "unavailable", status="thinking")
    assert node_with_rooms.side.presence(COOK) == UserPresence(COOK, "unavailable", None, False, "thinking")
    assert node_with_rooms.side.presence(EVE) is None
    await until_told(node_with_rooms, 1)
    assert node_with_rooms.rooms.moments[0][1] == {"presence": "unavailable", "status_msg": "thinking"}
    for presence, status in (("dnd", None), ("online", "a\0b"), ("online", "x" * (MAX_STATUS_BYTES + 1))):
        with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
            await node_with_rooms.side.set_presence(COOK, presence, status=status)  # type: ignore[arg-type]
    with pytest.raises(MatrixError, match="M_FORBIDDEN"):
        await node_with_rooms.side.set_presence(ALICE, "online")


async def test_receipts_are_stored(node_with_rooms: Side) -> None:
    """By thread, of ghosts and people; only for existing events."""
    room_id = await node_with_rooms.room()
    ids = [node_with_rooms.said(room_id, ALICE, body) for body in "ab"]
    await node_with_rooms.tell()
    untold = node_with_rooms.said(room_id, ALICE, "c")
    await node_with_rooms.side.mark_read(room_id, COOK, ids[0])
    await node_with_rooms.side.mark_read(room_id, COOK, untold, thread_id=ids[1])
    # The clock does not advance, so nothing expires.
    node_with_rooms.side._parts.ephemeral.notify(Receipt(room_id, ALICE, ids[1], 7, "main"))
    receipts = await node_with_rooms.side.receipts(room_id)
    assert {(one.user_id, one.thread_id, one.event_id) for one in receipts} == {
        (COOK, None, ids[0]),
        (COOK, ids[1], untold),
        (ALICE, "main", ids[1]),
    }
    assert len(await until_told(node_with_rooms, 2)) == 2
    assert node_with_rooms.rooms.moments[1][1] == {"thread_id": ids[1]}
    other = await node_with_rooms.room()
    for room, event_id in ((other, ids[0]), (room_id, "$unknown"), (room_id, "\0"), (room_id, "")):
        with pytest.raises(MatrixError, match="404 M_NOT_FOUND: There is no such event"):
            await node_with_rooms.side.mark_read(room, COOK, event_id)
    with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
        await node_with_rooms.side.mark_read(room_id, COOK, ids[0], thread_id="thread")
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        await node_with_rooms.side.mark_read(room_id, EVE, ids[0])
    assert await node_with_rooms.side.receipts("\0") == []


async def test_to_device_messages_until_deleted(node_with_rooms: Side) -> None:
    """They are deleted in the reader's commit."""
    content = {"odd": "\0"}
    await node_with_rooms.harness.receive(
        "device",
        to_device=[{"type": "m.x", "sender": ALICE, "to_user_id": COOK, "to_device_id": "D", "content": content}],
    )
    assert any(isinstance(told, ToDevice) for told in node_with_rooms.harness.told)
    (message,) = await node_with_rooms.side.device_messages(COOK)
    assert (message.user_id, message.device_id, message.sender, message.content) == (COOK, "D", ALICE, content)
    async with node_with_rooms.harness.database.transaction() as connection:
        await node_with_rooms.side.forget_device_messages(connection, EVE, [message.position])
    assert await node_with_rooms.side.device_messages(COOK, limit=1) == [message]
    async with node_with_rooms.harness.database.transaction() as connection:
        await node_with_rooms.side.forget_device_messages(connection, COOK, [message.position])
    assert await node_with_rooms.side.device_messages(COOK) == []
    with pytest.raises(MatrixError, match="M_FORBIDDEN"):
        await node_with_rooms.side.device_messages(ALICE)


async def test_edus_cannot_be_sent(node_with_rooms: Side) -> None:
    """A homeserver has no API for them; received ones reach their listeners."""
    room_id = await node_with_rooms.room()
    with pytest.raises(MatrixError, match="400 M_UNRECOGNIZED"):
        await node_with_rooms.side.send_edu(room_id, "io.cis.agent.heartbeat", {})
    heard: list[object] = []
    end = node_with_rooms.side.listen("m.presence", heard.append)
    await node_with_rooms.side.set_presence(COOK, "online")
    end()
    await node_with_rooms.side.set_presence(COOK, "offline")
    assert len(heard) == 1
