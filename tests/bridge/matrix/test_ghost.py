"""Mapping agents to Matrix users."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.agents.address import AgentAddress
from bridge.agents.agent import AgentStatus
from bridge.matrix import ghost
from bridge.matrix.ghost import NoGhost
from federation.matrix.identifiers import is_current_user_id
from federation.transactions.edu_parsing import parse_edu
from federation.transactions.edus import Edu, Presence

NODES = st.sampled_from(["kitchen.local", "host:7676", "[::1]:7676", "EXAMPLE.org"])
IDS = st.text(st.characters(exclude_characters="@\0", exclude_categories=["Cs"]), min_size=1, max_size=15)
NAMES = st.text(st.sampled_from("ab=4013cfeA_.:@é"), max_size=12)


@pytest.mark.parametrize(
    ("address", "user"),
    [
        ("worker-1@kitchen.local", "@worker-1:kitchen.local"),
        ("a.b_c/d+e-0@kitchen.local", "@a.b_c/d+e-0:kitchen.local"),
        ("Worker@kitchen.local", "@=57orker:kitchen.local"),
        ("worker@kitchen.local", "@worker:kitchen.local"),
        ("=57orker@kitchen.local", "@=3d57orker:kitchen.local"),
        ("a b@kitchen.local", "@a=20b:kitchen.local"),
        ("a:b@kitchen.local", "@a=3ab:kitchen.local"),
        ("Jürgen@kitchen.local", "@=4a=c3=bcrgen:kitchen.local"),
        ("代理@kitchen.local", "@=e4=bb=a3=e7=90=86:kitchen.local"),
        ("a\n@kitchen.local", "@a=0a:kitchen.local"),
        ("a@host:7676", "@a:host:7676"),
        ("a@[::1]:7676", "@a:[::1]:7676"),
    ],
)
def test_mapping(address: str, user: str) -> None:
    """One to one: characters that new users may not have are escaped byte by byte."""
    parsed = AgentAddress.parse(address)
    assert isinstance(parsed, AgentAddress)
    assert ghost.user_id(parsed) == user
    assert ghost.address_of(user) == parsed


@given(IDS, NODES)
def test_every_id_round_trips(agent_id: str, node_id: str) -> None:
    """Into a valid user id."""
    address = AgentAddress(agent_id, node_id)
    user = ghost.user_id(address)
    assert isinstance(user, str)
    assert is_current_user_id(user)
    assert ghost.address_of(user) == address


@given(NAMES, NAMES, NODES)
def test_mapping_is_injective(first: str, second: str, node_id: str) -> None:
    """In both directions."""
    addresses = [ghost.address_of(f"@{name}:{node_id}") for name in (first, second)]
    assert first == second or addresses[0] is None or addresses[0] != addresses[1]
    for name, address in zip((first, second), addresses, strict=True):
        assert address is None or ghost.user_id(address) == f"@{name}:{node_id}"


@given(st.text(st.characters(codec=None), max_size=20))
def test_any_text_is_accepted(text: str) -> None:
    """No user id raises."""
    for user in (text, f"@{text}", f"@{text}:kitchen.local", f"@a:{text}"):
        address = ghost.address_of(user)
        assert address is None or ghost.user_id(address) == user
        puppet = ghost.agent_of_puppet(user, "kitchen.local")
        assert puppet is None or ghost.puppet_id(puppet, "kitchen.local") == user


@pytest.mark.parametrize(
    "user",
    [
        "worker-1:kitchen.local",
        "@worker-1",
        "@:kitchen.local",
        "@Worker:kitchen.local",  # a capital that is not escaped
        "@a=b:kitchen.local",
        "@a=4A:kitchen.local",  # another spelling than the escaping's
        "@=61:kitchen.local",  # an `a` needs no escaping
        "@=ff:kitchen.local",  # not UTF-8
        "@=c3:kitchen.local",
        "@=00:kitchen.local",  # not a valid agent id
        "@=40:kitchen.local",
        "@a:kitchen local",
        "@a:",
        f"@{'a' * 255}:kitchen.local",
        "@\ud800:kitchen.local",
    ],
)
def test_users_without_an_agent(user: str) -> None:
    """Each would denote an agent with another ghost, or an invalid one."""
    assert ghost.address_of(user) is None


def test_too_long_ids_are_refused() -> None:
    """A user id has at most 255 bytes; an escaped byte counts as three."""
    fitting = "a" * (255 - len("@:kitchen.local"))
    assert isinstance(ghost.user_id(AgentAddress(fitting, "kitchen.local")), str)
    for agent_id in (fitting + "a", "ä" * 41):
        refused = ghost.user_id(AgentAddress(agent_id, "kitchen.local"))
        assert isinstance(refused, NoGhost)
        assert "255 are allowed" in refused.reason


def test_puppets() -> None:
    """Agents of nodes that are not homeservers are local users, distinct from local agents."""
    address = AgentAddress("Worker 1", "old_node")
    assert isinstance(ghost.user_id(address), NoGhost)
    user = ghost.puppet_id(address, "kitchen.local")
    assert user == "@=57orker=201=40old_node:kitchen.local"
    assert is_current_user_id(user)
    assert ghost.agent_of_puppet(user, "kitchen.local") == address
    assert ghost.address_of(user) is None
    assert ghost.agent_of_puppet(user, "living.local") is None
    assert ghost.agent_of_puppet("@worker-1:kitchen.local", "kitchen.local") is None
    assert ghost.agent_of_puppet("@a=40kitchen.local:kitchen.local", "kitchen.local") is None
    assert isinstance(ghost.puppet_id(AgentAddress("a" * 200, "b" * 50), "kitchen.local"), NoGhost)


# Hypothesis also tries names from the source; a local agent has no puppet.
@given(IDS, IDS.filter(lambda node_id: node_id != "kitchen.local"))
def test_puppets_round_trip(agent_id: str, node_id: str) -> None:
    """For any names of a published node and its agents."""
    address = AgentAddress(agent_id, node_id)
    user = ghost.puppet_id(address, "kitchen.local")
    assert isinstance(user, NoGhost) or ghost.agent_of_puppet(user, "kitchen.local") == address


def test_display_name_is_harmless() -> None:
    """No line breaks, no bidirectional controls, limited length."""
    assert ghost.display_name("worker-1") == "worker-1"
    assert ghost.display_name("Jürgen 代理") == "Jürgen 代理"
    assert ghost.display_name("a\nb\u202ec\0") == "a\\x0ab\\u{202e}c\\x00"
    assert ghost.display_name("x" * 255) == "x" * 255
    longest = ghost.display_name("\U000e0001" * 63)
    assert len(longest) == 256
    assert longest.endswith("…")


def test_avatar_by_runtime() -> None:
    """The four of the specification have their own; any other gets a stable one."""
    kinds = {ghost.avatar(runtime).kind for runtime in ("claude", "open_code", "kimi", "aider")}
    assert kinds == {"claude", "open_code", "kimi", "aider"}
    other = ghost.avatar("my-runtime")
    assert other == ghost.avatar("my-runtime") != ghost.avatar("my-runtime-2")
    assert other.letters == "My"
    assert ghost.avatar("\ud800…").letters == "?"


@pytest.mark.parametrize("status", AgentStatus)
def test_presence_of_every_status(status: AgentStatus) -> None:
    """Other homeservers can parse it; an agent that can begin at once is online."""
    presence = ghost.PRESENCE[status]
    assert (presence.state == "online") == status.is_available
    edu: Edu | object = parse_edu(
        {
            "edu_type": "m.presence",
            "content": {"push": [{"user_id": "@a:b", "presence": presence.state, "status_msg": presence.status}]},
        },
        "b",
    )
    assert isinstance(edu, Presence)
    assert edu.users[0].presence == presence.state
    assert edu.users[0].status_msg == presence.status
