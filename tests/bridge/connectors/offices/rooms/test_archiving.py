"""Unused offices are archived and restored."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from bridge.connectors.offices.rooms.archiving import OfficeArchiver
from bridge.connectors.offices.rooms.call_log import OfficeRecords
from bridge.connectors.offices.rooms.office_room import MEMBER, OFFICE, alias
from bridge.connectors.offices.rooms.rooms import RoomParts
from federation.events.room_event import RoomEvent
from storage.offices import records as office_records
from storage.offices import rooms as office_rooms
from tests.bridge.connectors.offices.clients import TIMEOUT
from tests.bridge.connectors.offices.connectors import NOW, room_parts
from tests.federation.nodes import Node, nodes
from tests.support.postgres import Server

AFTER = 30 * 86_400.0
DAY_MS = 86_400_000
LATER = NOW + 31 * DAY_MS
BOSS, HANDS = Member("s", AGENT, "boss", "a"), Member("t", COMPUTER, "hands", "a")


def parts_of(node: Node, now: int = NOW) -> RoomParts:
    """With rooms listed in the public room directory."""
    parts = room_parts(node, [])
    return replace(parts, settings=replace(parts.settings, is_listed=True), now_ms=lambda: now)


@asynccontextmanager
async def records_of(node: Node, now: int = NOW, after: float | None = None) -> AsyncIterator[OfficeRecords]:
    parts = parts_of(node, now)
    records = OfficeRecords(parts, (), archive_after=after, report=parts.report)
    await records.start()
    try:
        yield records
    finally:
        await records.close()


async def until(look: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not await look():
            await asyncio.sleep(0.01)


async def all_published(node: Node) -> bool:
    async with node.database.transaction(readonly=True) as connection:
        return not await office_records.fetch_unsent(connection, 1)


async def used_once(node: Node, *, leaves: bool = True) -> str:
    """Return the room of an office after an Agent and a Computer have joined and left it."""
    async with records_of(node) as records:
        for member in (BOSS, HANDS):
            await records.record_joined(member, None)
        if leaves:
            for member in (BOSS, HANDS):
                await records.record_left(member)
        await until(lambda: all_published(node))
    found = await node.rooms.resolve_alias(alias("a", node.name))
    assert found is not None
    return found[0]


async def is_archived(node: Node, room_id: str) -> bool:
    event = await node.rooms.state_event(room_id, OFFICE)
    assert event is not None
    assert (event.content["office_id"], event.content["node"]) == ("a", node.name)
    return event.content.get("archived") is True


async def notices(node: Node, room_id: str) -> list[RoomEvent]:
    page = await node.rooms.messages(room_id, limit=100)
    return [event for event in page.events if "archived" in str(event.content.get("body"))]


async def users(node: Node, room_id: str) -> set[str]:
    return {member.user_id for member in await node.rooms.members(room_id)}


async def is_listed(node: Node, room_id: str) -> bool:
    return await node.homeserver.directory.is_published(room_id)


async def test_an_unused_office_is_archived_once(node: Node) -> None:
    """The room is not listed, its state and one notice say so, and only the node's user stays in it. Its
    alias still leads to it. A second process finds nothing to do."""
    room_id = await used_once(node)
    ghost = f"@a/hands:{node.name}"
    # As if a kill had kept it from leaving with its member.
    await node.rooms.join(room_id, ghost)
    assert await is_listed(node, room_id)
    for _ in range(2):
        async with records_of(node, LATER, AFTER):
            await until(lambda: is_archived(node, room_id))
            await until(lambda: _is_done(node))
    assert not await is_listed(node, room_id)
    [notice] = await notices(node, room_id)
    assert notice.sender == f"@palaver:{node.name}"
    assert await users(node, room_id) == {f"@palaver:{node.name}"}
    found = await node.rooms.resolve_alias(alias("a", node.name))
    assert found is not None
    assert found[0] == room_id


async def _is_done(node: Node) -> bool:
    async with node.database.transaction(readonly=True) as connection:
        return not await office_rooms.list_unannounced(connection, 1)


async def test_archiving_can_be_repeated_after_a_kill(node: Node) -> None:
    """Whichever steps had been done."""
    room_id = await used_once(node)
    for _ in range(2):
        async with node.database.transaction() as connection:
            await connection.execute("UPDATE office_rooms SET is_told = false")
        async with records_of(node, LATER, AFTER):
            await until(lambda: is_archived(node, room_id))
            await until(lambda: _is_done(node))
    assert len(await notices(node, room_id)) == 1


async def test_a_join_restores_an_archived_office(node: Node) -> None:
    """The same room with its history. It is archived again after the same time, with a new notice."""
    room_id = await used_once(node)
    async with records_of(node, LATER, AFTER) as records:
        await until(lambda: is_archived(node, room_id))
        await until(lambda: _is_done(node))
        await records.record_joined(HANDS, None)

        async def is_back() -> bool:
            return not await is_archived(node, room_id) and await is_listed(node, room_id)

        await until(is_back)
        await until(lambda: all_published(node))
        assert f"@a/hands:{node.name}" in await users(node, room_id)
        member = await node.rooms.state_event(room_id, MEMBER, f"@a/hands:{node.name}")
        assert member is not None
        assert member.content["name"] == "hands"
        await records.record_left(HANDS)
        await until(lambda: all_published(node))
    async with records_of(node, LATER + 31 * DAY_MS, AFTER):
        await until(lambda: is_archived(node, room_id))
        await until(lambda: _is_done(node))
    assert len(await notices(node, room_id)) == 2


async def test_an_office_is_restored_although_archiving_is_disabled(node: Node) -> None:
    """The configuration was changed to `never`."""
    room_id = await used_once(node)
    async with records_of(node, LATER, AFTER):
        await until(lambda: is_archived(node, room_id))
        await until(lambda: _is_done(node))
    async with records_of(node, LATER) as records:
        await records.record_joined(HANDS, None)

        async def is_back() -> bool:
            return not await is_archived(node, room_id)

        await until(is_back)


async def check_once(node: Node, after: float | None, now: int = LATER) -> None:
    """Check for unused offices once, and archive them."""
    archiving = OfficeArchiver(parts_of(node, now), after)
    await archiving._work()
    await archiving.close()


async def test_a_used_office_is_not_archived(node: Node) -> None:
    """It has members, or was used recently, or archiving is disabled."""
    room_id = await used_once(node)
    await check_once(node, None)
    await check_once(node, AFTER, NOW + 29 * DAY_MS)
    assert not await is_archived(node, room_id)
    alive = OfficeRecords(parts_of(node), (), report=lambda sentence, error: None)
    await alive.start()
    await alive.record_joined(HANDS, None)
    await until(lambda: all_published(node))
    await check_once(node, AFTER, LATER)
    assert not await is_archived(node, room_id)
    await alive.record_left(HANDS)
    await until(lambda: all_published(node))
    await alive.close()
    await check_once(node, AFTER, LATER)
    assert await is_archived(node, room_id)


async def test_members_of_other_nodes_count_as_use(postgres_server: Server, migrated_template: str) -> None:
    """Until they leave, and for the same time after that. One that joins an archived office restores it."""
    async with nodes(postgres_server, migrated_template) as both:
        here, there = await both.start("here.test", "there.test")
        room_id = await used_once(here)
        user = there.user("a/far")
        await there.rooms.ensure_user(user)
        await there.rooms.join(alias("a", here.name), user)
        await there.rooms.set_state(room_id, user, MEMBER, {"role": "computer", "name": "far"}, user)

        async def is_seen() -> bool:
            event = await here.rooms.state_event(room_id, MEMBER, user)
            return event is not None

        await until(is_seen)
        await check_once(here, AFTER)
        assert not await is_archived(here, room_id)
        await there.rooms.leave(room_id, user)

        async def is_gone() -> bool:
            return user not in await users(here, room_id)

        await until(is_gone)
        await check_once(here, AFTER)
        assert not await is_archived(here, room_id)
        await check_once(here, AFTER, LATER + 31 * DAY_MS)
        assert await is_archived(here, room_id)
        await there.rooms.join(alias("a", here.name), user)
        await there.rooms.set_state(room_id, user, MEMBER, {"role": "computer", "name": "back"}, user)

        async def is_back() -> bool:
            event = await here.rooms.state_event(room_id, MEMBER, user)
            return event is not None and event.content.get("name") == "back"

        await until(is_back)
        await check_once(here, None, LATER + 32 * DAY_MS)
        assert not await is_archived(here, room_id)
        assert await is_listed(here, room_id)


async def test_a_member_that_joins_during_archiving_stays(node: Node) -> None:
    """Its ghost is not removed, and the office is restored."""
    room_id = await used_once(node)
    parts = parts_of(node, LATER)
    archiving = OfficeArchiver(parts, AFTER)
    async with node.database.transaction() as connection:
        await office_rooms.update_last_use(connection)
        [(office_id, position)] = await office_rooms.list_unused(connection, LATER, 10)
        assert await office_rooms.archive(connection, office_id, position, LATER)
    async with records_of(node, LATER) as records:
        await records._archiver.close()
        await records.record_joined(HANDS, None)
        await until(lambda: all_published(node))
        async with node.database.transaction(readonly=True) as connection:
            [row] = await office_rooms.list_unannounced(connection, 10)
        await archiving._archive(row)
        assert f"@a/hands:{node.name}" in await users(node, room_id)
        await archiving._work()
        assert not await is_archived(node, room_id)
        assert await is_listed(node, room_id)
    await archiving.close()


async def test_a_room_that_the_node_has_left_is_skipped(node: Node) -> None:
    """The problem is reported once."""
    room_id = await used_once(node)
    async with node.database.transaction() as connection:
        await office_rooms.update_last_use(connection)
        [(office_id, position)] = await office_rooms.list_unused(connection, LATER, 10)
        await office_rooms.archive(connection, office_id, position, LATER)
    await node.rooms.leave(room_id, f"@palaver:{node.name}")
    problems: list[str] = []
    parts = replace(parts_of(node, LATER), report=lambda sentence, error: problems.append(sentence))
    archiving = OfficeArchiver(parts, AFTER)
    await archiving._work()
    await archiving._work()
    await archiving.close()
    assert len(problems) == 1


async def test_one_process_archives(node: Node) -> None:
    """Another one takes over when it ends."""
    room_id = await used_once(node)
    async with records_of(node, LATER) as first, records_of(node, LATER, AFTER):
        assert not await is_archived(node, room_id)
        await first._archiver.close()
        await until(lambda: is_archived(node, room_id))
