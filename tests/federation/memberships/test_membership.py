"""Membership changes between nodes, over real requests, signatures and databases."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from federation.matrix.errors import MatrixError
from storage.rooms.outside_memberships import fetch_membership
from tests.federation.nodes import Node, nodes
from tests.support.postgres import Server

VERSIONS = pytest.mark.parametrize("version", ["10", "11", "12"])
TIMEOUT = 30.0


@pytest.fixture
async def pair(postgres_server: Server, migrated_template: str) -> AsyncIterator[tuple[Node, Node]]:
    async with nodes(postgres_server, migrated_template) as running:
        here, there = await running.start("here.test", "there.test")
        yield here, there


@VERSIONS
async def test_messages_are_exchanged_after_joining_a_remote_room_by_id(pair: tuple[Node, Node], version: str) -> None:
    """After the join, messages of either server reach the other."""
    here, there = pair
    alice, bob = there.user("alice"), here.user("bob")
    room_id = await there.create(version, alice)
    assert await here.membership.join(room_id, bob, ["there.test"], {"displayname": "Bob"}) == room_id
    assert await there.membership_of(room_id, bob) == "join"
    assert await here.membership_of(room_id, alice) == "join"
    async with asyncio.timeout(TIMEOUT):
        sent = await here.say(room_id, bob, "hello")
        await there.until(lambda event_id, _: event_id == sent)
        answered = await there.say(room_id, alice, "good day")
        await here.until(lambda event_id, _: event_id == answered)


async def test_events_sent_during_a_join_are_received(pair: tuple[Node, Node]) -> None:
    """The resident server sends them once, as soon as it has accepted the join; the joining server may not
    have the room yet."""
    here, there = pair
    alice, bob = there.user("alice"), here.user("bob")
    for number in range(5):
        room_id = await there.create("11", alice)

        async def welcome(room_id: str = room_id) -> str:
            await there.until_member(room_id, bob, "join")
            return await there.say(room_id, alice, "welcome")

        async with asyncio.timeout(TIMEOUT):
            welcoming = asyncio.create_task(welcome())
            await here.membership.join(room_id, bob, ["there.test"], {"displayname": f"Bob {number}"})
            sent = await welcoming
            await here.until(lambda event_id, _, sent=sent: event_id == sent)  # type: ignore[misc]


async def test_a_join_misses_no_event_sent_between_make_join_and_send_join(pair: tuple[Node, Node]) -> None:
    """Events sent between make_join and the import of the room arrive, even if no further event follows."""
    here, there = pair
    alice, bob = there.user("alice"), here.user("bob")

    def asked() -> int:
        return sum("make_join" in route for route, _, _ in there.seen.answered)

    for number in range(10):
        room_id = await there.create("11", alice)
        before = asked()
        joining = asyncio.create_task(here.membership.join(room_id, bob, ["there.test"]))
        while asked() == before:
            await asyncio.sleep(0)
        topic = {"topic": str(number)}
        sent = await there.graph.send_event(room_id, "m.room.topic", topic, alice, "")
        await joining
        key = ("m.room.topic", "")
        async with asyncio.timeout(TIMEOUT):
            position = 0
            while (await here.graph.current_events(room_id, [key])).get(key) != sent:
                position = (await here.graph.stream.reader(position).next())[-1].position


async def test_a_room_is_joined_by_its_alias(pair: tuple[Node, Node]) -> None:
    """The alias's server resolves it to a room and servers; a local alias is resolved locally."""
    here, there = pair
    alice, bob = there.user("alice"), here.user("bob")
    room_id = await there.create("12", alice)
    await there.homeserver.directory.create("#kitchen:there.test", room_id, there.user("alice"))
    await here.homeserver.directory.create("#kitchen:here.test", room_id, here.user("alice"))
    assert await here.membership.join("#kitchen:there.test", bob) == room_id
    assert await here.membership.join("#kitchen:here.test", here.user("eve"), ["there.test"]) == room_id
    for unknown in ("#none:there.test", "#none:here.test", "#none:nowhere.test"):
        with pytest.raises(MatrixError):
            await here.membership.join(unknown, bob)
    with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
        await here.membership.join("kitchen", bob)


