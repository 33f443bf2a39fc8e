"""Sending changed profiles to rooms."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from federation.directory.profiles import Profiles
from storage.federation.users import list_changes
from tests.federation.nodes import Node, nodes, now_ms
from tests.support.postgres import Server

TIMEOUT = 30.0


@pytest.fixture
async def node(postgres_server: Server, migrated_template: str) -> AsyncIterator[Node]:
    async with nodes(postgres_server, migrated_template) as running:
        (made,) = await running.start("here.test")
        yield made


def profiles_of(node: Node, reports: list[str] | None = None) -> Profiles:
    report = (lambda _: None) if reports is None else reports.append
    return Profiles(node.name, node.database, node.client, node.graph, now_ms=now_ms, report=report)


async def member_content(node: Node, room_id: str, user: str) -> dict[str, object]:
    """Return the content of the user's member event."""
    key = ("m.room.member", user)
    return dict((await node.graph.current_events(room_id, [key]))[key].content)


async def until_updated(node: Node) -> None:
    """Wait until no change is pending."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            async with node.database.transaction(readonly=True) as connection:
                if not await list_changes(connection, 0, 1):
                    return
            # There is no notification when a row is deleted.
            await asyncio.sleep(0.01)


async def events_of(node: Node, user: str) -> int:
    """Return how many member events of the user were received."""
    entries = (await node.graph.stream.read(0, 1000)).entries
    return sum(entry.event.type == "m.room.member" and entry.event.state_key == user for entry in entries)


async def test_all_rooms_are_updated(node: Node) -> None:
    """The user's rooms, once each; other fields of the member events stay."""
    alice, profiles = node.user("alice"), profiles_of(node)
    await profiles.ensure_user(alice)
    rooms = [await node.create(version, alice) for version in ("10", "11", "12")]
    left = await node.create("12", alice)
    await node.membership.leave(left, alice)
    role = {"membership": "join", "io.a2c.role": "agent", "displayname": "Old"}
    await node.graph.send_event(rooms[0], "m.room.member", role, alice, alice)
    before = await events_of(node, alice)
    await profiles.start()
    await profiles.set_profile(alice, displayname="Alice", avatar_url="mxc://a/b")
    await until_updated(node)
    assert await member_content(node, rooms[0], alice) == {**role, "displayname": "Alice", "avatar_url": "mxc://a/b"}
    for room_id in rooms[1:]:
        assert await member_content(node, room_id, alice) == {
            "membership": "join",
            "displayname": "Alice",
            "avatar_url": "mxc://a/b",
        }
    assert (await member_content(node, left, alice))["membership"] == "leave"
    await profiles.set_profile(alice, displayname="Alice")
    await until_updated(node)
    assert await events_of(node, alice) == before + 3
    await profiles.close()


async def test_a_kill_loses_nothing_and_repeats_nothing(node: Node) -> None:
    """A process that was killed after updating one of two rooms is completed."""
    alice = node.user("alice")
    killed = profiles_of(node)
    await killed.ensure_user(alice)
    told, untold = [await node.create("12", alice) for _ in range(2)]
    await killed.set_profile(alice, displayname="Alice")
    new = {"membership": "join", "displayname": "Alice"}
    await node.graph.send_event(told, "m.room.member", new, alice, alice)
    before = await events_of(node, alice)
    started = profiles_of(node)
    await started.start()
    await until_updated(node)
    assert await member_content(node, untold, alice) == new
    assert await events_of(node, alice) == before + 1
    await started.close()


async def test_a_room_that_refuses_does_not_stop_the_others(node: Node) -> None:
    """The refusal is reported and not retried."""
    alice, reports = node.user("alice"), list[str]()
    profiles = profiles_of(node, reports)
    await profiles.ensure_user(alice)
    rooms = sorted([await node.create("12", alice) for _ in range(3)])
    # The member event has no space left for a display name.
    full = {"membership": "join", "io.a2c.role": "x" * 59_800}
    await node.graph.send_event(rooms[1], "m.room.member", full, alice, alice)
    await profiles.start()
    await profiles.set_profile(alice, displayname="\N{CROCODILE}" * 256)
    await until_updated(node)
    assert ["displayname" in await member_content(node, room_id, alice) for room_id in rooms] == [True, False, True]
    assert [rooms[1] in report for report in reports] == [True]
    await profiles.close()
