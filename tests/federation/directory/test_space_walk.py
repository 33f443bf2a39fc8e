"""Spaces across several nodes: what servers and users may see."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from federation.directory.room_summary import RoomSummaries
from federation.directory.space_walk import MAX_PAGE_MS, SpaceHierarchies
from federation.matrix.errors import MatrixError
from tests.federation.http.query_pair import create_space, furnish, put_child
from tests.federation.nodes import Node, Nodes, now_ms
from tests.support.postgres import Server

HERE, THERE = "here.test", "there.test"


@pytest.fixture
async def pair(postgres_server: Server, migrated_template: str) -> AsyncIterator[tuple[Node, Node]]:
    async with AsyncExitStack() as stack:
        here, there = await Nodes(postgres_server, migrated_template, stack).start(HERE, THERE)
        yield here, there


class Clock:
    """Advances by a fixed time at each reading."""

    def __init__(self, step: int = 0) -> None:
        self.now, self.step = now_ms(), step

    def __call__(self) -> int:
        self.now += self.step
        return self.now


def spaces_of(node: Node, clock: Clock | None = None) -> SpaceHierarchies:
    summaries = RoomSummaries(node.name, node.database, node.graph)
    return SpaceHierarchies(node.name, node.database, node.client, node.graph, summaries, now_ms=clock or now_ms)


def restricted_to(room_id: str) -> dict[str, Any]:
    return {"join_rule": "restricted", "allow": [{"type": "m.room_membership", "room_id": room_id}]}


def ids(answer: dict[str, Any]) -> list[str]:
    return [room["room_id"] for room in answer["rooms"]]


async def is_shown(node: Node, server: str, room_id: str) -> bool:
    try:
        answer = await spaces_of(node).handle_query(server, room_id, suggested_only=False)
    except MatrixError as refused:
        if refused.status == 404:
            return False
        raise
    return bool(answer["room"]["room_id"] == room_id)


# -- for other servers --


@pytest.mark.parametrize("version", ["10", "12"])
async def test_a_room_is_shown_to_servers_that_may_access_it(pair: tuple[Node, Node], version: str) -> None:
    """By its join rule, members, invites, history visibility, or allowed rooms."""
    here, there = pair
    alice, bob = here.user("alice"), there.user("bob")
    for rule, shown in (("public", True), ("knock", True), ("invite", False), ("private", False)):
        assert await is_shown(here, THERE, await here.create(version, alice, rule)) is shown
    readable = await here.create(version, alice, "invite")
    await furnish(here, readable, alice, history_visibility={"history_visibility": "world_readable"})
    assert await is_shown(here, THERE, readable)
    invited = await here.create(version, alice, "invite")
    await here.membership.invite(invited, alice, bob)
    assert await is_shown(here, THERE, invited)
    await there.membership.join(invited, bob)
    assert await is_shown(here, THERE, invited)
    await there.membership.leave(invited, bob)
    await here.until_member(invited, bob, "leave")
    assert not await is_shown(here, THERE, invited)


async def test_a_restricted_room_is_shown_to_servers_in_its_allowed_rooms(pair: tuple[Node, Node]) -> None:
    """The server decides which of its users may see it."""
    here, there = pair
    alice, bob = here.user("alice"), there.user("bob")
    opening = await here.create("12", alice)
    room_id = await here.create("12", alice, restricted_to(opening))
    assert not await is_shown(here, THERE, room_id)
    await there.membership.join(opening, bob, [HERE])
    assert await is_shown(here, THERE, room_id)
    assert not await is_shown(here, "other.test", room_id)


async def test_a_room_is_not_shown_to_excluded_servers(pair: tuple[Node, Node]) -> None:
    """Even if it is public."""
    here, _ = pair
    room_id = await here.create("12", here.user("alice"))
    await furnish(here, room_id, here.user("alice"), server_acl={"allow": ["*"], "deny": [THERE]})
    assert not await is_shown(here, THERE, room_id)
    assert await is_shown(here, "other.test", room_id)


async def test_children_are_accessible_inaccessible_or_unknown(pair: tuple[Node, Node]) -> None:
    """The server gets accessible children, the ids of inaccessible ones, and no data of unknown ones."""
    here, _ = pair
    alice = here.user("alice")
    space, room_id = await create_space(here, alice), await here.create("12", alice)
    closed, inner = await here.create("12", alice, "invite"), await create_space(here, alice)
    for child in (room_id, closed, inner, "!unknown:other.test"):
        await put_child(here, space, child, alice)
    await put_child(here, inner, room_id, alice)
    answer = await spaces_of(here).handle_query(THERE, space, suggested_only=False)
    assert {room["room_id"] for room in answer["children"]} == {room_id, inner}
    assert all("children_state" not in room for room in answer["children"])
    assert answer["inaccessible_children"] == [closed]
    assert len(answer["room"]["children_state"]) == 4


# -- for local users --


async def test_a_walk_through_local_rooms(pair: tuple[Node, Node]) -> None:
    """In the order of the space; inaccessible rooms are skipped, cycles are visited once."""
    here, _ = pair
    alice, bob = here.user("alice"), here.user("bob")
    space, inner = await create_space(here, alice), await create_space(here, alice)
    first, last, deep = [await here.create("12", alice) for _ in range(3)]
    closed = await here.create("12", alice, "invite")
    for number, child in enumerate((first, inner, closed, last)):
        await put_child(here, space, child, alice, order=str(number))
    await put_child(here, inner, deep, alice, order="0", suggested=True)
    await put_child(here, inner, space, alice, order="1")
    spaces = spaces_of(here)
    whole = await spaces.hierarchy(space, alice)
    assert ids(whole) == [space, first, inner, deep, closed, last]
    assert ids(await spaces.hierarchy(space, bob)) == [space, first, inner, deep, last]
    assert [one["state_key"] for one in whole["rooms"][2]["children_state"]] == [deep, space]
    assert whole["rooms"][1]["children_state"] == []
    assert "next_batch" not in whole
    assert ids(await spaces.hierarchy(space, alice, max_depth=0)) == [space]
    assert ids(await spaces.hierarchy(space, alice, max_depth=1)) == [space, first, inner, closed, last]
    assert ids(await spaces.hierarchy(inner, alice, suggested_only=True)) == [inner, deep]


async def test_a_user_sees_rooms_that_they_may_join(pair: tuple[Node, Node]) -> None:
    """By membership, by invite, or by membership in an allowed room."""
    here, _ = pair
    alice, bob = here.user("alice"), here.user("bob")
    space = await create_space(here, alice)
    opening = await here.create("12", alice)
    restricted = await here.create("12", alice, restricted_to(opening))
    invited = await here.create("12", alice, "invite")
    for child in (restricted, invited):
        await put_child(here, space, child, alice)
    spaces = spaces_of(here)
    assert ids(await spaces.hierarchy(space, bob)) == [space]
    await here.membership.join(opening, bob)
    await here.membership.invite(invited, alice, bob)
    assert set(ids(await spaces.hierarchy(space, bob))) == {space, restricted, invited}


async def test_pagination(pair: tuple[Node, Node]) -> None:
    """No room is repeated or missing, in any process: the token has all the state."""
    here, _ = pair
    alice, bob = here.user("alice"), here.user("bob")
    space = await create_space(here, alice)
    rooms = [await here.create("12", alice, "invite" if number % 3 == 0 else "public") for number in range(7)]
    for number, child in enumerate(rooms):
        await put_child(here, space, child, alice, order=str(number))
    for user, expected in ((alice, [space, *rooms]), (bob, [space, *(rooms[n] for n in (1, 2, 4, 5))])):
        found, start = [], None
        while True:
            page = await spaces_of(here).hierarchy(space, user, limit=2, start=start)
            assert len(page["rooms"]) <= 2
            found += ids(page)
            start = page.get("next_batch")
            if start is None:
                break
        assert found == expected
    first = await spaces_of(here).hierarchy(space, alice, limit=2)
    with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
        await spaces_of(here).hierarchy(space, alice, max_depth=1, start=first["next_batch"])


async def test_a_page_ends_when_it_takes_too_long(pair: tuple[Node, Node]) -> None:
    """Each page has at least one more room."""
    here, _ = pair
    alice = here.user("alice")
    space = await create_space(here, alice)
    child = await here.create("12", alice)
    await put_child(here, space, child, alice)
    slow = spaces_of(here, Clock(MAX_PAGE_MS + 1))
    first = await slow.hierarchy(space, alice)
    assert ids(first) == [space]
    second = await slow.hierarchy(space, alice, start=first["next_batch"])
    assert ids(second) == [child]
    assert "next_batch" not in second


async def test_an_inaccessible_space_is_refused(pair: tuple[Node, Node]) -> None:
    """So is one that does not exist."""
    here, there = pair
    alice, bob = here.user("alice"), here.user("bob")
    closed, elsewhere = (
        await create_space(here, alice, "invite"),
        await create_space(there, there.user("x"), "invite"),
    )
    spaces = spaces_of(here)
    for room_id in (closed, elsewhere, "!none:here.test", "!none:nowhere.test"):
        with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
            await spaces.hierarchy(room_id, bob, via=[THERE])
    with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
        await spaces.hierarchy("space", bob)
    await spaces.close()


async def test_a_walk_continues_at_other_servers(pair: tuple[Node, Node]) -> None:
    """Through spaces that only they know, and back to local rooms."""
    here, there = pair
    alice, carol = here.user("alice"), there.user("carol")
    space, theirs = await create_space(here, alice), await create_space(there, carol)
    room_id, inner = await there.create("12", carol), await create_space(there, carol)
    deep, ours = await there.create("12", carol), await here.create("12", alice)
    closed = await there.create("12", carol, "invite")
    await furnish(there, room_id, carol, name={"name": "Lobby"})
    await put_child(here, space, theirs, alice, via=[HERE, THERE])
    for number, child in enumerate((room_id, inner, closed)):
        await put_child(there, theirs, child, carol, order=str(number))
    await put_child(there, inner, deep, carol, order="0")
    await put_child(there, inner, ours, carol, order="1", via=[HERE])
    spaces = spaces_of(here)
    page = await spaces.hierarchy(space, alice)
    assert ids(page) == [space, theirs, room_id, inner, deep, ours]
    assert page["rooms"][2]["name"] == "Lobby"
    asked = [route for route, _, _ in there.seen.answered if "hierarchy" in route]
    # Its rooms that are no spaces were reported with their parents.
    assert len(asked) == 2
    assert ids(await spaces.hierarchy(theirs, alice, via=[THERE])) == [theirs, room_id, inner, deep, ours]
    assert len([route for route, _, _ in there.seen.answered if "hierarchy" in route]) == 2
    await spaces.close()


async def test_access_to_remote_rooms_depends_on_the_user(pair: tuple[Node, Node]) -> None:
    """By an invite or an allowed room: not all users of a server may see what the server may see."""
    here, there = pair
    alice, bob, carol = here.user("alice"), here.user("bob"), there.user("carol")
    space = await create_space(there, carol)
    opening = await there.create("12", carol)
    restricted = await there.create("12", carol, restricted_to(opening))
    invited = await there.create("12", carol, "invite")
    for child in (restricted, invited):
        await put_child(there, space, child, carol)
    await here.membership.join(opening, alice, [THERE])
    await there.membership.invite(invited, carol, alice)
    spaces = spaces_of(here)
    assert set(ids(await spaces.hierarchy(space, alice, via=[THERE]))) == {space, restricted, invited}
    assert ids(await spaces.hierarchy(space, bob, via=[THERE])) == [space]
    await spaces.close()


async def test_children_of_unreachable_servers_are_skipped(pair: tuple[Node, Node]) -> None:
    """The others are shown."""
    here, _ = pair
    alice = here.user("alice")
    space, room_id = await create_space(here, alice), await here.create("12", alice)
    for number in range(4):
        await put_child(here, space, f"!{number}:nowhere.test", alice, order="0", via=["nowhere.test", "b a d"])
    await put_child(here, space, room_id, alice, order="1")
    spaces = spaces_of(here)
    assert ids(await spaces.hierarchy(space, alice)) == [space, room_id]
    await spaces.close()