async def test_concurrent_joins_fetch_the_room_once(pair: tuple[Node, Node]) -> None:
    """The second user finds the room on this server, also when both join at the same time."""
    here, there = pair
    room_id = await there.create("12", there.user("alice"))
    users = [here.user(f"user{number}") for number in range(4)]
    await asyncio.gather(*(here.membership.join(room_id, user, ["there.test"]) for user in users))
    joins = [route for route, method, _ in there.seen.answered if "make_join" in route]
    assert len(joins) == 1
    for user in users:
        await there.until_member(room_id, user, "join")


@VERSIONS
async def test_an_invite_is_stored_and_accepted(pair: tuple[Node, Node], version: str) -> None:
    """It is stored with the stripped state. Accepting it needs no server name, and deletes it."""
    here, there = pair
    alice, bob = there.user("alice"), here.user("bob")
    room_id = await there.create(version, alice, "invite")
    invite = await there.membership.invite(room_id, alice, bob, {"reason": "soup"})
    assert set(invite.signatures) == {"here.test", "there.test"}
    assert await there.membership_of(room_id, bob) == "invite"
    (kept,) = await here.membership.outside_memberships(bob)
    assert (kept.room_id, kept.sender, kept.server, kept.version) == (room_id, alice, "there.test", version)
    assert b"m.room.create" in kept.stripped_state
    await here.membership.join(room_id, bob)
    assert await here.membership_of(room_id, bob) == "join"
    assert await here.membership.outside_memberships(bob) == []


@VERSIONS
async def test_an_invite_is_rejected(pair: tuple[Node, Node], version: str) -> None:
    """The inviting server receives the leave."""
    here, there = pair
    alice, bob = there.user("alice"), here.user("bob")
    room_id = await there.create(version, alice, "invite")
    await there.membership.invite(room_id, alice, bob)
    await here.membership.leave(room_id, bob, {"reason": "busy"})
    assert await there.membership_of(room_id, bob) == "leave"
    assert await here.membership.outside_memberships(bob) == []


async def test_an_invite_is_rejected_before_its_server_has_committed_it(pair: tuple[Node, Node]) -> None:
    """The rejection is retried until the inviting server knows of the invite."""
    here, there = pair
    alice, bob = there.user("alice"), here.user("bob")
    room_id = await there.create("12", alice, "invite")
    await there.membership.invite(room_id, alice, bob)
    # The inviting server has not committed the invite yet, while its response is pending.
    await there.graph.send_event(room_id, "m.room.member", {"membership": "leave"}, alice, bob)
    leaving = asyncio.create_task(here.membership.leave(room_id, bob, {"reason": "busy"}))
    async with asyncio.timeout(TIMEOUT):
        await there.seen.until(lambda seen: any(status == 403 for _, _, status in seen.answered))
    await there.graph.send_event(room_id, "m.room.member", {"membership": "invite"}, alice, bob)
    await leaving
    state = await there.rooms.state_event(room_id, "m.room.member", bob)
    assert state is not None
    assert (state.sender, state.content["reason"]) == (bob, "busy")
    assert await here.membership.outside_memberships(bob) == []


async def test_an_invite_is_rejected_while_its_server_is_unreachable(pair: tuple[Node, Node]) -> None:
    """The invite is deleted nevertheless."""
    here, there = pair
    room_id = await there.create("12", there.user("alice"), "invite")
    await there.membership.invite(room_id, there.user("alice"), here.user("bob"))
    there.is_down = True
    await here.membership.leave(room_id, here.user("bob"))
    assert await here.membership.outside_memberships(here.user("bob")) == []


async def test_a_refused_invite(pair: tuple[Node, Node]) -> None:
    """The other server's refusal is returned, and the invite does not become part of the room."""
    here, there = pair
    alice, bob = there.user("alice"), here.user("bob")
    room_id = await there.create("12", alice, "invite")
    here.refuses_invites.add(bob)
    with pytest.raises(MatrixError, match="403 M_INVITE_BLOCKED: No, thanks"):
        await there.membership.invite(room_id, alice, bob)
    with pytest.raises(MatrixError, match=r"404 M_NOT_FOUND: here\.test has no user @nobody:here\.test"):
        await there.membership.invite(room_id, alice, here.user("nobody"))
    here.is_down = True
    with pytest.raises(MatrixError, match="502"):
        await there.membership.invite(room_id, alice, bob)
    with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
        await there.membership.invite(room_id, alice, "bob")
    assert await there.membership_of(room_id, bob) is None


