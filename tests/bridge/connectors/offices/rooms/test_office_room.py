"""The room of an office, its state, and the addresses of members."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.agents.address import AgentAddress
from bridge.connectors.offices.protocol.events import is_name
from bridge.connectors.offices.protocol.versions import ProtocolVersion
from bridge.connectors.offices.rooms.office_room import (
    EMPTY,
    MAX_LOCALPART,
    MEMBER,
    SEAT,
    TOOLS,
    alias,
    alias_localpart,
    local_members_pattern,
    member_address,
    member_content,
    member_of,
    parse_alias_localpart,
    room_key,
    room_request,
    seat_content,
    state_key,
)
from bridge.matrix.ghost import HomeserverGhostNames, address_of, user_id
from bridge.people.settings import PeopleSettings
from federation.matrix.identifiers import escape, is_room_alias
from federation.rooms.creation import plan

NODE = "here.test"
NAMES = (st.text(min_size=1, max_size=60) | st.text("ab/=@.%2f3d40", min_size=1, max_size=20)).filter(is_name)
LONG_NAMES = st.text(st.sampled_from("aäÄ厨/@= "), min_size=1, max_size=255).filter(is_name)


@pytest.mark.parametrize("version", ["10", "11", "12"])
def test_the_room_can_be_created(version: str) -> None:
    """In each room version, with type, alias and state. Only the node can send most of the state; members
    send their own."""
    settings = PeopleSettings(HomeserverGhostNames(NODE), join_rule="knock", room_version=version)
    creation = plan(room_request("Küche", settings), NODE, opaque="x")
    assert creation.alias == alias("Küche", NODE) == "#office-=4b=c3=bcche:here.test"
    state: dict[str, Any] = {event.type: event.content for event in creation.events}
    assert state["m.room.create"]["type"] == "io.a2c.office"
    members = ["@*:here.test"]
    assert state["io.a2c.office"] == {"office_id": "Küche", "node": NODE, "members": members}
    assert state["m.room.name"] == {"name": "Office Küche"}
    assert state["m.room.join_rules"] == {"join_rule": "knock"}
    levels = state["m.room.power_levels"]
    assert levels["state_default"] == 50
    assert levels["users_default"] == 0
    own = {name: level for name, level in levels["events"].items() if name.startswith("io.a2c")}
    assert own == {MEMBER: 0, SEAT: 0, TOOLS: 0}


def test_the_pattern_of_local_members() -> None:
    """All user ids that begin like the node's own: on a homeserver of its own, all users."""
    assert local_members_pattern("@palaver:here.test") == "@*:here.test"
    assert local_members_pattern("@_agent_palaver:there.test") == "@_agent_*:there.test"


def test_each_office_has_its_own_room() -> None:
    """With a key that identifies it, and a name that is safe to show."""
    settings = PeopleSettings(HomeserverGhostNames(NODE))
    one, other = (room_request(name, settings) for name in ("a", "b"))
    assert one.key != other.key
    assert room_request("o" * 200, settings).name == f"Office {'o' * 119}…"


@given(LONG_NAMES)
@example("o" * 255)
@example("=sha256-")
def test_a_key_fits(office_id: str) -> None:
    """It has at most 255 bytes, however long the id is, and no two offices share one."""
    key = room_key(office_id)
    assert len(key.encode()) <= 255
    assert key != room_key("o" * 254)
    assert not is_name(key.removeprefix("offices/")) or key == f"offices/{office_id}"


@given(NAMES)
@example("office-a")
@example("=sha256-" + "0" * 40)
def test_an_alias_contains_the_office_id(office_id: str) -> None:
    """Unless it is replaced by a hash. It is always a valid alias."""
    found = alias(office_id, NODE)
    assert is_room_alias(found)
    local = alias_localpart(office_id, NODE)
    assert found == f"#{local}:{NODE}"
    assert parse_alias_localpart(local) in {office_id, None}
    assert parse_alias_localpart(local) == office_id or len(escape(office_id)) > 200


@given(LONG_NAMES, st.sampled_from([NODE, "n" * 60 + ".test"]))
def test_a_long_id_is_hashed_in_the_alias(office_id: str, server: str) -> None:
    """The same id always gives the same alias, another id another one."""
    assert is_room_alias(alias(office_id, server))
    is_hashed = parse_alias_localpart(alias_localpart(office_id, server)) is None
    assert is_hashed == (len(f"#office-{escape(office_id)}:{server}") > 255)
    assert alias(office_id, server) != alias(office_id + "b", server)


