"""Fetching events that the homeserver failed to push."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from appservice.intake import missed_events as module
from appservice.intake.missed_events import MIN_CONNECTION_INTERVAL, SWEEP_INTERVAL, MissedEvents
from appservice.intake.transaction import read
from tests.appservice.events import transaction
from tests.appservice.intakes import OURS
from tests.appservice.local_users.conftest import living
from tests.appservice.local_users.setup import Living
from tests.appservice.local_users.test_sending import ALICE, GHOST, MESSAGE, ROOM

__all__ = ["living"]
OTHER_ROOM = "!other:their.server"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def missing(living: Living, clock: Clock | None = None) -> AsyncIterator[MissedEvents]:
    parts = living.parts
    missed = MissedEvents(
        parts.client,
        parts.rooms,
        parts.database,
        living.guest.intake.receive,
        is_ours=OURS.owns_user,
        now_ms=parts.now_ms,
        report=parts.report,
        monotonic=clock or Clock(),
    )
    try:
        yield missed
    finally:
        await missed.close()


def says(living: Living, *bodies: str, room_id: str = ROOM) -> list[str]:
    return [living.rooms.happens(room_id, ALICE, MESSAGE, {"body": body}) for body in bodies]


def loses(living: Living) -> None:
    """The homeserver loses its queue."""
    living.rooms.untold.clear()


async def tell(living: Living, missed: MissedEvents) -> None:
    """Push events through the port."""
    events = list(living.rooms.untold)
    await missed.fetch_before(read(transaction(*events)))
    await living.tell()


async def bodies(living: Living, room_id: str = ROOM) -> list[str]:
    events = [entry.event for entry in await living.guest.entries()]
    return [one.content["body"] for one in events if one.room_id == room_id and one.type == MESSAGE]


async def test_lost_events_precede_later_ones(living: Living) -> None:
    """Once each; events that are still queued are not fetched."""
    living.rooms.room(ROOM, GHOST)
    await living.tell()
    async with missing(living) as missed:
        says(living, "one", "two")
        loses(living)
        says(living, "three")
        after = list(living.rooms.untold)
        says(living, "four")
        await missed.fetch_before(read(transaction(*after)))
        assert await bodies(living) == ["one", "two"]
        await living.tell()
        assert await bodies(living) == ["one", "two", "three", "four"]
        [sentence] = living.guest.reported
        assert sentence == f"The homeserver had not pushed 2 events of {ROOM}; they were fetched."
        # Without a suspicion nothing is checked.
        looked = len(living.asked("messages"))
        says(living, "five")
        await tell(living, missed)
        assert len(living.asked("messages")) == looked
    assert await bodies(living) == ["one", "two", "three", "four", "five"]


async def test_new_connection_raises_suspicion(living: Living) -> None:
    """But not every time: a proxy may use a new connection for each transaction."""
    living.rooms.room(ROOM, GHOST)
    await living.tell()
    clock = Clock()
    async with missing(living, clock) as missed:
        for connection, later, looks in (
            ("first", 0.0, True),
            ("first", 60.0, False),
            ("second", 0.0, True),
            ("third", MIN_CONNECTION_INTERVAL / 2, False),
            ("fourth", MIN_CONNECTION_INTERVAL / 2, True),
        ):
            clock.now += later
            looked = len(living.asked("messages"))
            missed.connection_used(connection)
            says(living, connection)
            await tell(living, missed)
            assert (len(living.asked("messages")) > looked) is looks, connection


async def test_quiet_rooms_are_checked(living: Living, monkeypatch: pytest.MonkeyPatch) -> None:
    """A while after an outage or a new connection."""
    monkeypatch.setattr(module, "SETTLE_TIME", 0.05)
    for room_id in (ROOM, OTHER_ROOM):
        living.rooms.room(room_id, GHOST)
    await living.tell()
    clock = Clock()
    async with missing(living, clock) as missed:

        async def until(*wanted: str) -> None:
            async with asyncio.timeout(20):
                while await bodies(living, OTHER_ROOM) != list(wanted):
                    await asyncio.sleep(0.01)

        says(living, "one", room_id=OTHER_ROOM)
        loses(living)
        missed.start()
        await until("one")
        says(living, "two", room_id=OTHER_ROOM)
        loses(living)
        missed.suspect()
        await until("one", "two")
        says(living, "three", room_id=OTHER_ROOM)
        loses(living)
        missed.connection_used("first")
        clock.now += 2 * SWEEP_INTERVAL
        missed.connection_used("second")
        await until("one", "two", "three")


async def test_sweep_continues_after_an_error(living: Living, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next sweep finds the lost events."""
    monkeypatch.setattr(module, "SETTLE_TIME", 0.05)
    list_rooms = module.list_rooms
    for room_id in (ROOM, OTHER_ROOM):
        living.rooms.room(room_id, GHOST)
    await living.tell()

    async def fail(*_: object, **__: object) -> None:
        monkeypatch.setattr(module, "list_rooms", list_rooms)
        raise ValueError("broken")

    monkeypatch.setattr(module, "list_rooms", fail)
    async with missing(living) as missed:
        says(living, "one", room_id=OTHER_ROOM)
        loses(living)
        missed.start()
        async with asyncio.timeout(20):
            while await bodies(living, OTHER_ROOM) != ["one"]:
                await asyncio.sleep(0.01)


