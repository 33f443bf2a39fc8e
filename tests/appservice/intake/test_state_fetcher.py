"""The whole state of a room, fetched when what was told is not enough."""

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
from tests.appservice.intake.pushed_events import OTHER, Telling, with_ghost
from tests.appservice.intakes import OURS, Appservice

DAY = timedelta(days=1)


def fetching(telling: Telling) -> StateFetcher:
    return StateFetcher(telling.guest.database, telling.fetch, registration="palaver", is_ours=OURS.owns_user)


async def test_events_that_cannot_be_read_are_left_out(
    guest: Appservice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest is the state. An event is of the room that was asked for, whatever it says."""
    monkeypatch.setattr(module, "YIELD_EVERY", 2)
    telling = with_ghost(guest)
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

    room = StateFetcher(guest.database, fetch, registration="palaver", is_ours=OURS.owns_user)
    assert await room.ensure_complete(ROOM, DAY)
    known = await guest.database.read(lambda one: rooms.fetch_entries(one, ROOM, None, None, DAY))
    assert known is not None
    assert (known[0], {entry.type for entry in known[1]}) == ("complete", {b"m.room.member", b"m.room.topic"})
    assert elsewhere["event_id"] in {entry.event_id for entry in known[1]}


async def test_those_are_asked_as_who_are_ours(guest: Appservice) -> None:
    """A prefix of ghosts may have been another one before."""
    telling = with_ghost(guest)
    telling.moves(OTHER, "join")
    await telling.tell()
    ours = StateFetcher(
        guest.database, telling.fetch, registration="palaver", is_ours=lambda user: user == OTHER
    )
    assert await ours.residents(ROOM) == [OTHER]
    assert await ours.ensure_complete(ROOM, DAY)
    assert telling.asked == [(ROOM, OTHER)]
    nobody = StateFetcher(guest.database, telling.fetch, registration="palaver", is_ours=lambda user: False)
    assert not await nobody.ensure_complete(ROOM, DAY)


async def test_nobody_is_asked_about_a_room_that_is_not_known(guest: Appservice) -> None:
    """False: nobody of ours is there."""
    telling = with_ghost(guest)
    assert not await fetching(telling).ensure_complete(ROOM, DAY)
    assert telling.asked == []


@pytest.mark.parametrize("status", [401, 429, 500])
async def test_only_who_is_not_there_is_taken_out(guest: Appservice, status: int) -> None:
    """Another refusal says nothing about the room."""
    telling = with_ghost(guest)
    await telling.tell()

    async def refuse(room_id: str, as_user: str) -> Sequence[Mapping[str, Any]]:
        raise MatrixError("M_UNKNOWN", "No.", status)

    room = StateFetcher(guest.database, refuse, registration="palaver", is_ours=OURS.owns_user)
    with pytest.raises(MatrixError, match="No"):
        await room.ensure_complete(ROOM, DAY)
    assert await room.residents(ROOM) == [GHOST]


async def test_two_processes_fetch_one_room(guest: Appservice) -> None:
    """Each keeps what it was told, and neither takes away what the other one knows to be newer."""
    telling = with_ghost(guest)
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
    known = await guest.database.read(lambda it: rooms.fetch_entries(it, ROOM, None, None, DAY))
    assert known is not None
    assert {entry.event_id for entry in known[1]} == set(telling.ids().values())


async def test_what_is_kept_waits_for_what_is_taken_in(guest: Appservice) -> None:
    """Nobody writes to a room while the registration is locked; whoever gives up has written nothing."""
    telling = with_ghost(guest)
    await telling.tell()
    room = fetching(telling)
    async with guest.database.transaction() as connection:
        await lock_registration(connection, "palaver")
        asked = asyncio.create_task(room.ensure_complete(ROOM, DAY))
        while not telling.asked:
            await asyncio.sleep(0)
        done, _ = await asyncio.wait([asked], timeout=0.05)
        assert not done
        await room.close()
    with pytest.raises(asyncio.CancelledError):
        await asked
    known = await guest.database.read(lambda it: rooms.fetch_entries(it, ROOM, None, None, DAY))
    assert known is not None
    assert known[0] == "partial"


async def test_what_has_become_whole_meanwhile_is_not_fetched_again(guest: Appservice) -> None:
    """Whoever found it in part asks after somebody else's answer has come. What is too old is fetched."""
    telling = with_ghost(guest)
    await telling.tell()
    room = fetching(telling)
    for _ in range(2):
        assert await room.ensure_complete(ROOM, DAY)
    assert len(telling.asked) == 1
    assert await room.ensure_complete(ROOM, -DAY)
    assert len(telling.asked) == 2
