"""Creating rooms and their aliases."""

import asyncio

import pytest

from federation.matrix.errors import MatrixError
from federation.rooms.creation import CreateRoomRequest, InitialState
from storage.connect import DatabaseAddress
from tests.federation.local_users.homes import Home, home_on

EVERY_VERSION = pytest.mark.parametrize("version", ["10", "11", "12"])


@EVERY_VERSION
async def test_a_room_is_created_as_requested(pair: tuple[Home, Home], version: str) -> None:
    """Local and remote users are invited; users who could not be are in the result."""
    here, there = pair
    alice, eve = await here.user("alice", "Alice"), await here.user("eve", "Eve")
    bob = await there.user("bob")
    request = CreateRoomRequest(
        creator=alice,
        version=version,
        name="Kitchen",
        topic="Soup",
        alias="kitchen",
        listed=True,
        room_type="io.a2c.office",
        invite=[eve, bob, "@nobody:there.test", "@nobody:here.test"],
        initial_state=[InitialState("io.x", {"a": 1})],
    )
    made = await here.rooms.create_room(request)
    assert made.is_new
    assert made.not_invited.keys() == {"@nobody:there.test", "@nobody:here.test"}
    room_id = made.room_id
    assert await here.state(room_id, "m.room.name") == {"name": "Kitchen"}
    assert await here.state(room_id, "io.x") == {"a": 1}
    assert await here.state(room_id, "m.room.member", alice) == {"membership": "join", "displayname": "Alice"}
    assert await here.state(room_id, "m.room.member", eve) == {"membership": "invite", "displayname": "Eve"}
    assert await here.rooms.membership(room_id, bob) == "invite"
    assert await here.rooms.resolve_alias("#kitchen:here.test") == (room_id, ("here.test",))
    assert await there.rooms.resolve_alias("#kitchen:here.test") == (room_id, ("here.test",))
    assert await here.homeserver.directory.is_published(room_id)
    (invite,) = await there.rooms.invites(bob)
    assert (invite.room_id, invite.sender) == (room_id, alice)


async def test_a_taken_alias_leaves_no_room_behind(home: Home) -> None:
    """It is checked beforehand, and again when the room is committed."""
    alice = await home.user("alice")
    first = await home.room(alice, alias="kitchen")
    with pytest.raises(MatrixError, match="400 M_ROOM_IN_USE"):
        await home.room(alice, alias="kitchen")
    results = await asyncio.gather(*(home.room(alice, alias="cellar") for _ in range(3)), return_exceptions=True)
    made = [one for one in results if isinstance(one, str)]
    assert len(made) == 1
    assert await home.rooms.joined_rooms(alice) == sorted([first, *made])


async def test_the_same_key_gives_the_same_room(home: Home, database_address: DatabaseAddress) -> None:
    """After a crash, and for concurrent requests of two processes. Each creator has its own keys."""
    alice, eve = await home.user("alice"), await home.user("eve")
    request = CreateRoomRequest(creator=alice, key="delegations", alias="delegations")
    first = await home.rooms.create_room(request)
    assert first.is_new
    again = await home.rooms.create_room(request)
    assert (again.room_id, again.is_new) == (first.room_id, False)
    other = await home.rooms.create_room(CreateRoomRequest(creator=eve, key="delegations"))
    assert other.room_id != first.room_id
    async with home_on(database_address) as second:
        both = CreateRoomRequest(creator=alice, key="both", alias="both")
        made = await asyncio.gather(*(one.rooms.create_room(both) for one in (home, second, home, second)))
        assert len({one.room_id for one in made}) == 1
        named = CreateRoomRequest(creator=alice, key="default", version="11", room_id="agent-federation-default")
        made = await asyncio.gather(*(one.rooms.create_room(named) for one in (home, second, home, second)))
    assert {one.room_id for one in made} == {"!agent-federation-default:here.test"}
    assert [one.is_new for one in made].count(True) == 1


async def test_a_repeated_request_invites_users_who_were_not_reached(pair: tuple[Home, Home]) -> None:
    """A user who has declined is not invited again."""
    here, there = pair
    alice = await here.user("alice")
    bob, eve = await there.user("bob"), await there.user("eve")
    there.refuses_invites.add(bob)
    request = CreateRoomRequest(creator=alice, key="k", invite=[bob, eve], is_direct=True)
    made = await here.rooms.create_room(request)
    assert made.not_invited == {bob: "No, thanks."}
    await there.rooms.leave(made.room_id, eve)
    there.refuses_invites.clear()
    again = await here.rooms.create_room(request)
    assert (again.room_id, again.not_invited) == (made.room_id, {})
    assert await here.state(made.room_id, "m.room.member", bob) == {"membership": "invite", "is_direct": True}
    assert await here.rooms.membership(made.room_id, eve) == "leave"


async def test_a_room_id_can_be_chosen_once(home: Home) -> None:
    """In room versions up to 11. A conflict without a key is refused."""
    alice = await home.user("alice")
    room_id = await home.room(alice, version="11", room_id="agent-broadcast")
    assert room_id == "!agent-broadcast:here.test"
    with pytest.raises(MatrixError, match="409 M_ROOM_IN_USE"):
        await home.room(alice, version="11", room_id="agent-broadcast")


async def test_the_creator_must_be_an_existing_local_user(home: Home) -> None:
    """Users of other servers and unknown users are refused."""
    for creator, errcode in (("@bob:there.test", "M_FORBIDDEN"), ("@nobody:here.test", "M_NOT_FOUND")):
        with pytest.raises(MatrixError, match=errcode):
            await home.room(creator)
    alice = await home.user("alice")
    for key in ("a\0b", "x" * 256):
        with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
            await home.room(alice, key=key)
    assert await home.rooms.joined_rooms(alice) == []


async def test_rooms_get_aliases_and_are_published(home: Home) -> None:
    """Repeating an operation has no effect."""
    alice = await home.user("alice")
    room_id = await home.room(alice)
    for _ in range(2):
        await home.rooms.create_alias("#a:here.test", room_id, alice)
        await home.rooms.publish(room_id, published=True)
    assert await home.rooms.resolve_alias("#a:here.test") == (room_id, ("here.test",))
    assert await home.homeserver.directory.is_published(room_id)
    for _ in range(2):
        await home.rooms.remove_alias("#a:here.test")
        await home.rooms.publish(room_id, published=False)
    assert await home.rooms.resolve_alias("#a:here.test") is None
    assert not await home.homeserver.directory.is_published(room_id)
    with pytest.raises(MatrixError, match="502"):
        await home.rooms.resolve_alias("#a:nowhere.invalid")
    with pytest.raises(MatrixError, match="M_FORBIDDEN"):
        await home.rooms.create_alias("#a:here.test", room_id, "@bob:there.test")