@pytest.mark.parametrize(
    "localpart",
    ["", "office", "office-", "agents-default", "office-A", "office-=", "office-=61", "office-=00",
     "office-a=20", "Office-a", "office-=ff", "office-a b", "office-=e2=80=ae"],
)  # fmt: skip
def test_other_aliases_belong_to_no_office(localpart: str) -> None:
    """Each office has exactly one alias."""
    assert parse_alias_localpart(localpart) is None


@pytest.mark.parametrize(
    ("office_id", "name", "local"),
    [
        ("kitchen", "boss", "kitchen/boss"),
        ("Küche 1", "boss", "Küche 1/boss"),
        ("a/b", "c", "a=2fb/c"),
        ("a", "b/c", "a/b=2fc"),
        ("kitchen@there.test", "boss", "kitchen=40there.test/boss"),
        ("a=2fb", "=", "a=3d2fb/=3d"),
    ],
)
def test_an_address_contains_office_and_name(office_id: str, name: str, local: str) -> None:
    """Characters that an address cannot contain, or that separate its parts, are escaped."""
    address = member_address(office_id, name, NODE)
    assert address == AgentAddress.of(local, NODE)
    assert member_of(address) == (office_id, name)


@given(NAMES, NAMES)
@example("a/b", "c")
@example("/", "/")
@example("=2f", "@")
def test_office_and_name_can_be_read_from_an_address(office_id: str, name: str) -> None:
    """And from its ghost, unless one of them is replaced by a hash."""
    address = member_address(office_id, name, NODE)
    assert AgentAddress.of(address.agent_id, NODE) == address
    is_short = len(escape(f"{office_id}/{name}")) <= MAX_LOCALPART / 3
    assert member_of(address) == (office_id, name) or (not is_short and "=sha256-" in address.agent_id)
    ghost = user_id(address)
    assert isinstance(ghost, str)
    assert address_of(ghost) == address


@given(LONG_NAMES, LONG_NAMES)
def test_long_parts_are_hashed(office_id: str, name: str) -> None:
    """The same each time, without collisions, and there is always a ghost."""
    address = member_address(office_id, name, NODE)
    assert address == member_address(office_id, name, NODE)
    assert len(escape(address.agent_id)) <= MAX_LOCALPART
    assert isinstance(user_id(address), str)
    assert member_of(address) in {(office_id, name), None}
    for other in ((office_id, name + "x"), (office_id + "x", name), (name + "/", office_id)):
        assert member_address(*other, NODE) != address


def test_only_the_long_part_is_hashed() -> None:
    """The other part stays readable."""
    for office_id, name in (("kitchen", "n" * 255), ("o" * 255, "boss")):
        address = member_address(office_id, name, NODE)
        assert ("kitchen/" in str(address)) or ("/boss" in str(address))
        assert member_of(address) is None


@given(NAMES, NAMES, NAMES, NAMES)
def test_no_two_members_share_an_address(one: str, name: str, other: str, other_name: str) -> None:
    """Also with a "/" in either part."""
    is_same = (one, name) == (other, other_name)
    assert (member_address(one, name, NODE) == member_address(other, other_name, NODE)) == is_same


@pytest.mark.parametrize(
    "agent_id", ["worker-1", "a/b/c", "a/", "/b", "/", "a/=2f=", "a/b=2F", "a/ b", "a/=41", "a/b\u202e", "a/=sha256-00"]
)
def test_other_addresses_belong_to_no_member(agent_id: str) -> None:
    """Each member has exactly one address."""
    assert member_of(AgentAddress(agent_id, NODE)) is None


def test_the_state_of_members() -> None:
    """The version is omitted for a client that sent none."""
    boss = member_address("kitchen", "boss", NODE)
    assert state_key(boss) == "kitchen/boss@here.test"
    assert member_content("agent", "boss", NODE, ProtocolVersion(0, 4, 1), 5) == {
        "role": "agent",
        "name": "boss",
        "node": NODE,
        "a2c_version": "0.4.1",
        "since": 5,
    }
    assert "a2c_version" not in member_content("agent", "boss", NODE, None, 5)
    assert member_content("agent", "boss", NODE, None, 5, "key")["box"] == "key"
    assert seat_content(boss, "@boss:here.test", 5) == {
        "user": "@boss:here.test",
        "address": "kitchen/boss@here.test",
        "node": NODE,
        "since": 5,
    }
    assert EMPTY == {}


def test_a_state_key_is_never_too_long() -> None:
    """Although server names may be."""
    keys = {state_key(member_address("k" * 90, "b" * 60, "n" * 240 + end)) for end in ("1.test", "2.test")}
    assert len(keys) == 2
    assert all(len(key.encode()) <= 255 for key in keys)
