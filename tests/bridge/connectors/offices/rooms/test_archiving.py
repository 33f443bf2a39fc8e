"""Rooms of offices that nobody uses are archived, and come back."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from bridge.connectors.offices.rooms.archiving import Archiving
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
    """Of a public list of rooms that has them."""
    parts = room_parts(node, [])
    return replace(parts, settings=replace(parts.settings, is_listed=True), now_ms=lambda: now)


@asynccontextmanager
async def recording(node: Node, now: int = NOW, after: float | None = None) -> AsyncIterator[OfficeRecords]:
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


async def all_told(node: Node) -> bool:
    async with node.database.transaction(readonly=True) as connection:
        return not await office_records.fetch_unsent(connection, 1)


async def used_once(node: Node, *, leaves: bool = True) -> str:
    """Its room, after the Agent and the Computer have been there."""
    async with recording(node) as records:
        for member in (BOSS, HANDS):
            await records.joined(member, None)
        if leaves:
            for member in (BOSS, HANDS):
                await records.left(member)
        await until(lambda: all_told(node))
    found = await node.rooms.resolve_alias(alias("a", node.name))
    assert found is not None
    return found[0]


async def is_archived(node: Node, room_id: str) -> bool:
    said = await node.rooms.state_event(room_id, OFFICE)
    assert said is not None
    assert (said.content["office_id"], said.content["node"]) == ("a", node.name)
    return said.content.get("archived") is True


async def notices(node: Node, room_id: str) -> list[RoomEvent]:
    page = await node.rooms.messages(room_id, limit=100)
    return [event for event in page.events if "archived" in str(event.content.get("body"))]


async def users(node: Node, room_id: str) -> set[str]:
    return {member.user_id for member in await node.rooms.members(room_id)}


async def is_listed(node: Node, room_id: str) -> bool:
    return await node.rooms._parts.directory.is_published(room_id)


async def test_an_office_that_nobody_uses_is_archived_once(node: Node) -> None:
    """It is in no list, says so in its state and in one notice, and nobody of ours but the node is in its
    room; its name still leads there. Another process finds nothing to do."""
    room_id = await used_once(node)
    ghost = f"@a/hands:{node.name}"
    # As if it could not leave when its member did.
    await node.rooms.join(room_id, ghost)
    assert await is_listed(node, room_id)
    for _ in range(2):
        async with recording(node, LATER, AFTER):
            await until(lambda: is_archived(node, room_id))
            await until(lambda: _nothing_to_tell(node))
    assert not await is_listed(node, room_id)
    [notice] = await notices(node, room_id)
    assert notice.sender == f"@palaver:{node.name}"
    assert await users(node, room_id) == {f"@palaver:{node.name}"}
    found = await node.rooms.resolve_alias(alias("a", node.name))
    assert found is not None
    assert found[0] == room_id


async def _nothing_to_tell(node: Node) -> bool:
    async with node.database.transaction(readonly=True) as connection:
        return not await office_rooms.list_unannounced(connection, 1)


async def test_after_a_kill_it_is_told_again_and_is_the_same(node: Node) -> None:
    """Whatever had been done of it."""
    room_id = await used_once(node)
    for _ in range(2):
        async with node.database.transaction() as connection:
            await connection.execute("UPDATE office_rooms SET is_told = false")
        async with recording(node, LATER, AFTER):
            await until(lambda: is_archived(node, room_id))
            await until(lambda: _nothing_to_tell(node))
    assert len(await notices(node, room_id)) == 1


async def test_the_next_who_joins_brings_it_back(node: Node) -> None:
    """The same room, with its history; it is archived again after as long a time, and says so again."""
    room_id = await used_once(node)
    async with recording(node, LATER, AFTER) as records:
        await until(lambda: is_archived(node, room_id))
        await until(lambda: _nothing_to_tell(node))
        await records.joined(HANDS, None)

        async def is_back() -> bool:
            return not await is_archived(node, room_id) and await is_listed(node, room_id)

        await until(is_back)
        await until(lambda: all_told(node))
        assert f"@a/hands:{node.name}" in await users(node, room_id)
        member = await node.rooms.state_event(room_id, MEMBER, f"@a/hands:{node.name}")
        assert member is not None
        assert member.content["name"] == "hands"
        await records.left(HANDS)
        await until(lambda: all_told(node))
    async with recording(node, LATER + 31 * DAY_MS, AFTER):
        await until(lambda: is_archived(node, room_id))
        await until(lambda: _nothing_to_tell(node))
    assert len(await notices(node, room_id)) == 2


async def test_it_comes_back_where_nothing_is_archived_any_more(node: Node) -> None:
    """The configuration says `never` now."""
    room_id = await used_once(node)
    async with recording(node, LATER, AFTER):
        await until(lambda: is_archived(node, room_id))
        await until(lambda: _nothing_to_tell(node))
    async with recording(node, LATER) as records:
        await records.joined(HANDS, None)

        async def is_back() -> bool:
            return not await is_archived(node, room_id)

        await until(is_back)


async def looked(node: Node, after: float | None, now: int = LATER) -> None:
    """Once, and all that follows from it."""
    archiving = Archiving(parts_of(node, now), after)
    await archiving._work()
    await archiving.close()


async def test_what_is_in_use_is_not_archived(node: Node) -> None:
    """An office in which somebody is, however long nothing has happened; one in which something has happened
    lately; and none where that is configured."""
    room_id = await used_once(node)
    await looked(node, None)
    await looked(node, AFTER, NOW + 29 * DAY_MS)
    assert not await is_archived(node, room_id)
    alive = OfficeRecords(parts_of(node), (), report=lambda sentence, error: None)
    await alive.start()
    await alive.joined(HANDS, None)
    await until(lambda: all_told(node))
    await looked(node, AFTER, LATER)
    assert not await is_archived(node, room_id)
    await alive.left(HANDS)
    await until(lambda: all_told(node))
    await alive.close()
    await looked(node, AFTER, LATER)
    assert await is_archived(node, room_id)


async def test_members_of_other_nodes_are_somebody_too(
    postgres_server: Server, migrated_template: str
) -> None:
    """As long as they are there, and as long again. One who comes into an archived office brings it back."""
    async with nodes(postgres_server, migrated_template) as both:
        here, there = await both.start("here.test", "there.test")
        room_id = await used_once(here)
        user = there.user("a/far")
        await there.rooms.ensure_user(user)
        await there.rooms.join(alias("a", here.name), user)
        await there.rooms.set_state(room_id, user, MEMBER, {"role": "computer", "name": "far"}, user)

        async def is_seen() -> bool:
            said = await here.rooms.state_event(room_id, MEMBER, user)
            return said is not None

        await until(is_seen)
        await looked(here, AFTER)
        assert not await is_archived(here, room_id)
        await there.rooms.leave(room_id, user)

        async def is_gone() -> bool:
            return user not in await users(here, room_id)

        await until(is_gone)
        await looked(here, AFTER)
        assert not await is_archived(here, room_id)
        await looked(here, AFTER, LATER + 31 * DAY_MS)
        assert await is_archived(here, room_id)
        await there.rooms.join(alias("a", here.name), user)
        await there.rooms.set_state(room_id, user, MEMBER, {"role": "computer", "name": "back"}, user)

        async def is_back() -> bool:
            said = await here.rooms.state_event(room_id, MEMBER, user)
            return said is not None and said.content.get("name") == "back"

        await until(is_back)
        await looked(here, None, LATER + 32 * DAY_MS)
        assert not await is_archived(here, room_id)
        assert await is_listed(here, room_id)


async def test_who_comes_while_it_is_archived_stays(node: Node) -> None:
    """The ghost that has just come is not sent away, and the room is brought back."""
    room_id = await used_once(node)
    parts = parts_of(node, LATER)
    archiving = Archiving(parts, AFTER)
    async with node.database.transaction() as connection:
        await office_rooms.update_last_use(connection)
        [(office_id, position)] = await office_rooms.list_unused(connection, LATER, 10)
        assert await office_rooms.archive(connection, office_id, position, LATER)
    async with recording(node, LATER) as records:
        await records._archiving.close()
        await records.joined(HANDS, None)
        await until(lambda: all_told(node))
        async with node.database.transaction(readonly=True) as connection:
            [row] = await office_rooms.list_unannounced(connection, 10)
        await archiving._tell(row)
        assert f"@a/hands:{node.name}" in await users(node, room_id)
        await archiving._work()
        assert not await is_archived(node, room_id)
        assert await is_listed(node, room_id)
    await archiving.close()


async def test_a_room_that_is_ours_no_more_is_let_be(node: Node) -> None:
    """It is told, and keeps nothing else from being done."""
    room_id = await used_once(node)
    async with node.database.transaction() as connection:
        await office_rooms.update_last_use(connection)
        [(office_id, position)] = await office_rooms.list_unused(connection, LATER, 10)
        await office_rooms.archive(connection, office_id, position, LATER)
    await node.rooms.leave(room_id, f"@palaver:{node.name}")
    problems: list[str] = []
    parts = replace(parts_of(node, LATER), report=lambda sentence, error: problems.append(sentence))
    archiving = Archiving(parts, AFTER)
    await archiving._work()
    await archiving._work()
    await archiving.close()
    assert problems == ["The room of the office a is not ours to archive."]


async def test_one_process_does_it(node: Node) -> None:
    """The other one waits, and takes over when that ends."""
    room_id = await used_once(node)
    async with recording(node, LATER) as first, recording(node, LATER, AFTER):
        assert not await is_archived(node, room_id)
        await first._archiving.close()
        await until(lambda: is_archived(node, room_id))