async def test_an_invite_that_the_auth_rules_refuse_is_not_sent(pair: tuple[Node, Node]) -> None:
    """The auth rules are checked before another server is asked."""
    here, there = pair
    room_id = await there.create("12", there.user("alice"))
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        await there.membership.invite(room_id, there.user("mallory"), here.user("bob"))
    assert here.seen.answered == []
    await there.membership.invite(room_id, there.user("alice"), there.user("carol"))
    assert await there.membership_of(room_id, there.user("carol")) == "invite"


@VERSIONS
async def test_a_knock_is_accepted_answered_and_withdrawn(pair: tuple[Node, Node], version: str) -> None:
    """The response shows the stripped state. After an invite the user may join; another user withdraws the
    knock."""
    here, there = pair
    alice, bob, eve = there.user("alice"), here.user("bob"), here.user("eve")
    room_id = await there.create(version, alice, "knock")
    for user in (bob, eve):
        assert await here.membership.knock(room_id, user, ["there.test"], {"reason": "hungry"}) == room_id
        assert await there.membership_of(room_id, user) == "knock"
    (kept,) = await here.membership.outside_memberships(bob)
    assert (kept.membership, kept.sender, kept.server) == ("knock", bob, "there.test")
    assert b"m.room.create" in kept.stripped_state
    await here.membership.leave(room_id, eve)
    assert await there.membership_of(room_id, eve) == "leave"
    await there.membership.invite(room_id, alice, bob)
    await here.membership.join(room_id, bob)
    assert await there.membership_of(room_id, bob) == "join"
    # This server has the room now, so the next knock is local.
    await here.membership.knock(room_id, here.user("fay"))
    assert await here.membership_of(room_id, here.user("fay")) == "knock"


async def test_a_knock_that_the_join_rule_does_not_allow(pair: tuple[Node, Node]) -> None:
    """It fails with the resident server's error."""
    here, there = pair
    room_id = await there.create("12", there.user("alice"), "invite")
    with pytest.raises(MatrixError, match=r"403 M_FORBIDDEN.*rule 5\.7"):
        await here.membership.knock(room_id, here.user("bob"), ["there.test"])
    assert await here.membership.outside_memberships(here.user("bob")) == []


@VERSIONS
async def test_a_restricted_room_is_joined_by_a_member_of_an_allowed_room(
    pair: tuple[Node, Node], version: str
) -> None:
    """A user of the resident server authorises the join, and that server signs it. Users who are in no
    allowed room are refused."""
    here, there = pair
    alice, bob, eve = there.user("alice"), here.user("bob"), here.user("eve")
    condition = await there.create(version, alice)
    allow = [{"type": "m.room_membership", "room_id": condition}]
    room_id = await there.create(version, alice, {"join_rule": "restricted", "allow": allow})
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        await here.membership.join(room_id, bob, ["there.test"])
    await here.membership.join(condition, bob, ["there.test"])
    await here.membership.join(room_id, bob, ["there.test"])
    assert await here.membership_of(room_id, bob) == "join"
    # The first local user can authorise the second, so no other server is asked.
    await here.membership.join(condition, eve)
    await here.membership.join(room_id, eve)
    await there.until_member(room_id, eve, "join")


async def test_a_restricted_join_is_authorised_by_another_server(pair: tuple[Node, Node]) -> None:
    """This server is in the room, but only a user of another server may invite."""
    here, there = pair
    alice, bob, eve = there.user("alice"), here.user("bob"), here.user("eve")
    condition = await there.create("12", alice)
    allow = [{"type": "m.room_membership", "room_id": condition}]
    rule = {"join_rule": "restricted", "allow": allow}
    room_id = await there.create("12", alice, rule, {"invite": 50})
    for user in (bob, eve):
        await here.membership.join(condition, user, ["there.test"])
        await there.until_member(condition, user, "join")
        await here.membership.join(room_id, user, ["there.test"])
        assert await here.membership_of(room_id, user) == "join"
    sent = [route for route, method, _ in there.seen.answered if "send_join" in route]
    assert len(sent) == 3


