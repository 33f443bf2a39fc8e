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
from tests.appservice.local_users.conftest import attached
from tests.appservice.local_users.setup import AttachedNode
from tests.appservice.local_users.test_sending import ALICE, GHOST, MESSAGE, ROOM

__all__ = ["attached"]
OTHER_ROOM = "!other:their.server"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def missing(attached: AttachedNode, clock: Clock | None = None) -> AsyncIterator[MissedEvents]:
    parts = attached.parts
    missed = MissedEvents(
        parts.client,
        parts.rooms,
        parts.database,
        attached.harness.intake.receive,
        is_ours=OURS.owns_user,
        now_ms=parts.now_ms,
        report=parts.report,
        monotonic=clock or Clock(),
    )
    try:
        yield missed
    finally:
        await missed.close()


def says(attached: AttachedNode, *bodies: str, room_id: str = ROOM) -> list[str]:
    return [attached.rooms.happens(room_id, ALICE, MESSAGE, {"body": body}) for body in bodies]


def loses(attached: AttachedNode) -> None:
    """The homeserver loses its queue."""
    attached.rooms.untold.clear()


async def tell(attached: AttachedNode, missed: MissedEvents) -> None:
    """Push events through the port."""
    events = list(attached.rooms.untold)
    await missed.fetch_before(read(transaction(*events)))
    await attached.tell()


async def bodies(attached: AttachedNode, room_id: str = ROOM) -> list[str]:
    events = [entry.event for entry in await attached.harness.entries()]
    return [one.content["body"] for one in events if one.room_id == room_id and one.type == MESSAGE]


async def test_lost_events_precede_later_ones(attached: AttachedNode) -> None:
    """Once each; events that are still queued are not fetched."""
    attached.rooms.room(ROOM, GHOST)
    await attached.tell()
    async with missing(attached) as missed:
        says(attached, "one", "two")
        loses(attached)
        says(attached, "three")
        after = list(attached.rooms.untold)
        says(attached, "four")
        await missed.fetch_before(read(transaction(*after)))
        assert await bodies(attached) == ["one", "two"]
        await attached.tell()
        assert await bodies(attached) == ["one", "two", "three", "four"]
        [sentence] = attached.harness.reported
        assert sentence == f"The homeserver had not pushed 2 events of {ROOM}; they were fetched."
        # Without a suspicion nothing is checked.
        looked = len(attached.asked("messages"))
        says(attached, "five")
        await tell(attached, missed)
        assert len(attached.asked("messages")) == looked
    assert await bodies(attached) == ["one", "two", "three", "four", "five"]


async def test_new_connection_raises_suspicion(attached: AttachedNode) -> None:
    """But not every time: a proxy may use a new connection for each transaction."""
    attached.rooms.room(ROOM, GHOST)
    await attached.tell()
    clock = Clock()
    async with missing(attached, clock) as missed:
        for connection, later, looks in (
            ("first", 0.0, True),
            ("first", 60.0, False),
            ("second", 0.0, True),
            ("third", MIN_CONNECTION_INTERVAL / 2, False),
            ("fourth", MIN_CONNECTION_INTERVAL / 2, True),
        ):
            clock.now += later
            looked = len(attached.asked("messages"))
            missed.connection_used(connection)
            says(attached, connection)
            await tell(attached, missed)
            assert (len(attached.asked("messages")) > looked) is looks, connection


