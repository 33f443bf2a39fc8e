"""The request that creates a room."""

from dataclasses import replace

import pytest

from appservice.local_users.create_room import (
    MARKER,
    has_mark,
    invite_content_for,
    is_unfinished,
    missing_state,
    plan_room,
    require_valid_key,
    room_mark,
)
from federation.events.room_event import RoomEvent
from federation.matrix.errors import MatrixError
from federation.rooms.creation import CreateRoomRequest, InitialState, plan

SERVER = "their.server"
CREATOR = f"@_agent_cook:{SERVER}"
OTHER = f"@alice:{SERVER}"


def state(type_: str, state_key: str = "", **content: object) -> RoomEvent:
    return RoomEvent(f"${type_}{state_key}", "!room", CREATOR, type_, content, 1, state_key)


@pytest.mark.parametrize("version", ["10", "11", "12"])
@pytest.mark.parametrize("preset", ["private_chat", "trusted_private_chat", "public_chat"])
def test_same_room_as_the_homeserver_backend(version: str, preset: str) -> None:
    """Independent of the homeserver's presets."""
    request = CreateRoomRequest(
        creator=CREATOR,
        version=version,
        preset=preset,  # type: ignore[arg-type]
        name="Kitchen",
        topic="Soup",
        alias="agents-kitchen",
        room_type="io.x",
        federate=False,
        invite=[OTHER],
        initial_state=[InitialState("io.y", {"a": 1}, "k")],
        power_levels={"invite": 50, "events": {"io.y": 10}},
        history_visibility="joined",
    )
    planned = {(one.type, one.state_key): one.content for one in plan(request, SERVER, opaque="x").events}
    made = plan_room(request, SERVER, "m" * 32)
    body = made.body
    assert body["room_version"] == version
    assert body["creation_content"] == {**planned["m.room.create", ""], MARKER: "m" * 32}
    assert body["power_level_content_override"] == planned["m.room.power_levels", ""]
    said = {(one["type"], one["state_key"]): one["content"] for one in body["initial_state"]}
    rest = {key: content for key, content in planned.items() if key[0] != "m.room.member"}
    del rest["m.room.create", ""]
    assert said == rest
    assert (body["room_alias_name"], made.alias) == ("agents-kitchen", f"#agents-kitchen:{SERVER}")
    # Users are invited after the creation.
    assert "invite" not in body


def test_listing_is_requested_explicitly() -> None:
    """Without an alias none is requested."""
    assert plan_room(CreateRoomRequest(creator=CREATOR), SERVER, None).body["visibility"] == "private"
    assert plan_room(CreateRoomRequest(creator=CREATOR, listed=True), SERVER, None).body["visibility"] == "public"
    assert "room_alias_name" not in plan_room(CreateRoomRequest(creator=CREATOR), SERVER, None).body


@pytest.mark.parametrize(
    ("wrong", "errcode"),
    [
        ({"room_id": "mine", "version": "11"}, "M_UNRECOGNIZED"),
        ({"version": "9"}, "M_UNSUPPORTED_ROOM_VERSION"),
        ({"alias": "a:b"}, "M_INVALID_PARAM"),
        ({"initial_state": [InitialState("m.room.encryption", {})]}, "M_INVALID_PARAM"),
        ({"initial_state": [InitialState("m.room.power_levels", {})]}, "M_INVALID_PARAM"),
        ({"join_rule": "private"}, "M_INVALID_PARAM"),
        ({"creator": "@cook:other.server"}, "M_INVALID_PARAM"),
        ({"name": "x" * 70_000}, "M_BAD_JSON"),
        ({"creation_content": {"a": 0.5}}, "M_BAD_JSON"),
    ],
)
def test_invalid_requests_are_refused(wrong: dict[str, object], errcode: str) -> None:
    """By the rules of the homeserver backend; the homeserver assigns room ids."""
    request = CreateRoomRequest(**{"creator": CREATOR, **wrong})  # type: ignore[arg-type]
    with pytest.raises(MatrixError, match=errcode):
        plan_room(request, SERVER, None)


def test_mark_and_creator_identify_a_room() -> None:
    """The mark does not reveal the key; any user can write any mark into a room of their own."""
    mark = room_mark(CREATOR, "people/default")
    assert "people" not in mark
    assert mark != room_mark(OTHER, "people/default")
    create = state("m.room.create", **{MARKER: mark})
    assert has_mark(create, CREATOR, mark)
    assert not has_mark(create, OTHER, mark)
    assert not has_mark(create, CREATOR, room_mark(CREATOR, "people/other"))
    assert not has_mark(state("m.room.create"), CREATOR, mark)
    assert not has_mark(None, CREATOR, mark)


@pytest.mark.parametrize("key", ["a\0b", "x" * 256, "\ud800" * 300])
def test_keys_are_short(key: str) -> None:
    """As in the homeserver backend."""
    with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
        require_valid_key(key)
    require_valid_key(None)
    require_valid_key("x" * 255)


def test_missing_state_after_a_kill() -> None:
    """The homeserver sets everything together, so a room with power levels is complete; missing state was
    removed."""
    made = plan_room(CreateRoomRequest(creator=CREATOR, name="Kitchen", alias="agents-x"), SERVER, None)
    begun = [state("m.room.create"), state("m.room.member", CREATOR, membership="join")]
    named = [event.type for event in missing_state(made, begun)]
    assert named[0] == "m.room.power_levels"
    assert named[-1] == "m.room.canonical_alias"
    assert set(named[1:-1]) == {"m.room.join_rules", "m.room.history_visibility", "m.room.guest_access", "m.room.name"}
    assert missing_state(made, [*begun, state("m.room.power_levels")]) == []


def test_invites_have_is_direct() -> None:
    """As in the homeserver backend."""
    assert invite_content_for(CreateRoomRequest(creator=CREATOR)) == {"membership": "invite"}
    direct = invite_content_for(CreateRoomRequest(creator=CREATOR, is_direct=True))
    assert direct == {"membership": "invite", "is_direct": True}


def test_unfinished_room_is_recognised() -> None:
    """By its create event and the creator's join; other users' rooms are ignored."""
    made = plan_room(CreateRoomRequest(creator=CREATOR, room_type="io.x"), SERVER, None)
    create = state("m.room.create", room_version="11", creator=CREATOR, type="io.x")
    own = state("m.room.member", CREATOR, membership="join")
    assert is_unfinished(made, [create, own])
    assert not is_unfinished(made, [state("m.room.create", room_version="11"), own])
    assert not is_unfinished(replace(made, creator=OTHER), [create, own])
    assert not is_unfinished(made, [create, own, state("m.room.power_levels")])
    assert not is_unfinished(made, [create])