async def test_queued_events_are_not_fetched(living: Living, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quiet room is checked twice, so that queued events keep their order."""
    living.rooms.room(ROOM, GHOST)
    await living.tell()
    says(living, "one")
    waiting = asyncio.Event()

    async def sleep(seconds: float) -> None:
        if living.asked("messages") and living.rooms.untold:
            await living.tell()
            waiting.set()

    monkeypatch.setattr(module.asyncio, "sleep", sleep)
    async with missing(living) as missed:
        await missed._sweep()
    assert waiting.is_set()
    assert await bodies(living) == ["one"]
    assert living.guest.reported == []


async def test_failed_check_does_not_block(living: Living) -> None:
    """The check is repeated with the next transaction."""
    living.rooms.room(ROOM, GHOST)
    await living.tell()
    async with missing(living) as missed:
        says(living, "lost")
        loses(living)
        says(living, "one")
        before = await living.parts.rooms.resident(ROOM)
        assert before == GHOST
        living.rooms.silent = True
        await tell(living, missed)
        assert await bodies(living) == ["one"]
        living.rooms.silent = False
        says(living, "two")
        await tell(living, missed)
        assert await bodies(living) == ["one", "lost", "two"]


async def test_transaction_waits_once_for_unavailable_homeserver(living: Living) -> None:
    """However many rooms it has."""
    for room_id in (ROOM, OTHER_ROOM):
        living.rooms.room(room_id, GHOST)
    await living.tell()
    async with missing(living) as missed:
        says(living, "one")
        says(living, "two", room_id=OTHER_ROOM)
        living.rooms.silent = True
        await tell(living, missed)
        assert len(living.asked("messages")) == 1
        assert await bodies(living) == ["one"]
        assert await bodies(living, OTHER_ROOM) == ["two"]


async def test_transaction_does_not_wait_for_a_hanging_homeserver(
    living: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing events are fetched later."""
    monkeypatch.setattr(module, "CHECK_TIMEOUT", 0.05)
    living.rooms.room(ROOM, GHOST)
    await living.tell()
    async with missing(living) as missed:
        says(living, "lost")
        loses(living)
        says(living, "one")
        living.rooms.hangs = asyncio.Event()
        await tell(living, missed)
        assert await bodies(living) == ["one"]
        living.rooms.hangs.set()
        monkeypatch.setattr(module, "CHECK_TIMEOUT", 60.0)
        says(living, "two")
        await tell(living, missed)
        assert await bodies(living) == ["one", "lost", "two"]


async def test_rooms_without_ghosts_are_not_checked(living: Living) -> None:
    """The timeline of an invite cannot be read."""
    living.rooms.room(ROOM)
    living.rooms.moves(ROOM, GHOST, "invite", ALICE)
    async with missing(living) as missed:
        await tell(living, missed)
    assert living.asked("messages") == []


async def invites(living: Living) -> list[tuple[str, str]]:
    return [
        (entry.event.room_id, entry.event.sender)
        for entry in await living.guest.entries()
        if entry.kind == "invite"
    ]


async def test_lost_invite_is_found(living: Living, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, with its stripped state; and again for a repeated invite."""
    monkeypatch.setattr(module, "SETTLE_TIME", 0.05)
    await living.parts.ghosts.ensure_user(GHOST)
    async with missing(living) as missed:
        missed.start()
        found: set[str] = set()
        for count in (1, 2):
            living.rooms.now += 1_000
            living.rooms.room(ROOM)
            living.rooms.moves(ROOM, GHOST, "invite", ALICE)
            loses(living)
            missed.suspect()
            async with asyncio.timeout(20):
                while len(living.guest.reported) < count:
                    await asyncio.sleep(0.01)
            assert await invites(living) == [(ROOM, ALICE)]
            [invite] = await living.parts.rooms.invites(GHOST)
            assert (invite.room_id, invite.sender) == (ROOM, ALICE)
            assert [one["type"] for one in invite.state] == ["m.room.create"]
            found.add(invite.event_id)
            # It is not found twice.
            await missed._sweep_invites()
            assert len(living.guest.reported) == count
            living.rooms.moves(ROOM, GHOST, "leave", ALICE)
            await living.tell()
    assert (
        living.guest.reported
        == [f"The homeserver had not pushed 1 invites of {GHOST}; they were fetched."] * 2
    )
    assert len(found) == 2


async def test_queued_invite_is_not_fetched(living: Living, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is checked twice; ghosts that the homeserver refuses are skipped."""
    await living.parts.ghosts.ensure_user(GHOST)
    living.rooms.room(ROOM)
    living.rooms.moves(ROOM, GHOST, "invite", ALICE)

    async def sleep(seconds: float) -> None:
        if living.rooms.untold:
            await living.tell()

    async with missing(living) as missed:
        monkeypatch.setattr(module.asyncio, "sleep", sleep)
        await missed._sweep_invites()
        assert await invites(living) == [(ROOM, ALICE)]
        living.rooms.users.discard(GHOST)
        await missed._sweep_invites()
    assert living.guest.reported == []
