"""The initial events of a new room."""

from typing import Any

import pytest

from federation.auth_rules import Allowed
from federation.events import Template, build
from federation.events.room_event import NewEvent
from federation.matrix.errors import MatrixError
from federation.matrix.room_version import ROOM_VERSIONS
from federation.rooms.creation import MAX_INITIAL_STATE, MAX_INVITES, CreateRoomRequest, InitialState, RoomPlan, plan
from tests.support.rooms import Room, signer

SERVER = "a.example"
ALICE, EVE, BOB = "@alice:a.example", "@eve:a.example", "@bob:b.example"
EVERY_VERSION = pytest.mark.parametrize("version", ["10", "11", "12"])


def planned(creator: str = ALICE, **request: Any) -> RoomPlan:
    return plan(CreateRoomRequest(creator=creator, **request), SERVER, opaque="random")


def types(creation: RoomPlan) -> list[str]:
    return [event.type for event in creation.events]


def content(creation: RoomPlan, type_: str, key: str = "") -> Any:
    (found,) = [one for one in creation.events if (one.type, one.state_key) == (type_, key)]
    return found.content


def build_room(creation: RoomPlan) -> Room:
    """The room, after checking each event against the auth rules."""
    first = creation.events[0]
    room = Room(creation.version.id, creator=ALICE, **first.content)
    for event in creation.events[1:]:
        pdu = room.propose(event.type, event.sender, event.content, event.state_key)
        assert isinstance(room.verdict(pdu), Allowed), event
        room.add(pdu)
    return room


@EVERY_VERSION
@pytest.mark.parametrize("preset", ["private_chat", "trusted_private_chat", "public_chat"])
def test_the_auth_rules_allow_every_planned_room(version: str, preset: str) -> None:
    """Each event is allowed by those before it, whatever was requested."""
    room = build_room(
        planned(
            version=version,
            preset=preset,
            name="Kitchen",
            topic="Soup",
            avatar_url="mxc://a.example/1",
            alias="kitchen",
            room_type="io.a2c.office",
            invite=[EVE, BOB, ALICE],
            initial_state=[InitialState("io.a2c.office.member", {"role": "agent"}, "x")],
            power_levels={"events": {"io.a2c.office.member": 0}, "users": {"@carol:c.example": 10}},
            join_rule="restricted",
            allow=["!condition:a.example"],
            history_visibility="invited",
            federate=False,
        )
    )
    state = room.state()
    assert state["m.room.create", ""].content["m.federate"] is False
    assert state["m.room.name", ""].content == {"name": "Kitchen"}
    assert state["m.room.member", ALICE].content == {"membership": "join"}
    assert state["m.room.member", EVE].content == {"membership": "invite"}
    assert state["io.a2c.office.member", "x"].content == {"role": "agent"}


def test_the_order_is_that_of_the_specification() -> None:
    """Create, the creator, power levels, alias, preset, initial state, name and topic, invites."""
    creation = planned(
        name="N", topic="T", avatar_url="mxc://a/1", alias="a", invite=[EVE], initial_state=[InitialState("x", {})]
    )
    assert types(creation) == [
        "m.room.create",
        "m.room.member",
        "m.room.power_levels",
        "m.room.canonical_alias",
        "m.room.join_rules",
        "m.room.history_visibility",
        "m.room.guest_access",
        "x",
        "m.room.name",
        "m.room.topic",
        "m.room.avatar",
        "m.room.member",
    ]
    assert creation.alias == "#a:a.example"
    assert content(creation, "m.room.canonical_alias") == {"alias": "#a:a.example"}


@pytest.mark.parametrize(
    ("preset", "rule", "guests", "invite"),
    [
        ("private_chat", "invite", "can_join", 0),
        ("trusted_private_chat", "invite", "can_join", 0),
        ("public_chat", "public", "forbidden", 50),
    ],
)
def test_the_state_of_the_presets(preset: str, rule: str, guests: str, invite: int) -> None:
    """The table of the specification; explicit fields replace the preset's."""
    creation = planned(preset=preset)
    assert content(creation, "m.room.join_rules") == {"join_rule": rule}
    assert content(creation, "m.room.guest_access") == {"guest_access": guests}
    assert content(creation, "m.room.history_visibility") == {"history_visibility": "shared"}
    assert content(creation, "m.room.power_levels")["invite"] == invite
    given = InitialState("m.room.guest_access", {"guest_access": "forbidden"})
    again = planned(preset=preset, join_rule="knock", history_visibility="joined", initial_state=[given])
    assert content(again, "m.room.join_rules") == {"join_rule": "knock"}
    assert content(again, "m.room.history_visibility") == {"history_visibility": "joined"}
    assert content(again, "m.room.guest_access") == {"guest_access": "forbidden"}


def test_a_restricted_room_names_its_conditions() -> None:
    """The rooms whose members may join."""
    creation = planned(join_rule="knock_restricted", allow=["!r:a.example"])
    assert content(creation, "m.room.join_rules") == {
        "join_rule": "knock_restricted",
        "allow": [{"type": "m.room_membership", "room_id": "!r:a.example"}],
    }