async def test_quiet_rooms_are_checked(attached: AttachedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """A while after an outage or a new connection."""
    monkeypatch.setattr(module, "SETTLE_TIME", 0.05)
    for room_id in (ROOM, OTHER_ROOM):
        attached.rooms.room(room_id, GHOST)
    await attached.tell()
    clock = Clock()
    async with missing(attached, clock) as missed:

        async def until(*wanted: str) -> None:
            async with asyncio.timeout(20):
                while await bodies(attached, OTHER_ROOM) != list(wanted):
                    await asyncio.sleep(0.01)

        says(attached, "one", room_id=OTHER_ROOM)
        loses(attached)
        missed.start()
        await until("one")
        says(attached, "two", room_id=OTHER_ROOM)
        loses(attached)
        missed.suspect()
        await until("one", "two")
        says(attached, "three", room_id=OTHER_ROOM)
        loses(attached)
        missed.connection_used("first")
        clock.now += 2 * SWEEP_INTERVAL
        missed.connection_used("second")
        await until("one", "two", "three")


async def test_sweep_continues_after_an_error(attached: AttachedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next sweep finds the lost events."""
    monkeypatch.setattr(module, "SETTLE_TIME", 0.05)
    list_rooms = module.list_rooms
    for room_id in (ROOM, OTHER_ROOM):
        attached.rooms.room(room_id, GHOST)
    await attached.tell()

    async def fail(*_: object, **__: object) -> None:
        monkeypatch.setattr(module, "list_rooms", list_rooms)
        raise ValueError("broken")

    monkeypatch.setattr(module, "list_rooms", fail)
    async with missing(attached) as missed:
        says(attached, "one", room_id=OTHER_ROOM)
        loses(attached)
        missed.start()
        async with asyncio.timeout(20):
            while await bodies(attached, OTHER_ROOM) != ["one"]:
                await asyncio.sleep(0.01)


async def test_queued_events_are_not_fetched(attached: AttachedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quiet room is checked twice, so that queued events keep their order."""
    attached.rooms.room(ROOM, GHOST)
    await attached.tell()
    says(attached, "one")
    waiting = asyncio.Event()

    async def sleep(seconds: float) -> None:
        if attached.asked("messages") and attached.rooms.untold:
            await attached.tell()
            waiting.set()

    monkeypatch.setattr(module.asyncio, "sleep", sleep)
    async with missing(attached) as missed:
        await missed._sweep()
    assert waiting.is_set()
    assert await bodies(attached) == ["one"]
    assert attached.harness.reported == []


async def test_failed_check_does_not_block(attached: AttachedNode) -> None:
    """The check is repeated with the next transaction."""
    attached.rooms.room(ROOM, GHOST)
    await attached.tell()
    async with missing(attached) as missed:
        says(attached, "lost")
        loses(attached)
        says(attached, "one")
        before = await attached.parts.rooms.resident(ROOM)
        assert before == GHOST
        attached.rooms.silent = True
        await tell(attached, missed)
        assert await bodies(attached) == ["one"]
        attached.rooms.silent = False
        says(attached, "two")
        await tell(attached, missed)
        assert await bodies(attached) == ["one", "lost", "two"]


async def test_transaction_waits_once_for_unavailable_homeserver(attached: AttachedNode) -> None:
    """However many rooms it has."""
    for room_id in (ROOM, OTHER_ROOM):
        attached.rooms.room(room_id, GHOST)
    await attached.tell()
    async with missing(attached) as missed:
        says(attached, "one")
        says(attached, "two", room_id=OTHER_ROOM)
        attached.rooms.silent = True
        await tell(attached, missed)
        assert len(attached.asked("messages")) == 1
        assert await bodies(attached) == ["one"]
        assert await bodies(attached, OTHER_ROOM) == ["two"]


async def test_transaction_does_not_wait_for_a_hanging_homeserver(
    attached: AttachedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing events are fetched later."""
    monkeypatch.setattr(module, "CHECK_TIMEOUT", 0.05)
    attached.rooms.room(ROOM, GHOST)
    await attached.tell()
    async with missing(attached) as missed:
        says(attached, "lost")
        loses(attached)
        says(attached, "one")
        attached.rooms.hangs = asyncio.Event()
        await tell(attached, missed)
        assert await bodies(attached) == ["one"]
        attached.rooms.hangs.set()
        monkeypatch.setattr(module, "CHECK_TIMEOUT", 60.0)
        says(attached, "two")
        await tell(attached, missed)
        assert await bodies(attached) == ["one", "lost", "two"]


async def test_rooms_without_ghosts_are_not_checked(attached: AttachedNode) -> None:
    """The timeline of an invite cannot be read."""
    attached.rooms.room(ROOM)
    attached.rooms.moves(ROOM, GHOST, "invite", ALICE)
    async with missing(attached) as missed:
        await tell(attached, missed)
    assert attached.asked("messages") == []


async def invites(attached: AttachedNode) -> list[tuple[str, str]]:
    return [
        (entry.event.room_id, entry.event.sender)
        for entry in await attached.harness.entries()
        if entry.kind == "invite"
    ]


async def test_lost_invite_is_found(attached: AttachedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, with its stripped state; and again for a repeated invite."""
    monkeypatch.setattr(module, "SETTLE_TIME", 0.05)
    await attached.parts.ghosts.ensure_user(GHOST)
    async with missing(attached) as missed:
        missed.start()
        found: set[str] = set()
        for count in (1, 2):
            attached.rooms.now += 1_000
            attached.rooms.room(ROOM)
            attached.rooms.moves(ROOM, GHOST, "invite", ALICE)
            loses(attached)
            missed.suspect()
            async with asyncio.timeout(20):
                while len(attached.harness.reported) < count:
                    await asyncio.sleep(0.01)
            assert await invites(attached) == [(ROOM, ALICE)]
            [invite] = await attached.parts.rooms.invites(GHOST)
            assert (invite.room_id, invite.sender) == (ROOM, ALICE)
            assert [one["type"] for one in invite.state] == ["m.room.create"]
            found.add(invite.event_id)
            # It is not found twice.
            await missed._sweep_invites()
            assert len(attached.harness.reported) == count
            attached.rooms.moves(ROOM, GHOST, "leave", ALICE)
            await attached.tell()
    assert attached.harness.reported == [f"The homeserver had not pushed 1 invites of {GHOST}; they were fetched."] * 2
    assert len(found) == 2


async def test_queued_invite_is_not_fetched(attached: AttachedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is checked twice; ghosts that the homeserver refuses are skipped."""
    await attached.parts.ghosts.ensure_user(GHOST)
    attached.rooms.room(ROOM)
    attached.rooms.moves(ROOM, GHOST, "invite", ALICE)

    async def sleep(seconds: float) -> None:
        if attached.rooms.untold:
            await attached.tell()

    async with missing(attached) as missed:
        monkeypatch.setattr(module.asyncio, "sleep", sleep)
        await missed._sweep_invites()
        assert await invites(attached) == [(ROOM, ALICE)]
        attached.rooms.users.discard(GHOST)
        await missed._sweep_invites()
    assert attached.harness.reported == []
