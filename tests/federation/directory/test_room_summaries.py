"""Summaries of the current state of rooms."""

from collections.abc import AsyncIterator

import pytest

from federation.directory.room_summary import RoomSummaries
from tests.federation.http.query_pair import create_space, furnish, put_child
from tests.federation.nodes import Node, nodes
from tests.support.postgres import Server


@pytest.fixture
async def pair(postgres_server: Server, migrated_template: str) -> AsyncIterator[tuple[Node, Node]]:
    async with nodes(postgres_server, migrated_template) as running:
        here, there = await running.start("here.test", "there.test")
        yield here, there


def summaries_of(node: Node) -> RoomSummaries:
    return RoomSummaries(node.name, node.database, node.graph)


async def test_a_summary_follows_changes_of_its_room(pair: tuple[Node, Node]) -> None:
    """Its state, and its local and remote members."""
    here, there = pair
    alice, bob = here.user("alice"), there.user("bob")
    summaries = summaries_of(here)
    room_id = await here.create("12", alice)
    first = await summaries.of(room_id)
    assert first is not None
    assert first.fields["num_joined_members"] == 1
    assert await summaries.of(room_id) is first
    await furnish(here, room_id, alice, name={"name": "Kitchen"})
    await there.membership.join(room_id, bob, ["here.test"])
    second = await summaries.of(room_id)
    assert second is not None
    assert (second.fields["name"], second.fields["num_joined_members"]) == ("Kitchen", 2)


async def test_rooms_without_local_users_have_no_summary(pair: tuple[Node, Node]) -> None:
    """Unknown rooms, and rooms that all have left."""
    here, there = pair
    alice, bob = here.user("alice"), there.user("bob")
    room_id = await here.create("12", alice)
    await there.membership.join(room_id, bob, ["here.test"])
    other = await here.create("12", alice)
    summaries = summaries_of(here)
    assert set(await summaries.of_all([room_id, other, "!none:here.test"])) == {room_id, other}
    await here.membership.leave(room_id, alice)
    assert await summaries.of(room_id) is None
    assert set(await summaries.of_all([room_id, other])) == {other}
    assert await summaries.of("!none:here.test") is None


async def test_redacted_texts_are_not_in_the_summary(pair: tuple[Node, Node]) -> None:
    """Redacted children are removed too; join rules and ACLs stay in effect."""
    here, _ = pair
    alice, summaries = here.user("alice"), summaries_of(here)
    space = await create_space(here, alice)
    await furnish(here, space, alice, topic={"topic": "Nonsense"}, server_acl={"deny": ["evil.test"], "allow": ["*"]})
    await put_child(here, space, "!a:here.test", alice)
    made = await summaries.of(space)
    assert made is not None
    assert made.fields["topic"] == "Nonsense"
    assert len(await summaries.children(made, suggested_only=False)) == 1
    state = await here.graph.current_state(space)
    for key in (("m.room.topic", ""), ("m.room.server_acl", ""), ("m.space.child", "!a:here.test")):
        await here.graph.send_event(space, "m.room.redaction", {"redacts": state[key]}, alice, redacts=state[key])
    made = await summaries.of(space)
    assert made is not None
    assert "topic" not in made.fields
    assert made.excludes("evil.test")
    assert not made.excludes("good.test")
    assert await summaries.children(made, suggested_only=False) == []


async def test_children_follow_changes_of_the_space(pair: tuple[Node, Node]) -> None:
    """Added, removed and suggested children."""
    here, _ = pair
    alice, summaries = here.user("alice"), summaries_of(here)
    space = await create_space(here, alice)
    made = await summaries.of(space)
    assert made is not None
    assert await summaries.children(made, suggested_only=False) == []
    await put_child(here, space, "!b:here.test", alice, order="b")
    await put_child(here, space, "!a:here.test", alice, order="a", suggested=True)

    async def ids(*, suggested_only: bool) -> list[str]:
        assert made is not None
        found = await summaries.children(made, suggested_only=suggested_only)
        return [child["state_key"] for child in found]

    assert await ids(suggested_only=False) == ["!a:here.test", "!b:here.test"]
    assert await ids(suggested_only=True) == ["!a:here.test"]
    await here.graph.send_event(space, "m.space.child", {}, alice, "!a:here.test")
    assert await ids(suggested_only=False) == ["!b:here.test"]
    assert await ids(suggested_only=True) == []


async def test_only_a_space_has_children(pair: tuple[Node, Node]) -> None:
    """Even if another room has `m.space.child` events."""
    here, _ = pair
    alice, summaries = here.user("alice"), summaries_of(here)
    room_id = await here.create("12", alice)
    await put_child(here, room_id, "!a:here.test", alice)
    made = await summaries.of(room_id)
    assert made is not None
    assert list(await summaries.children(made, suggested_only=False)) == []
