"""Fetching the full state of a room."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from appservice.intake import state_fetcher as module
from appservice.intake.state_fetcher import StateFetcher
from federation.matrix.errors import MatrixError
from storage.appservice import rooms
from storage.appservice.events import lock_registration
from tests.appservice.events import GHOST, ROOM
from tests.appservice.intake.pushed_events import OTHER, PushingHomeserver, with_ghost
from tests.appservice.intakes import OURS, IntakeHarness

DAY = timedelta(days=1)


def fetching(telling: PushingHomeserver) -> StateFetcher:
    return StateFetcher(telling.harness.database, telling.fetch, registration="palaver", is_ours=OURS.owns_user)


async def test_invalid_events_are_skipped(harness: IntakeHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is the state. Events belong to the requested room, whatever they contain."""
    monkeypatch.setattr(module, "YIELD_EVERY", 2)
    telling = with_ghost(harness)
    await telling.tell()
    odd: list[Any] = [
        {},
        {"type": "m.room.message"},
        telling.happens("m.room.message", {"body": "a"}, None),
        telling.happens("io.big", {"text": "x" * 70_000}, told=False),
        {**telling.topic("first"), "content": []},
    ]
    elsewhere = {**telling.topic("second"), "room_id": "!other:their.server"}

    async def fetch(room_id: str, as_user: str) -> Sequence[Mapping[str, Any]]:
        found = [event for key, event in telling.rooms[room_id].items() if key[0].startswith("m.room.member")]
        return [*odd, *found, elsewhere, elsewhere]

    room = StateFetcher(harness.database, fetch, registration="palaver", is_ours=OURS.owns_user)
    assert await room.ensure_complete(ROOM, DAY)
    known = await harness.database.read(lambda one: rooms.fetch_entries(one, ROOM, None, None, DAY))
    assert known is not None
    assert (known[0], {entry.type for entry in known[1]}) == ("complete", {b"m.room.member", b"m.room.topic"})
    assert elsewhere["event_id"] in {entry.event_id for entry in known[1]}


async def test_only_current_ghosts_are_residents(harness: IntakeHarness) -> None:
    """The user prefix may have changed."""
    telling = with_ghost(harness)
    telling.moves(OTHER, "join")
    await telling.tell()
    ours = StateFetcher(harness.database, telling.fetch, registration="palaver", is_ours=lambda user: user == OTHER)
    assert await ours.residents(ROOM) == [OTHER]
    assert await ours.ensure_complete(ROOM, DAY)
    assert telling.asked == [(ROOM, OTHER)]
    nobody = StateFetcher(harness.database, telling.fetch, registration="palaver", is_ours=lambda user: False)
    assert not await nobody.ensure_complete(ROOM, DAY)


async def test_unknown_room_causes_no_request(harness: IntakeHarness) -> None:
    """The result is False."""
    telling = with_ghost(harness)
    assert not await fetching(telling).ensure_complete(ROOM, DAY)
    assert telling.asked == []


@pytest.mark.parametrize("status", [401, 429, 500])
async def test_only_403_and_404_remove_a_resident(harness: IntakeHarness, status: int) -> None:
    """Other refusals say nothing about the room."""
    telling = with_ghost(harness)
    await telling.tell()

    async def refuse(room_id: str, as_user: str) -> Sequence[Mapping[str, Any]]:
        raise MatrixError("M_UNKNOWN", "No.", status)

    room = StateFetcher(harness.database, refuse, registration="palaver", is_ours=OURS.owns_user)
    with pytest.raises(MatrixError, match="No"):
        await room.ensure_complete(ROOM, DAY)
    assert await room.residents(ROOM) == [GHOST]


async def test_two_processes_fetch_one_room(harness: IntakeHarness) -> None:
    """Neither removes what the other knows to be newer."""
    telling = with_ghost(harness)
    await telling.tell()
    one, two = fetching(telling), fetching(telling)
    gate = asyncio.Event()
    telling.during = gate.wait
    late = asyncio.create_task(one.ensure_complete(ROOM, DAY))
    while not telling.asked:
        await asyncio.sleep(0)
    telling.topic("second")
    await telling.tell()
    assert await two.ensure_complete(ROOM, DAY)
    gate.set()
    assert await late
    known = await harness.database.read(lambda it: rooms.fetch_entries(it, ROOM, None, None, DAY))
    assert known is not None
    assert {entry.event_id for entry in known[1]} == set(telling.ids().values())


async def test_writes_wait_for_the_intake(harness: IntakeHarness) -> None:
    """A room is not written while the registration is locked; a cancelled fetch writes nothing."""
    telling = with_ghost(harness)
    await telling.tell()
    room = fetching(telling)
    async with harness.database.transaction() as connection:
        await lock_registration(connection, "palaver")
        asked = asyncio.create_task(room.ensure_complete(ROOM, DAY))
        while not telling.asked:
            await asyncio.sleep(0)
        done, _ = await asyncio.wait([asked], timeout=0.05)
        assert not done
        await room.close()
    with pytest.raises(asyncio.CancelledError):
        await asked
    known = await harness.database.read(lambda it: rooms.fetch_entries(it, ROOM, None, None, DAY))
    assert known is not None
    assert known[0] == "partial"


async def test_concurrently_completed_state_is_not_fetched_again(harness: IntakeHarness) -> None:
    """State that is too old is fetched."""
    telling = with_ghost(harness)
    await telling.tell()
    room = fetching(telling)
    for _ in range(2):
        assert await room.ensure_complete(ROOM, DAY)
    assert len(telling.asked) == 1
    assert await room.ensure_complete(ROOM, -DAY)
    assert len(telling.asked) == 2
