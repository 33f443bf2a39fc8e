"""Memberships across nodes of ours, over real requests, signatures and databases."""

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
async def test_a_room_elsewhere_is_joined_by_its_id_and_spoken_in(
    pair: tuple[Node, Node], version: str
) -> None:
    """What one says the other hears, both ways."""
    here, there = pair
    alice, bob = there.user("alice"), here.user("bob")
    room_id = await there.create(version, alice)
    assert await here.membership.join(room_id, bob, ["there.test"], {"displayname": "Bob"}) == room_id
    assert await there.membership_of(room_id, bob) == "join"
    assert await here.membership_of(room_id, alice) == "join"
    async with asyncio.timeout(TIMEOUT):
        said = await here.say(room_id, bob, "hello")
        await there.until(lambda event_id, _: event_id == said)
        answered = await there.say(room_id, alice, "good day")
        await here.until(lambda event_id, _: event_id == answered)


async def test_what_is_said_while_one_comes_in_is_heard(pair: tuple[Node, Node]) -> None:
    """The other server sends it as soon as it has taken in the join, and never again; the room may not be
    here yet."""
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
            said = await welcoming
            await here.until(lambda event_id, _, said=said: event_id == said)  # type: ignore[misc]


async def test_who_comes_in_misses_nothing(pair: tuple[Node, Node]) -> None:
    """Neither what happens between the questions of the handshake nor what happens before the room is here,
    also when nothing happens afterwards."""
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
        said = await there.graph.send_event(room_id, "m.room.topic", topic, alice, "")
        await joining
        key = ("m.room.topic", "")
        async with asyncio.timeout(TIMEOUT):
            position = 0
            while (await here.graph.current_events(room_id, [key])).get(key) != said:
                position = (await here.graph.stream.reader(position).next())[-1].position


async def test_a_room_is_joined_by_its_alias(pair: tuple[Node, Node]) -> None:
    """The server of the alias says which room it is and who is in it; an alias of ours is known here."""
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


async def test_the_second_who_joins_finds_the_room_here(pair: tuple[Node, Node]) -> None:
    """Also when both come at the same moment: the room is fetched once."""
    here, there = pair
    room_id = await there.create("12", there.user("alice"))
    users = [here.user(f"user{number}") for number in range(4)]
    await asyncio.gather(*(here.membership.join(room_id, user, ["there.test"]) for user in users))
    joins = [route for route, method, _ in there.seen.answered if "make_join" in route]
    assert len(joins) == 1
    for user in users:
        await there.until_member(room_id, user, "join")


@VERSIONS
async def test_an_invite_is_kept_and_accepted(pair: tuple[Node, Node], version: str) -> None:
    """With what is shown of the room. Accepting it needs no other server's name, and ends it."""
    here, there = pair
    alice, bob = there.user("alice"), here.user("bob")
    room_id = await there.create(version, alice, "invite")
    invite = await there.membership.invite(room_id, alice, bob, {"reason": "soup"})
    assert set(invite.signatures) == {"here.test", "there.test"}
    assert await there.membership_of(room_id, bob) == "invite"
    (kept,) = await here.membership.outside(bob)
    assert (kept.room_id, kept.sender, kept.server, kept.version) == (room_id, alice, "there.test", version)
    assert b"m.room.create" in kept.stripped_state
    await here.membership.join(room_id, bob)
    assert await here.membership_of(room_id, bob) == "join"
    assert await here.membership.outside(bob) == []


@VERSIONS
async def test_an_invite_is_rejected(pair: tuple[Node, Node], version: str) -> None:
    """The server that invited is told."""
    here, there = pair
    alice, bob = there.user("alice"), here.user("bob")
    room_id = await there.create(version, alice, "invite")
    await there.membership.invite(room_id, alice, bob)
    await here.membership.leave(room_id, bob, {"reason": "busy"})
    assert await there.membership_of(room_id, bob) == "leave"
    assert await here.membership.outside(bob) == []