@EVERY_VERSION
def test_trusted_users_have_the_creators_power(version: str) -> None:
    """In version 12 as additional creators; before, with power level 100."""
    creation = planned(version=version, preset="trusted_private_chat", invite=[BOB, EVE])
    create, levels = content(creation, "m.room.create"), content(creation, "m.room.power_levels")
    if ROOM_VERSIONS[version].creators_have_infinite_power:
        assert create["additional_creators"] == [BOB, EVE]
        assert levels["users"] == {}
        assert levels["events"]["m.room.tombstone"] == 150
    else:
        assert "additional_creators" not in create
        assert levels["users"] == {ALICE: 100, BOB: 100, EVE: 100}
        assert levels["events"]["m.room.tombstone"] == 100


def test_creators_are_not_listed_in_power_levels() -> None:
    """Version 12 would reject such a room, so the request is refused."""
    for users in ({ALICE: 100}, {BOB: 50}):
        with pytest.raises(MatrixError, match=r"M_INVALID_PARAM.*creators"):
            planned(power_levels={"users": users}, creation_content={"additional_creators": [BOB]})
    assert content(planned(version="11", power_levels={"users": {BOB: 50}}), "m.room.power_levels")["users"] == {
        ALICE: 100,
        BOB: 50,
    }


def test_power_levels_are_merged_with_the_defaults() -> None:
    """A level for one event type does not remove the others."""
    levels = content(planned(power_levels={"events": {"x": 0}, "invite": 100}), "m.room.power_levels")
    assert (levels["events"]["x"], levels["events"]["m.room.name"], levels["invite"]) == (0, 50, 100)


def test_invites_of_remote_users_are_not_part_of_the_room() -> None:
    """Their servers must sign first. Local users are invited in the first commit."""
    creation = planned(invite=[BOB, EVE, EVE, ALICE], is_direct=True)
    assert creation.remote_invites == (BOB,)
    assert content(creation, "m.room.member", EVE) == {"membership": "invite", "is_direct": True}
    request = CreateRoomRequest(creator=ALICE, invite=[EVE])
    named = plan(request, SERVER, opaque="r", profiles={ALICE: {"displayname": "A"}, EVE: {"displayname": "E"}})
    assert content(named, "m.room.member", ALICE) == {"displayname": "A", "membership": "join"}
    assert content(named, "m.room.member", EVE) == {"displayname": "E", "membership": "invite"}


def test_the_server_sets_fields_of_the_create_event() -> None:
    """A client cannot choose the room version and the creator in `creation_content`."""
    asked = {"m.federate": True, "room_version": "1", "creator": BOB, "io.x": 1}
    creation = planned(version="11", creation_content=asked, room_type="m.space", federate=False)
    assert content(creation, "m.room.create") == {"m.federate": False, "io.x": 1, "type": "m.space"}


def test_a_room_id_can_be_chosen_up_to_version_11() -> None:
    """From 12 on it is the hash of the create event."""
    assert planned(version="11").room_id == "!random:a.example"
    chosen = planned(version="11", room_id="agent-federation-default")
    assert chosen.room_id == "!agent-federation-default:a.example"
    assert planned().room_id is None
    with pytest.raises(MatrixError, match="cannot be chosen"):
        planned(room_id="x")


@pytest.mark.parametrize(
    "request_",
    [
        {"creator": BOB},
        {"creator": "alice"},
        {"preset": "open"},
        {"invite": ["bob"]},
        {"invite": [f"@u{n}:a.example" for n in range(MAX_INVITES + 1)]},
        {"initial_state": [InitialState("x", {}, str(n)) for n in range(MAX_INITIAL_STATE + 1)]},
        {"initial_state": [InitialState("m.room.create", {})]},
        {"initial_state": [InitialState("m.room.member", {"membership": "join"}, ALICE)]},
        {"initial_state": [InitialState("m.room.power_levels", {})]},
        {"initial_state": [InitialState("m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"})]},
        {"history_visibility": "secret"},
        {"join_rule": "open"},
        {"join_rule": "restricted"},
        {"join_rule": "restricted", "allow": ["kitchen"]},
        {"join_rule": "public", "allow": ["!r:a.example"]},
        {"alias": "a:evil.example"},
        {"alias": "x" * 300},
        {"version": "11", "room_id": "a:evil.example"},
        {"version": "11", "room_id": ""},
        {"version": "11", "room_id": "a\0b"},
        {"creation_content": {"additional_creators": "bob"}},
        {"creation_content": {"additional_creators": ["bob"]}},
    ],
)
def test_invalid_requests_are_refused(request_: dict[str, Any]) -> None:
    """Before anything is created, with a sentence."""
    with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
        planned(**request_)


@pytest.mark.parametrize("version", ["1", "9", "13", ""])
def test_rooms_of_old_and_unknown_versions_are_not_created(version: str) -> None:
    """Existing rooms of old versions can be joined."""
    with pytest.raises(MatrixError, match="M_UNSUPPORTED_ROOM_VERSION"):
        planned(version=version)


def test_the_size_of_events_is_not_checked_here() -> None:
    """Building an oversized event fails later."""
    creation = planned(power_levels={"users": {f"@u{n}:a.example": 1 for n in range(5_000)}})
    event: NewEvent = creation.events[2]
    made = build(Template(event.type, ALICE, event.content, 1, "!r", ""), creation.version, signer(SERVER))
    assert "larger" in getattr(made, "problem", "")


def test_the_defaults_of_a_room() -> None:
    """Private, of the default version, federated."""
    request = CreateRoomRequest(creator="@a:b")
    assert (request.version, request.preset, request.federate, request.listed) == ("12", "private_chat", True, False)
