"""The rooms of shared offices that a node keeps track of."""

import asyncio

import pytest

from bridge.connectors.offices.federated import shared_offices as module
from bridge.connectors.offices.federated.shared_offices import SharedOffices
from federation.matrix.errors import MatrixError
from storage.concurrency import BackgroundTasks
from tests.bridge.connectors.offices.clients import TIMEOUT
from tests.bridge.connectors.offices.federated.test_shared_offices import OFFICE, Sites, adds, listed, sites

__all__ = ["sites"]


async def test_an_office_without_local_members_is_dropped(sites: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next member that joins makes it known again."""
    boss = await sites.home.agent("boss", "kitchen")
    hands = await sites.away.computer("hands", OFFICE)
    server = sites.away.running.server
    await listed(hands, OFFICE, "boss", "hands")
    monkeypatch.setattr(module, "UNUSED_SECONDS", 0.0)
    monkeypatch.setattr(module, "REFRESH_INTERVAL", 0.01)
    await hands.leave(OFFICE)
    shared = server._memberships._shared
    assert isinstance(shared, SharedOffices)
    rooms = shared._rooms
    # The running loop still sleeps for the original interval.
    await rooms.close()
    rooms._background = BackgroundTasks()
    rooms.start()
    async with asyncio.timeout(TIMEOUT):
        while server.all_members():
            await asyncio.sleep(0.01)
    assert (rooms._by_office, rooms._by_room, len(rooms._enter_locks)) == ({}, {}, 0)
    monkeypatch.undo()
    assert await hands.join("computer", "hands", OFFICE) == [True, None]
    hands.answers["client:tool_call"] = adds
    await listed(boss, "kitchen", "boss", "hands")
    assert (await boss.call("hands", a=1, b=2))["content"] == [{"type": "text", "text": "3"}]


async def test_an_office_that_cannot_be_loaded_is_not_kept(sites: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next join tries again."""
    await sites.home.computer("hands", "kitchen")
    shared = sites.away.running.server._memberships._shared
    assert isinstance(shared, SharedOffices)

    async def refuse(room: module.Room) -> None:
        raise MatrixError("M_UNKNOWN", "not now", 500)

    client = await sites.away.running.client(token=sites.away.token)
    with monkeypatch.context() as patched:
        patched.setattr(shared._rooms, "_load", refuse)
        joined, reason = await client.join("agent", "boss", OFFICE)
        assert (joined, "not now" in reason) == (False, True)
        assert (shared._rooms._by_office, shared._rooms._by_room) == ({}, {})
    assert await client.join("agent", "boss", OFFICE) == [True, None]