async def test_an_invite_is_rejected_before_its_server_has_taken_it_in(pair: tuple[Node, Node]) -> None:
    """It is rejected as soon as it is here; the server that sent it knows of it a moment later."""
    here, there = pair
    alice, bob = there.user("alice"), here.user("bob")
    room_id = await there.create("12", alice, "invite")
    await there.membership.invite(room_id, alice, bob)
    # As it is when the answer to the invite is still on its way: there it has not happened.
    await there.graph.send_event(room_id, "m.room.member", {"membership": "leave"}, alice, bob)
    leaving = asyncio.create_task(here.membership.leave(room_id, bob, {"reason": "busy"}))
    async with asyncio.timeout(TIMEOUT):
        await there.seen.until(lambda seen: any(status == 403 for _, _, status in seen.answered))
    await there.graph.send_event(room_id, "m.room.member", {"membership": "invite"}, alice, bob)
    await leaving
    state = await there.rooms.state_event(room_id, "m.room.member", bob)
    assert state is not None
    assert (state.sender, state.content["reason"]) == (bob, "busy")
    assert await here.membership.outside(bob) == []


async def test_an_invite_is_rejected_though_nobody_can_be_told(pair: tuple[Node, Node]) -> None:
    """Who does not want to come is not kept waiting at the door."""
    here, there = pair
    room_id = await there.create("12", there.user("alice"), "invite")
    await there.membership.invite(room_id, there.user("alice"), here.user("bob"))
    there.is_down = True
    await here.membership.leave(room_id, here.user("bob"))
    assert await here.membership.outside(here.user("bob")) == []


async def test_an_invite_that_is_not_wanted(pair: tuple[Node, Node]) -> None:
    """What the other server says is passed on; the room never learns of the invite."""
    here, there = pair
    alice, bob = there.user("alice"), here.user("bob")
    room_id = await there.create("12", alice, "invite")
    here.refuses_invites.add(bob)
    with pytest.raises(MatrixError, match="403 M_INVITE_BLOCKED: No, thanks"):
        await there.membership.invite(room_id, alice, bob)
    with pytest.raises(MatrixError, match=r"404 M_NOT_FOUND: here\.test knows of no user @nobody:here\.test"):
        await there.membership.invite(room_id, alice, here.user("nobody"))
    here.is_down = True
    with pytest.raises(MatrixError, match="502"):
        await there.membership.invite(room_id, alice, bob)
    with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
        await there.membership.invite(room_id, alice, "bob")
    assert await there.membership_of(room_id, bob) is None


async def test_who_may_not_invite_asks_nobody(pair: tuple[Node, Node]) -> None:
    """The rules are asked before another server is."""
    here, there = pair
    room_id = await there.create("12", there.user("alice"))
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        await there.membership.invite(room_id, there.user("mallory"), here.user("bob"))
    assert here.seen.answered == []
    await there.membership.invite(room_id, there.user("alice"), there.user("carol"))
    assert await there.membership_of(room_id, there.user("carol")) == "invite"


@VERSIONS
async def test_a_knock_is_heard_answered_and_taken_back(pair: tuple[Node, Node], version: str) -> None:
    """Who knocks is shown the room; invited, they may come in; and they may go away again."""
    here, there = pair
    alice, bob, eve = there.user("alice"), here.user("bob"), here.user("eve")
    room_id = await there.create(version, alice, "knock")
    for user in (bob, eve):
        assert await here.membership.knock(room_id, user, ["there.test"], {"reason": "hungry"}) == room_id
        assert await there.membership_of(room_id, user) == "knock"
    (kept,) = await here.membership.outside(bob)
    assert (kept.membership, kept.sender, kept.server) == ("knock", bob, "there.test")
    assert b"m.room.create" in kept.stripped_state
    await here.membership.leave(room_id, eve)
    assert await there.membership_of(room_id, eve) == "leave"
    await there.membership.invite(room_id, alice, bob)
    await here.membership.join(room_id, bob)
    assert await there.membership_of(room_id, bob) == "join"
    # The room is here now: the next knock need not travel to be refused or heard.
    await here.membership.knock(room_id, here.user("fay"))
    assert await here.membership_of(room_id, here.user("fay")) == "knock"


