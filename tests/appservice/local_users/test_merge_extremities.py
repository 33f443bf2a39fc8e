"""The workaround for joins that Synapse loses."""

import asyncio

import pytest

from appservice.local_users import sending as module
from appservice.local_users.merge_extremities import DUMMY_EVENT, REFUSAL_TTL_MS
from appservice.local_users.sending import AT_ONCE, Sending
from federation.matrix.errors import MatrixError
from federation.matrix.message_content import in_thread, text
from tests.appservice.local_users.setup import AttachedNode
from tests.appservice.local_users.test_sending import ALICE, GHOST, MESSAGE, OTHER, ROOM, sending

NODE = "@_agent_palaver:their.server"
__all__ = ["sending"]


async def refused(sending: Sending, type_: str = MESSAGE) -> None:
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        await sending.send(ROOM, GHOST, type_, text("May I?"))


async def test_refused_event_of_a_member_is_retried(attached: AttachedNode, sending: Sending) -> None:
    """Before each retry the node's own user merges extremities, once for all waiting sends, if it is in the
    room."""
    attached.rooms.unseen = 2
    await sending.send(ROOM, GHOST, MESSAGE, text("Here I am."), transaction_id="1")
    assert attached.rooms.bodies(ROOM) == ["Here I am."]
    assert attached.asked(DUMMY_EVENT) == []
    await attached.parts.ghosts.ensure_user(NODE)
    attached.rooms.moves(ROOM, NODE, "join")
    await attached.tell()
    attached.rooms.unseen = 3
    await asyncio.gather(*(sending.send(ROOM, GHOST, MESSAGE, text(f"{n}")) for n in range(3)))
    assert 1 <= len(attached.asked(DUMMY_EVENT)) < 3


async def test_final_refusal_is_remembered(
    attached: AttachedNode, sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The homeserver may have rules of its own."""
    monkeypatch.setattr(module, "RETRY_DELAYS", (0.0, 0.0))
    attached.rooms.unseen = 100
    for later, asked in ((0, 3), (0, 1), (REFUSAL_TTL_MS, 3)):
        attached.rooms.now += later
        before = len(attached.asked("/send/"))
        await refused(sending)
        assert len(attached.asked("/send/")) == before + asked


async def test_waiting_retries_do_not_block_the_room(
    attached: AttachedNode, sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only requests in progress count for the limit."""
    monkeypatch.setattr(module, "RETRY_DELAYS", (600.0,))
    attached.rooms.unseen = AT_ONCE
    waiting = [
        asyncio.create_task(sending.send(ROOM, GHOST, MESSAGE, in_thread(f"$t{n}", text("Here I am."))))
        for n in range(AT_ONCE)
    ]
    try:
        while attached.rooms.unseen:
            await asyncio.sleep(0)
        async with asyncio.timeout(10):
            await sending.send(ROOM, OTHER, MESSAGE, text("a word"))
            await sending.send(ROOM, GHOST, MESSAGE, in_thread("$other", text("another")))
        assert attached.rooms.bodies(ROOM) == ["a word", "another"]
    finally:
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_justified_refusal_is_not_retried(attached: AttachedNode, sending: Sending) -> None:
    """Without the power level, for the state of another user, or without a membership."""
    levels = {"users_default": 0, "events_default": 0, "state_default": 0, "events": {"io.secret": 50}}
    attached.rooms.happens(ROOM, ALICE, "m.room.power_levels", levels, "")
    await attached.tell()
    attached.rooms.unseen = 100
    await refused(sending, "io.secret")
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        await sending.set_state(ROOM, GHOST, "io.state", {}, OTHER)
    assert len(attached.asked("io.state")) == 1
    attached.rooms.moves(ROOM, GHOST, "ban", ALICE)
    await attached.tell()
    await refused(sending)
    assert attached.asked(DUMMY_EVENT) == []
    assert len(attached.asked("/send/")) == 2
