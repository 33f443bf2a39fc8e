"""Creating rooms on a homeserver that may be killed at any moment, as may this process."""

import asyncio

import pytest

from federation.matrix.errors import MatrixError
from federation.rooms.creation import CreateRoomRequest, InitialState
from storage.connect import ConnectionLost
from storage.database import Database
from tests.appservice.intakes import IntakeHarness
from tests.appservice.local_users.fake_homeserver import ALICE, COOK, EVE, Side, side_on

NAMED = CreateRoomRequest(creator=COOK, key="people/default", alias="agents-default", name="Kitchen")


async def test_key_finds_the_existing_room(node_with_rooms: Side, database: Database, harness: IntakeHarness) -> None:
    """Also for another process, and for two at once; keys are per creator."""
    async with side_on(database, harness, node_with_rooms.rooms) as second:
        sides = (node_with_rooms.side, second.side, node_with_rooms.side, second.side)
        made = await asyncio.gather(*(side.create_room(NAMED) for side in sides))
        assert {one.room_id for one in made} == {"!made-1:their.server"}
        assert [one.is_new for one in made].count(True) == 1
        assert (await second.side.create_room(NAMED)).is_new is False
    other = await node_with_rooms.side.create_room(CreateRoomRequest(creator=EVE, key="people/default"))
    assert (other.room_id, other.is_new) == ("!made-2:their.server", True)
    assert await node_with_rooms.side.joined_rooms(COOK) == ["!made-1:their.server"]


@pytest.mark.parametrize("ends", ["named", "begun", "lost"])
async def test_interrupted_creation_is_completed(
    node_with_rooms: Side, database: Database, harness: IntakeHarness, ends: str
) -> None:
    """Wherever the homeserver was killed, and whether or not the alias exists."""
    node_with_rooms.rooms.ends = ends
    with pytest.raises(ConnectionLost):
        await node_with_rooms.side.create_room(NAMED)
    async with side_on(database, harness, node_with_rooms.rooms) as second:
        made = await second.side.create_room(NAMED)
        assert made.is_new is (ends == "named")
        assert await second.side.resolve_alias("#agents-default:their.server") == (
            made.room_id,
            ("their.server", "other.server"),
        )
        state = {(one.type, one.state_key): one.content for one in await second.side.state(made.room_id)}
        assert state["m.room.name", ""] == {"name": "Kitchen"}
        assert state["m.room.canonical_alias", ""] == {"alias": "#agents-default:their.server"}
        assert "m.room.power_levels" in {type_ for type_, _ in state}
        again = await second.side.create_room(NAMED)
        assert (again.room_id, again.is_new) == (made.room_id, False)
    assert node_with_rooms.rooms.made == (2 if ends == "named" else 1)


async def test_room_of_a_lost_database_is_adopted(
    node_with_rooms: Side, database: Database, harness: IntakeHarness
) -> None:
    """By its mark; another user's room keeps its alias."""
    first = await node_with_rooms.side.create_room(NAMED)
    async with database.transaction() as connection:
        await connection.execute("DELETE FROM created_rooms")
    again = await node_with_rooms.side.create_room(NAMED)
    assert (again.room_id, again.is_new) == (first.room_id, False)
    with pytest.raises(MatrixError, match="400 M_ROOM_IN_USE"):
        await node_with_rooms.side.create_room(CreateRoomRequest(creator=EVE, key="mine", alias="agents-default"))
    # The recorded intent is deleted.
    async with database.transaction() as connection:
        assert await connection.fetchval("SELECT count(*) FROM created_rooms") == 1


async def test_refused_room_leaves_nothing(node_with_rooms: Side) -> None:
    """Also if the homeserver has already joined the creator."""
    for request in (NAMED, CreateRoomRequest(creator=COOK)):
        node_with_rooms.rooms.ends = "refused"
        with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
            await node_with_rooms.side.create_room(request)
    assert node_with_rooms.rooms.aliases == {}
    assert [node_with_rooms.rooms.membership(room_id, COOK) for room_id in node_with_rooms.rooms.happened] == [
        "leave"
    ] * 2
    await node_with_rooms.tell()
    assert await node_with_rooms.side.joined_rooms(COOK) == []
    assert (await node_with_rooms.side.create_room(NAMED)).is_new