async def test_a_knock_at_an_open_or_closed_door_is_refused(pair: tuple[Node, Node]) -> None:
    """With the other server's own words."""
    here, there = pair
    room_id = await there.create("12", there.user("alice"), "invite")
    with pytest.raises(MatrixError, match=r"403 M_FORBIDDEN.*rule 5\.7"):
        await here.membership.knock(room_id, here.user("bob"), ["there.test"])
    assert await here.membership.outside(here.user("bob")) == []


@VERSIONS
async def test_a_restricted_room_is_joined_by_a_member_of_another(
    pair: tuple[Node, Node], version: str
) -> None:
    """A user of the resident server vouches, and its server signs. Who is in neither room stays out."""
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
    # For the second of this server the first can vouch, and nobody elsewhere is asked.
    await here.membership.join(condition, eve)
    await here.membership.join(room_id, eve)
    await there.until_member(room_id, eve, "join")


async def test_who_nobody_here_can_vouch_for_is_vouched_for_elsewhere(pair: tuple[Node, Node]) -> None:
    """The room is here, but only somebody of another server may invite."""
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


async def test_what_the_rules_refuse_is_refused_in_words(pair: tuple[Node, Node]) -> None:
    """Banned, not invited, unknown, and no server to ask."""
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


async def test_who_leaves_is_gone_everywhere_and_may_come_back(pair: tuple[Node, Node]) -> None:
    """The last to leave takes this server out of the room; joining again fetches it anew."""
    here, there = pair
    alice, bob = there.user("alice"), here.user("bob")
    room_id = await there.create("12", alice)
    await here.membership.join(room_id, bob, ["there.test"])
    await here.membership.leave(room_id, bob)
    async with asyncio.timeout(TIMEOUT):
        await there.until(lambda _, said: said == "leave")
    missed = await there.say(room_id, alice, "while you were out")
    await here.membership.join(room_id, bob, ["there.test"])
    assert await here.membership_of(room_id, bob) == "join"
    assert missed not in await here.graph.events([missed])


async def test_a_banned_users_server_hears_of_the_ban(pair: tuple[Node, Node]) -> None:
    """Who is told is decided by the state before the event."""
    here, there = pair
    alice, bob = there.user("alice"), here.user("bob")
    room_id = await there.create("12", alice)
    await here.membership.join(room_id, bob, ["there.test"])
    await there.graph.send_event(room_id, "m.room.member", {"membership": "ban"}, alice, bob)
    async with asyncio.timeout(TIMEOUT):
        await here.until(lambda _, said: said == "ban")
    assert await here.membership_of(room_id, bob) == "ban"


async def test_an_invite_into_a_room_that_has_come_here_since(pair: tuple[Node, Node]) -> None:
    """It is the room's own now, and accepted without asking anybody."""
    here, there = pair
    alice, bob, eve = there.user("alice"), here.user("bob"), here.user("eve")
    room_id = await there.create("12", alice, "invite")
    for user in (bob, eve):
        await there.membership.invite(room_id, alice, user)
    await here.membership.join(room_id, bob)
    assert await here.membership.outside(eve) == []
    await here.membership.join(room_id, eve)
    assert len([route for route, _, _ in there.seen.answered if "send_join" in route]) == 1


async def test_an_invite_of_which_the_room_does_not_know_here(pair: tuple[Node, Node]) -> None:
    """Somebody else of this server came in while it was made, and nothing was said since that follows it. The
    server that sent it knows of it, and lets in who is invited."""
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


async def test_an_invite_survives_a_restart(pair: tuple[Node, Node]) -> None:
    """It lies in the database, whole."""
    here, there = pair
    room_id = await there.create("12", there.user("alice"), "invite")
    invite = await there.membership.invite(room_id, there.user("alice"), here.user("bob"))
    async with here.database.transaction() as connection:
        row = await fetch_membership(connection, room_id, here.user("bob"))
    assert row is not None
    assert row.event_id == invite.event_id