async def test_errors_of_refused_joins(pair: tuple[Node, Node]) -> None:
    """A banned user, one who is not invited, an unknown room, and no server to try."""
    here, there = pair
    alice, bob = there.user("alice"), here.user("bob")
    closed, room_id = await there.create("12", alice, "invite"), await there.create("12", alice)
    with pytest.raises(MatrixError, match=r"403 M_FORBIDDEN.*rule 5\.3"):
        await here.membership.join(closed, bob, ["there.test"])
    await there.graph.send_event(room_id, "m.room.member", {"membership": "ban"}, alice, bob)
    with pytest.raises(MatrixError, match=r"403 M_FORBIDDEN.*rule 5\.3\.3"):
        await here.membership.join(room_id, bob, ["there.test"])
    with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
        await here.membership.join("!unknown:there.test", bob)
    with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
        await here.membership.join(room_id, bob, ["here.test", "no server name"])
    there.is_down = True
    with pytest.raises(MatrixError, match="502"):
        await here.membership.join(room_id, bob, ["there.test"])


async def test_a_room_is_left_and_joined_again(pair: tuple[Node, Node]) -> None:
    """When its last user leaves, this server leaves the room; joining again fetches the room anew."""
    here, there = pair
    alice, bob = there.user("alice"), here.user("bob")
    room_id = await there.create("12", alice)
    await here.membership.join(room_id, bob, ["there.test"])
    await here.membership.leave(room_id, bob)
    async with asyncio.timeout(TIMEOUT):
        await there.until(lambda _, membership: membership == "leave")
    missed = await there.say(room_id, alice, "while you were out")
    await here.membership.join(room_id, bob, ["there.test"])
    assert await here.membership_of(room_id, bob) == "join"
    assert missed not in await here.graph.events([missed])


async def test_the_server_of_a_banned_user_receives_the_ban(pair: tuple[Node, Node]) -> None:
    """Destinations are determined by the state before the event."""
    here, there = pair
    alice, bob = there.user("alice"), here.user("bob")
    room_id = await there.create("12", alice)
    await here.membership.join(room_id, bob, ["there.test"])
    await there.graph.send_event(room_id, "m.room.member", {"membership": "ban"}, alice, bob)
    async with asyncio.timeout(TIMEOUT):
        await here.until(lambda _, membership: membership == "ban")
    assert await here.membership_of(room_id, bob) == "ban"


async def test_an_invite_into_a_room_that_this_server_has_joined_since(pair: tuple[Node, Node]) -> None:
    """It is part of the room's state, and is accepted without another server."""
    here, there = pair
    alice, bob, eve = there.user("alice"), here.user("bob"), here.user("eve")
    room_id = await there.create("12", alice, "invite")
    for user in (bob, eve):
        await there.membership.invite(room_id, alice, user)
    await here.membership.join(room_id, bob)
    assert await here.membership.outside_memberships(eve) == []
    await here.membership.join(room_id, eve)
    assert len([route for route, _, _ in there.seen.answered if "send_join" in route]) == 1


async def test_an_invite_that_this_server_lacks_in_the_room(pair: tuple[Node, Node]) -> None:
    """It was sent while another user of this server joined, and no later event follows it. The join goes
    through the inviting server, which has the invite."""
    here, there = pair
    alice, bob, eve = there.user("alice"), here.user("bob"), here.user("eve")
    room_id = await there.create("12", alice, "invite")
    for user in (bob, eve):
        await there.membership.invite(room_id, alice, user)
    await there.graph.send_event(room_id, "m.room.member", {"membership": "leave"}, alice, eve)
    await here.membership.join(room_id, bob)
    here.is_down = True
    await there.graph.send_event(room_id, "m.room.member", {"membership": "invite"}, alice, eve)
    await here.membership.join(room_id, eve)
    for node in (here, there):
        assert await node.membership_of(room_id, eve) == "join"
    with pytest.raises(MatrixError, match=r"403 M_FORBIDDEN.*rule 5\.3"):
        await here.membership.join(room_id, here.user("mallory"))


async def test_an_invite_is_stored_in_the_database(pair: tuple[Node, Node]) -> None:
    """The row holds the whole event, so that it survives a restart."""
    here, there = pair
    room_id = await there.create("12", there.user("alice"), "invite")
    invite = await there.membership.invite(room_id, there.user("alice"), here.user("bob"))
    async with here.database.transaction() as connection:
        row = await fetch_membership(connection, room_id, here.user("bob"))
    assert row is not None
    assert row.event_id == invite.event_id
