"""MembershipOperations of local users."""

from collections.abc import Awaitable, Callable

import pytest

from federation.events.room_event import Member
from federation.matrix.errors import MatrixError
from tests.federation.local_users.homes import Home


async def test_users_join_with_their_profile_and_leave(pair: tuple[Home, Home]) -> None:
    """By id or alias, in local and remote rooms. Repeating an operation has no effect."""
    here, there = pair
    alice, bob = await here.user("alice", "Alice"), await there.user("bob", "Bob")
    room_id = await here.room(alice, alias="kitchen")
    for _ in range(2):
        assert await there.rooms.join("#kitchen:here.test", bob, reason="hungry") == room_id
    eve = await there.user("eve")
    assert await there.rooms.join(room_id, eve, via=["here.test"]) == room_id
    await here.until_member(room_id, eve, "join")
    for home in pair:
        assert sorted(await home.rooms.members(room_id), key=lambda member: member.user_id) == [
            Member(alice, "join", "Alice"),
            Member(bob, "join", "Bob"),
            Member(eve, "join"),
        ]
    assert await there.rooms.joined_rooms(bob) == [room_id]
    view = await there.graph.room(room_id)
    for _ in range(2):
        await there.rooms.leave(room_id, bob, reason="full")
    after = await there.graph.room(room_id)
    assert view is not None
    assert after is not None
    assert after.generation == view.generation + 1
    await here.until_member(room_id, bob, "leave")
    assert (await here.state(room_id, "m.room.member", bob))["reason"] == "full"
    assert [one.user_id for one in await here.rooms.members(room_id, ["leave"])] == [bob]


async def test_invites_are_listed_and_accepted_or_declined(pair: tuple[Home, Home]) -> None:
    """Invites to remote rooms have the stripped state; those to local rooms are in the room's state."""
    here, there = pair
    alice, eve = await here.user("alice"), await here.user("eve")
    bob, fay = await there.user("bob"), await there.user("fay")
    room_id = await here.room(alice, preset="private_chat", name="Kitchen")
    for user in (bob, fay, eve):
        for _ in range(2):
            await here.rooms.invite(room_id, alice, user, reason="soup")
    (outside,) = await there.rooms.invites(bob)
    assert (outside.room_id, outside.user_id, outside.sender) == (room_id, bob, alice)
    assert {"m.room.create", "m.room.name"} <= {one["type"] for one in outside.state}
    (inside,) = await here.rooms.invites(eve)
    assert (inside.room_id, inside.sender) == (room_id, alice)
    await there.rooms.join(room_id, bob)
    (now_inside,) = await there.rooms.invites(fay)
    assert now_inside.event_id != outside.event_id
    await there.rooms.leave(room_id, fay)
    await here.rooms.join(room_id, eve)
    await here.until_member(room_id, fay, "leave")
    for home, user in ((here, eve), (there, bob), (there, fay)):
        assert await home.rooms.invites(user) == []
    assert (await here.state(room_id, "m.room.member", bob))["membership"] == "join"
    await here.rooms.invite(room_id, alice, bob)
    assert await here.rooms.membership(room_id, bob) == "join"


async def test_a_user_knocks_once(pair: tuple[Home, Home]) -> None:
    """The knock can be withdrawn."""
    here, there = pair
    alice, bob = await here.user("alice"), await there.user("bob")
    room_id = await here.room(alice, join_rule="knock", alias="door")
    for _ in range(2):
        assert await there.rooms.knock("#door:here.test", bob, reason="hello") == room_id
    assert await here.rooms.membership(room_id, bob) == "knock"
    assert (await here.state(room_id, "m.room.member", bob))["reason"] == "hello"
    assert await there.rooms.invites(bob) == []
    await there.rooms.leave(room_id, bob)
    assert await here.rooms.membership(room_id, bob) == "leave"


async def test_moderators_kick_ban_and_unban(home: Home) -> None:
    """An operation whose effect is already reached sends nothing; only banned users are unbanned."""
    alice, bob, eve = [await home.user(name) for name in ("alice", "bob", "eve")]
    room_id = await home.room(alice)
    for user in (bob, eve):
        await home.rooms.join(room_id, user)
    for _ in range(2):
        await home.rooms.kick(room_id, alice, bob, reason="enough")
    assert await home.rooms.membership(room_id, bob) == "leave"
    before = await home.graph.room(room_id)
    await home.rooms.unban(room_id, alice, bob)
    assert await home.graph.room(room_id) == before
    for _ in range(2):
        await home.rooms.ban(room_id, alice, bob, reason="spam")
    assert await home.state(room_id, "m.room.member", bob) == {"membership": "ban", "reason": "spam"}
    before = await home.graph.room(room_id)
    await home.rooms.kick(room_id, alice, bob)
    await home.rooms.leave(room_id, bob)
    assert await home.graph.room(room_id) == before
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        await home.rooms.join(room_id, bob)
    for _ in range(2):
        await home.rooms.unban(room_id, alice, bob)
    assert await home.rooms.membership(room_id, bob) == "leave"
    for act in (home.rooms.kick, home.rooms.ban):
        with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
            await act(room_id, eve, alice)
    assert await home.rooms.membership(room_id, "@never:here.test") is None


Act = Callable[[Home, str, str], Awaitable[object]]


@pytest.mark.parametrize(
    "act",
    [
        lambda home, room_id, user: home.rooms.join(room_id, user),
        lambda home, room_id, user: home.rooms.knock(room_id, user),
        lambda home, room_id, user: home.rooms.leave(room_id, user),
        lambda home, room_id, user: home.rooms.invite(room_id, user, "@x:here.test"),
        lambda home, room_id, user: home.rooms.ban(room_id, user, "@x:here.test"),
        lambda home, room_id, user: home.rooms.invites(user),
        lambda home, room_id, user: home.rooms.joined_rooms(user),
    ],
)
@pytest.mark.parametrize("user", ["@bob:there.test", "bob", "@a\0:here.test", ""])
async def test_operations_of_remote_users_are_refused(home: Home, act: Act, user: str) -> None:
    """Their events would be signed by this server."""
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        await act(home, "!room:here.test", user)


async def test_unknown_rooms_aliases_and_users_are_not_found(home: Home) -> None:
    """Leaving a room that the user is not in has no effect."""
    alice = await home.user("alice")
    room_id = await home.room(alice)
    for room in ("!no:here.test", "#no:here.test"):
        with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
            await home.rooms.join(room, alice)
    for act in (home.rooms.kick, home.rooms.ban, home.rooms.unban):
        with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
            await act("!no:here.test", alice, alice)
        with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
            await act(room_id, alice, "alice")
    with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
        await home.rooms.members("!no:here.test")
    for user in ("@nobody:here.test",):
        with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
            await home.rooms.join(room_id, user)
        with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
            await home.rooms.invite(room_id, alice, user)
    await home.rooms.leave("!no:here.test", alice)
