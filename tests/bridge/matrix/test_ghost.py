"""The Matrix user that an agent appears as."""

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
def test_the_mapping(address: str, user: str) -> None:
    """One to one: what Matrix does not allow in a new user's name is escaped, byte for byte."""
    parsed = AgentAddress.parse(address)
    assert isinstance(parsed, AgentAddress)
    assert ghost.user_id(parsed) == user
    assert ghost.address_of(user) == parsed


@given(IDS, NODES)
def test_every_id_has_a_ghost_and_comes_back(agent_id: str, node_id: str) -> None:
    """A reversible function, into what may be given to a new user."""
    address = AgentAddress(agent_id, node_id)
    user = ghost.user_id(address)
    assert isinstance(user, str)
    assert is_current_user_id(user)
    assert ghost.address_of(user) == address


@given(NAMES, NAMES, NODES)
def test_no_two_share_one(first: str, second: str, node_id: str) -> None:
    """No two users have one address, whatever they are called; nor do two addresses share a user."""
    addresses = [ghost.address_of(f"@{name}:{node_id}") for name in (first, second)]
    assert first == second or addresses[0] is None or addresses[0] != addresses[1]
    for name, address in zip((first, second), addresses, strict=True):
        assert address is None or ghost.user_id(address) == f"@{name}:{node_id}"


@given(st.text(st.characters(codec=None), max_size=20))
def test_any_text_is_a_ghost_or_is_not(text: str) -> None:
    """Nothing is raised for whatever somebody calls a user."""
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
        "@a=4A:kitchen.local",  # written otherwise than by us
        "@=61:kitchen.local",  # an `a` that needed no escape
        "@=ff:kitchen.local",  # not UTF-8
        "@=c3:kitchen.local",
        "@=00:kitchen.local",  # an id that no agent has
        "@=40:kitchen.local",
        "@a:kitchen local",
        "@a:",
        f"@{'a' * 255}:kitchen.local",
        "@\ud800:kitchen.local",
    ],
)
def test_users_that_are_no_agent_s(user: str) -> None:
    """Each of them would stand for an agent that has another ghost, or that cannot be."""
    assert ghost.address_of(user) is None


def test_what_does_not_fit_is_refused_with_its_reason() -> None:
    """A user id has at most 255 bytes; an escaped byte counts for three."""
    fitting = "a" * (255 - len("@:kitchen.local"))
    assert isinstance(ghost.user_id(AgentAddress(fitting, "kitchen.local")), str)
    for agent_id in (fitting + "a", "ä" * 41):
        refused = ghost.user_id(AgentAddress(agent_id, "kitchen.local"))
        assert isinstance(refused, NoGhost)
        assert "255 are allowed" in refused.reason


def test_a_node_that_is_no_homeserver_has_puppets() -> None:
    """Its agents are users of this node, and none of them can be taken for an agent of this node."""
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


# Hypothesis also tries the names that stand in the source; an agent of this node has no puppet.
@given(IDS, IDS.filter(lambda node_id: node_id != "kitchen.local"))
def test_puppets_come_back(agent_id: str, node_id: str) -> None:
    """Whatever a published node calls itself and its agents."""
    address = AgentAddress(agent_id, node_id)
    user = ghost.puppet_id(address, "kitchen.local")
    assert isinstance(user, NoGhost) or ghost.agent_of_puppet(user, "kitchen.local") == address


def test_a_display_name_hides_nothing() -> None:
    """A name is what people read: no line breaks, no turned letters, no end."""
    assert ghost.display_name("worker-1") == "worker-1"
    assert ghost.display_name("Jürgen 代理") == "Jürgen 代理"
    assert ghost.display_name("a\nb\u202ec\0") == "a\\x0ab\\u{202e}c\\x00"
    assert ghost.display_name("x" * 255) == "x" * 255
    longest = ghost.display_name("\U000e0001" * 63)
    assert len(longest) == 256
    assert longest.endswith("…")


def test_an_avatar_by_runtime() -> None:
    """The four of the specification have their own; any other has one that stays the same."""
    kinds = {ghost.avatar(runtime).kind for runtime in ("claude", "open_code", "kimi", "aider")}
    assert kinds == {"claude", "open_code", "kimi", "aider"}
    other = ghost.avatar("my-runtime")
    assert other == ghost.avatar("my-runtime") != ghost.avatar("my-runtime-2")
    assert other.letters == "My"
    assert ghost.avatar("\ud800…").letters == "?"


@pytest.mark.parametrize("status", AgentStatus)
def test_every_status_has_a_presence(status: AgentStatus) -> None:
    """Which other homeservers can read; who would begin at once is online."""
    presence = ghost.PRESENCE[status]
    assert (presence.state == "online") == status.is_available
    edu: Edu | object = parse_edu(
        {
            "edu_type": "m.presence",
            "content": {
                "push": [{"user_id": "@a:b", "presence": presence.state, "status_msg": presence.status}]
            },
        },
        "b",
    )
    assert isinstance(edu, Presence)
    assert edu.users[0].presence == presence.state
    assert edu.users[0].status_msg == presence.status