async def test_encrypted_room_is_refused(node_with_rooms: Side) -> None:
    """Agents could not read it, and the error names the setting."""
    node_with_rooms.rooms.encrypts = True
    with pytest.raises(MatrixError, match="encryption_enabled_by_default_for_room_type"):
        await node_with_rooms.side.create_room(NAMED)
    assert node_with_rooms.rooms.aliases == {}
    assert await node_with_rooms.side.joined_rooms(COOK) == []


async def test_unlisted_room_is_still_created(node_with_rooms: Side) -> None:
    """The operator learns which setting is responsible."""
    await node_with_rooms.room(listed=True)
    assert node_with_rooms.harness.reported == []
    node_with_rooms.rooms.lists = False
    await node_with_rooms.room(listed=True)
    assert len(node_with_rooms.harness.reported) == 1
    assert "room_list_publication_rules" in node_with_rooms.harness.reported[0]


async def test_cancelled_caller_does_not_cancel_the_creation(node_with_rooms: Side) -> None:
    """The homeserver completes it as well."""
    waiting = asyncio.ensure_future(node_with_rooms.side.create_room(NAMED))
    while not node_with_rooms.asked("createRoom"):
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    made = await node_with_rooms.side.create_room(NAMED)
    assert (made.is_new, node_with_rooms.rooms.made) == (False, 1)


async def test_users_are_invited_once(node_with_rooms: Side) -> None:
    """Unknown and refused users are reported; users who declined are not invited again."""
    request = CreateRoomRequest(
        creator=COOK,
        key="k",
        is_direct=True,
        invite=[ALICE, EVE, COOK, "@_agent_nobody:their.server", "@nobody:their.server", "@bob:other.server"],
    )
    made = await node_with_rooms.side.create_room(request)
    assert made.not_invited == dict.fromkeys(
        ["@_agent_nobody:their.server", "@nobody:their.server"], "There is no such user."
    )
    for user in (ALICE, EVE, "@bob:other.server"):
        assert node_with_rooms.rooms.entry(made.room_id, "m.room.member", user)["content"] == {  # type: ignore[index]
            "membership": "invite",
            "is_direct": True,
        }
    node_with_rooms.rooms.moves(made.room_id, ALICE, "leave")
    await node_with_rooms.tell()
    puts = len(node_with_rooms.asked("PUT"))
    await node_with_rooms.side.create_room(request)
    assert len(node_with_rooms.asked("PUT")) == puts


@pytest.mark.parametrize(
    ("wrong", "errcode"),
    [
        ({"creator": "@alice:their.server"}, "M_FORBIDDEN"),
        ({"creator": "@_agent_nobody:their.server"}, "M_NOT_FOUND"),
        ({"key": "a\0b"}, "M_INVALID_PARAM"),
        ({"room_id": "mine", "version": "11"}, "M_UNRECOGNIZED"),
        ({"initial_state": [InitialState("io.x", {"a": "x" * 70_000})]}, "M_BAD_JSON"),
    ],
)
async def test_invalid_requests_are_not_sent(node_with_rooms: Side, wrong: dict[str, object], errcode: str) -> None:
    """The homeserver receives nothing."""
    with pytest.raises(MatrixError, match=errcode):
        await node_with_rooms.side.create_room(CreateRoomRequest(**{"creator": COOK, **wrong}))  # type: ignore[arg-type]
    assert node_with_rooms.asked("createRoom") == []


async def test_response_without_room_id(node_with_rooms: Side) -> None:
    """It counts as no response."""
    for said in ({}, {"room_id": 7}, {"room_id": ""}):
        node_with_rooms.rooms.instead["createRoom"] = said
        with pytest.raises(ConnectionLost):
            await node_with_rooms.side.create_room(NAMED)
    node_with_rooms.rooms.instead.clear()
    assert (await node_with_rooms.side.create_room(NAMED)).is_new
