"""Which rooms of shared offices a node knows."""

import asyncio

import pytest

from bridge.connectors.offices.federated import shared_offices as module
from bridge.connectors.offices.federated.shared_offices import SharedOffices
from federation.matrix.errors import MatrixError
from storage.concurrency import BackgroundTasks
from tests.bridge.connectors.offices.clients import TIMEOUT
from tests.bridge.connectors.offices.federated.test_shared_offices import OFFICE, Places, adds, places, seen

__all__ = ["places"]


async def test_an_office_that_nobody_here_is_in_any_more(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is forgotten, and known again with the next who joins."""
    boss = await places.home.agent("boss", "kitchen")
    hands = await places.away.computer("hands", OFFICE)
    server = places.away.running.server
    await seen(hands, OFFICE, "boss", "hands")
    monkeypatch.setattr(module, "KEPT_FOR", 0.0)
    monkeypatch.setattr(module, "LOOKED_AT_EVERY", 0.01)
    await hands.leave(OFFICE)
    shared = server._memberships._shared
    assert isinstance(shared, SharedOffices)
    rooms = shared._rooms
    # A look that has begun its pause would end it first.
    await rooms.close()
    rooms._background = BackgroundTasks()
    rooms.start()
    async with asyncio.timeout(TIMEOUT):
        while server.everybody():
            await asyncio.sleep(0.01)
    assert (rooms._by_office, rooms._by_room, len(rooms._entering)) == ({}, {}, 0)
    monkeypatch.undo()
    assert await hands.join("computer", "hands", OFFICE) == [True, None]
    hands.answers["client:tool_call"] = adds
    await seen(boss, "kitchen", "boss", "hands")
    assert (await boss.call("hands", a=1, b=2))["content"] == [{"type": "text", "text": "3"}]


async def test_an_office_that_cannot_be_looked_at_is_not_known(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is kept of it, and the next who joins tries again."""
    await places.home.computer("hands", "kitchen")
    shared = places.away.running.server._memberships._shared
    assert isinstance(shared, SharedOffices)

    async def refuse(room: module.Room) -> None:
        raise MatrixError("M_UNKNOWN", "not now", 500)

    client = await places.away.running.client(token=places.away.token)
    with monkeypatch.context() as patched:
        patched.setattr(shared._rooms, "_look", refuse)
        joined, why = await client.join("agent", "boss", OFFICE)
        assert (joined, "not now" in why) == (False, True)
        assert (shared._rooms._by_office, shared._rooms._by_room) == ({}, {})
    assert await client.join("agent", "boss", OFFICE) == [True, None]
