"""The room of an office, and who is in it."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.agents.address import AgentAddress
from bridge.connectors.offices.protocol.events import is_name
from bridge.connectors.offices.protocol.versions import ProtocolVersion
from bridge.connectors.offices.rooms.office_room import (
    FREE,
    LONGEST_LOCAL,
    MEMBER,
    SEAT,
    TOOLS,
    alias,
    alias_localpart,
    member_address,
    member_content,
    member_of,
    own_members,
    parse_alias_localpart,
    request_for,
    room_key,
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
def test_it_can_be_made(version: str) -> None:
    """In each version, with its type, its alias and its state, which nobody but the node may write; members
    say of themselves that they are some."""
    settings = PeopleSettings(HomeserverGhostNames(NODE), join_rule="knock", room_version=version)
    creation = plan(request_for("Küche", settings), NODE, opaque="x")
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


def test_of_whose_users_members_are_made() -> None:
    """All that begin like the node's own: on a homeserver of our own everybody."""
    assert own_members("@palaver:here.test") == "@*:here.test"
    assert own_members("@_agent_palaver:there.test") == "@_agent_*:there.test"


def test_each_office_has_its_own() -> None:
    """Found again by its name; one that is hard to see is shown harmless."""
    settings = PeopleSettings(HomeserverGhostNames(NODE))
    one, other = (request_for(name, settings) for name in ("a", "b"))
    assert one.key != other.key
    assert request_for("o" * 200, settings).name == f"Office {'o' * 119}…"


@given(LONG_NAMES)
@example("o" * 255)
@example("=sha256-")
def test_a_key_has_room(office_id: str) -> None:
    """However long the id is, and no two offices have one: rooms are made under keys of 255 bytes at most."""
    key = room_key(office_id)
    assert len(key.encode()) <= 255
    assert key != room_key("o" * 254)
    assert not is_name(key.removeprefix("offices/")) or key == f"offices/{office_id}"


@given(NAMES)
@example("office-a")
@example("=sha256-" + "0" * 40)
def test_an_alias_says_its_office(office_id: str) -> None:
    """And back, unless a hash stands there; and it is one."""
    found = alias(office_id, NODE)
    assert is_room_alias(found)
    local = alias_localpart(office_id, NODE)
    assert found == f"#{local}:{NODE}"
    assert parse_alias_localpart(local) in {office_id, None}
    assert parse_alias_localpart(local) == office_id or len(escape(office_id)) > 200


@given(LONG_NAMES, st.sampled_from([NODE, "n" * 60 + ".test"]))
def test_a_long_id_is_a_hash_in_the_alias(office_id: str, server: str) -> None:
    """Always the same, and another one for another office."""
    assert is_room_alias(alias(office_id, server))
    is_hashed = parse_alias_localpart(alias_localpart(office_id, server)) is None
    assert is_hashed == (len(f"#office-{escape(office_id)}:{server}") > 255)
    assert alias(office_id, server) != alias(office_id + "b", server)


@pytest.mark.parametrize(
    "localpart",
    ["", "office", "office-", "agents-default", "office-A", "office-=", "office-=61", "office-=00",
     "office-a=20", "Office-a", "office-=ff", "office-a b", "office-=e2=80=ae"],
)  # fmt: skip
def test_other_aliases_are_of_no_office(localpart: str) -> None:
    """Each office has one."""
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
def test_a_member_is_called_by_office_and_name(office_id: str, name: str, local: str) -> None:
    """What an address cannot hold, or what would mean something else in it, is escaped."""
    address = member_address(office_id, name, NODE)
    assert address == AgentAddress.of(local, NODE)
    assert member_of(address) == (office_id, name)


@given(NAMES, NAMES)
@example("a/b", "c")
@example("/", "/")
@example("=2f", "@")
def test_an_address_says_office_and_name(office_id: str, name: str) -> None:
    """Whatever can be printed, and so does the ghost; None where a hash stands for one of them."""
    address = member_address(office_id, name, NODE)
    assert AgentAddress.of(address.agent_id, NODE) == address
    is_short = len(escape(f"{office_id}/{name}")) <= LONGEST_LOCAL / 3
    assert member_of(address) == (office_id, name) or (not is_short and "=sha256-" in address.agent_id)
    ghost = user_id(address)
    assert isinstance(ghost, str)
    assert address_of(ghost) == address


@given(LONG_NAMES, LONG_NAMES)
def test_what_is_too_long_is_a_hash(office_id: str, name: str) -> None:
    """The same each time; nobody is taken for somebody else by it, and there is always a ghost."""
    address = member_address(office_id, name, NODE)
    assert address == member_address(office_id, name, NODE)
    assert len(escape(address.agent_id)) <= LONGEST_LOCAL
    assert isinstance(user_id(address), str)
    assert member_of(address) in {(office_id, name), None}
    for other in ((office_id, name + "x"), (office_id + "x", name), (name + "/", office_id)):
        assert member_address(*other, NODE) != address


def test_only_what_is_too_long_is_a_hash() -> None:
    """The other part can still be read."""
    for office_id, name in (("kitchen", "n" * 255), ("o" * 255, "boss")):
        address = member_address(office_id, name, NODE)
        assert ("kitchen/" in str(address)) or ("/boss" in str(address))
        assert member_of(address) is None


@given(NAMES, NAMES, NAMES, NAMES)
def test_no_two_members_have_one_address(one: str, name: str, other: str, other_name: str) -> None:
    """A "/" in either part moves nothing from one to the other."""
    is_same = (one, name) == (other, other_name)
    assert (member_address(one, name, NODE) == member_address(other, other_name, NODE)) == is_same


@pytest.mark.parametrize(
    "agent_id",
    ["worker-1", "a/b/c", "a/", "/b", "/", "a/=2f=", "a/b=2F", "a/ b", "a/=41", "a/b\u202e", "a/=sha256-00"],
)
def test_other_agents_are_no_members(agent_id: str) -> None:
    """And each member has one address."""
    assert member_of(AgentAddress(agent_id, NODE)) is None


def test_the_state_of_members() -> None:
    """A client of before there were versions says none."""
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
    assert FREE == {}


def test_a_state_key_is_never_too_long() -> None:
    """The names of nodes may be."""
    keys = {state_key(member_address("k" * 90, "b" * 60, "n" * 240 + end)) for end in ("1.test", "2.test")}
    assert len(keys) == 2
    assert all(len(key.encode()) <= 255 for key in keys)
