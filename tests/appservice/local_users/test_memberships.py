"""Memberships."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from appservice.local_users.memberships import Memberships
from appservice.local_users.parts import REFETCH_INTERVAL_MS
from federation.events.room_event import Member
from federation.matrix.errors import MatrixError
from tests.appservice.local_users.setup import AttachedNode
from tests.appservice.local_users.test_sending import ALICE, GHOST, OTHER, ROOM

EVE = "@_agent_eve:their.server"


@pytest.fixture
async def members(attached: AttachedNode) -> Memberships:
    for user in (GHOST, OTHER):
        await attached.parts.ghosts.ensure_user(user)
    attached.rooms.room(ROOM, GHOST)
    await attached.tell()
    return Memberships(attached.parts)


def acts(attached: AttachedNode) -> int:
    """The number of requests that change something."""
    return len([one for one in attached.homeserver.targets if one.startswith(("POST", "PUT"))])


async def test_join_and_leave_are_idempotent(attached: AttachedNode, members: Memberships) -> None:
    """By id or alias; the result is known before it is pushed."""
    attached.rooms.aliases["#kitchen:their.server"] = ROOM
    for room in ("#kitchen:their.server", ROOM):
        assert await members.join(room, OTHER, reason="hungry", via=["a.b", "no\n"]) == ROOM
    assert len(attached.asked("POST /_matrix/client/v3/join")) == 1
    request = next(one for one in attached.homeserver.server.requests if "/join/" in one.path)
    for name in ("via", "server_name"):
        assert request.query.getall(name) == ["a.b", "their.server", "other.server"]
    assert attached.rooms.happened[ROOM][-1]["content"] == {"membership": "join", "reason": "hungry"}
    assert await members.joined_rooms(OTHER) == [ROOM]
    assert Member(OTHER, "join") in await members.members(ROOM)
    for _ in range(2):
        await members.leave(ROOM, OTHER, reason="full")
    assert attached.rooms.happened[ROOM][-1]["content"] == {"membership": "leave", "reason": "full"}
    assert len(attached.asked("leave")) == 1
    assert await members.membership(ROOM, OTHER) == "leave"
    assert await members.joined_rooms(OTHER) == []
    assert [one.user_id for one in await members.members(ROOM, ["leave"])] == [OTHER]


async def test_concurrent_joins_are_merged(attached: AttachedNode, members: Memberships) -> None:
    """A busy homeserver would create an event for each."""
    assert await asyncio.gather(*(members.join(ROOM, OTHER) for _ in range(5))) == [ROOM] * 5
    assert len(attached.asked("POST /_matrix/client/v3/join")) == 1


async def test_knock_is_idempotent(attached: AttachedNode, members: Memberships) -> None:
    """And can be retracted."""
    for _ in range(2):
        assert await members.knock(ROOM, OTHER, reason="hello") == ROOM
    assert len(attached.asked("knock")) == 1
    assert await members.membership(ROOM, OTHER) == "knock"
    await members.leave(ROOM, OTHER)
    assert await members.membership(ROOM, OTHER) == "leave"


async def test_invite_is_idempotent(attached: AttachedNode, members: Memberships) -> None:
    """Users unknown to the homeserver are refused."""
    attached.rooms.users.add("@bob:their.server")
    for user in (OTHER, "@bob:their.server", "@carol:other.server"):
        for _ in range(2):
            await members.invite(ROOM, GHOST, user, reason="soup")
        assert attached.rooms.membership(ROOM, user) == "invite"
    assert len(attached.asked("/invite")) == 3
    await members.invite(ROOM, GHOST, ALICE)
    (invite,) = await members.invites(OTHER)
    assert (invite.room_id, invite.sender) == (ROOM, GHOST)
    await members.join(ROOM, OTHER)
    assert await members.invites(OTHER) == []
    for nobody in ("@nobody:their.server", EVE):
        with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
            await members.invite(ROOM, GHOST, nobody)
    for wrong in ("alice", "", "@\0:x"):
        with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
            await members.invite(ROOM, GHOST, wrong)
    for unknown in ("!no:their.server", "", "!\0:their.server"):
        with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
            await members.invite(unknown, GHOST, ALICE)


async def test_moderation_is_idempotent(attached: AttachedNode, members: Memberships) -> None:
    """The result is known before it is pushed."""
    for act, membership in ((members.kick, "leave"), (members.ban, "ban"), (members.unban, "leave")):
        for _ in range(2):
            await act(ROOM, GHOST, ALICE, reason="spam")
        assert await members.membership(ROOM, ALICE) == membership
        assert attached.rooms.happened[ROOM][-1]["content"] == {"membership": membership, "reason": "spam"}
    before = acts(attached)
    await members.kick(ROOM, GHOST, ALICE)
    await members.unban(ROOM, GHOST, ALICE)
    await members.kick(ROOM, GHOST, "@never:their.server")
    assert acts(attached) == before
    assert await members.membership(ROOM, "@never:their.server") is None
    for act in (members.kick, members.ban, members.unban):
        for unknown in ("!no:their.server", "", "!\0:x"):
            with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
                await act(unknown, GHOST, ALICE)
        with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
            await act(ROOM, GHOST, "alice")


async def test_stale_memberships_are_corrected(attached: AttachedNode, members: Memberships) -> None:
    """A result that already holds succeeds; every other refusal is raised."""
    await members.members(ROOM)
    attached.rooms.moves(ROOM, GHOST, "leave", ALICE)
    with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
        await members.kick(ROOM, GHOST, ALICE)
    assert await members.joined_rooms(GHOST) == []
    attached.rooms.moves(ROOM, GHOST, "join")
    await attached.tell()
    await members.join(ROOM, OTHER)
    await members.members(ROOM)
    attached.rooms.moves(ROOM, GHOST, "leave")
    attached.rooms.moves(ROOM, ALICE, "leave")
    attached.rooms.now += REFETCH_INTERVAL_MS + 1
    before = attached.rooms.count
    await members.kick(ROOM, GHOST, ALICE)
    assert attached.rooms.count == before


async def test_unknown_rooms_aliases_and_users(attached: AttachedNode, members: Memberships) -> None:
    """Leaving a room that the user is not in succeeds."""
    for room in ("!no:their.server", "#no:their.server"):
        with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
            await members.join(room, GHOST)
    with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
        await members.join("kitchen", GHOST)
    for act in (members.join, members.knock):
        with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
            await act(ROOM, EVE)
    with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
        await members.members("!no:their.server")
    before = acts(attached)
    for room in ("!no:their.server", "", "\0"):
        await members.leave(room, GHOST)
        assert await members.membership(room, GHOST) is None
    assert acts(attached) == before


async def test_banned_users_are_refused(attached: AttachedNode, members: Memberships) -> None:
    """With the homeserver's text."""
    attached.rooms.moves(ROOM, OTHER, "ban", ALICE)
    await attached.tell()
    with pytest.raises(MatrixError, match=r"403 M_FORBIDDEN: You are banned\."):
        await members.join(ROOM, OTHER)
    await members.leave(ROOM, OTHER)
    assert await members.membership(ROOM, OTHER) == "ban"


Act = Callable[[Memberships, str], Awaitable[object]]


@pytest.mark.parametrize(
    "act",
    [
        lambda members, user: members.join(ROOM, user),
        lambda members, user: members.knock(ROOM, user),
        lambda members, user: members.leave(ROOM, user),
        lambda members, user: members.invite(ROOM, user, GHOST),
        lambda members, user: members.kick(ROOM, user, GHOST),
        lambda members, user: members.joined_rooms(user),
        lambda members, user: members.invites(user),
    ],
)
async def test_only_ghosts_act(attached: AttachedNode, members: Memberships, act: Act) -> None:
    """No request is made for others."""
    before = len(attached.homeserver.targets)
    for user in (ALICE, "@_agent_x:other.server", "bob", "@a\0:their.server", ""):
        with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
            await act(members, user)
    assert len(attached.homeserver.targets) == before
