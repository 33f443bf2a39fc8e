"""The namespaces of users and aliases."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appservice.registration.namespaces import AgentRoom, Namespaces, domain_problem, prefix_problem
from federation.matrix.identifiers import is_current_user_id, is_room_alias

OURS = Namespaces("their.server", "kitchen.local", "_agent_")
IDS = st.text(st.characters(exclude_characters="@\0", exclude_categories=["Cs"]), min_size=1, max_size=10)
NODES = st.sampled_from(["kitchen.local", "cellar.local", "host:7676", "[::1]:7676", "EXAMPLE.org"])
NAMES = st.text(st.sampled_from("ab=4013cfeA_.:@é/"), max_size=12)


def test_node_user() -> None:
    """A ghost like the others."""
    assert OURS.node_user == OURS.user("palaver", "kitchen.local") == "@_agent_palaver:their.server"


@pytest.mark.parametrize(
    ("agent_id", "node_id", "user"),
    [
        ("worker-1", "kitchen.local", "@_agent_worker-1:their.server"),
        ("Worker", "kitchen.local", "@_agent_=57orker:their.server"),
        ("worker-1", "cellar.local", "@_agent_worker-1=40cellar.local:their.server"),
        ("w", "host:7676", "@_agent_w=40host=3a7676:their.server"),
        ("=40", "kitchen.local", "@_agent_=3d40:their.server"),
    ],
)
def test_mapping(agent_id: str, node_id: str, user: str) -> None:
    """Local agents by id, others by their whole addresses."""
    assert OURS.user(agent_id, node_id) == user
    assert OURS.agent(user) == (agent_id, node_id)


@given(IDS, NODES)
def test_every_address_round_trips(agent_id: str, node_id: str) -> None:
    """Into valid user ids within the reserved namespace."""
    user = OURS.user(agent_id, node_id)
    assert user is not None
    assert is_current_user_id(user)
    assert OURS.agent(user) == (agent_id, node_id)
    assert OURS.owns_user(user)
    assert re.search(OURS.users_regex, user)


@given(NAMES)
def test_users_are_unique(name: str) -> None:
    """For all addresses."""
    user = f"@_agent_{name}:their.server"
    agent = OURS.agent(user)
    assert agent is None or OURS.user(*agent) == user


@pytest.mark.parametrize(
    "user",
    [
        "@_agent_:their.server",
        "@_agent_worker-1:other.server",
        "@worker-1:their.server",
        "@_agent_=40node:their.server",
        "@_agent_worker=40:their.server",
        "@_agent_worker-1=40kitchen.local:their.server",
        "@_agent_a=40b=40c:their.server",
        "@_agent_a=00:their.server",
        "@_agent_a:their.server:80",
        "_agent_a:their.server",
        f"@_agent_{'a' * 300}:their.server",
    ],
)
def test_users_that_are_no_ghosts(user: str) -> None:
    """Including a local agent with its node id, which has another user."""
    assert OURS.agent(user) is None


def test_too_long_names_have_no_ghost() -> None:
    """User ids and aliases have at most 255 bytes."""
    assert OURS.user("é" * 80, "kitchen.local") is None
    assert OURS.alias(AgentRoom("agents", "é" * 80)) is None


@pytest.mark.parametrize(
    ("room", "alias"),
    [
        (AgentRoom("agents", "default"), "#agents-default:their.server"),
        (AgentRoom("agents", "A b"), "#agents-=41=20b:their.server"),
        (AgentRoom("agent-federation", "default"), "#agent-federation-default:their.server"),
        (AgentRoom("agent-broadcast", ""), "#agent-broadcast:their.server"),
        (AgentRoom("office", "build-7"), "#office-build-7:their.server"),
        # Unescaped: the offices connector interprets it.
        (AgentRoom("office", "=sha256-0"), "#office-=sha256-0:their.server"),
    ],
)
def test_aliases(room: AgentRoom, alias: str) -> None:
    """Each denotes one room and is reserved."""
    assert OURS.alias(room) == alias
    assert is_room_alias(alias)
    assert OURS.room(alias) == room
    assert any(re.search(regex, alias) for regex in OURS.aliases_regexes)


@pytest.mark.parametrize(
    "alias",
    [
        "#agents-:their.server",
        "#agents:their.server",
        "#agents-default:other.server",
        "#agent-broadcast-x:their.server",
        "#agents-A:their.server",
        "#agents-=00:their.server",
        "#office-:their.server",
        "#office:their.server",
        "#office-a:other.server",
        "#kitchen:their.server",
    ],
)
def test_other_aliases(alias: str) -> None:
    """They are outside the namespace."""
    assert OURS.room(alias) is None


def test_regexes_are_anchored() -> None:
    """For homeservers that search and for those that match."""
    for name in ("x@_agent_a:their.server", "@_agent_a:their.server.evil", "@_agent_a:theirXserver", "@_agent_:a"):
        assert re.search(OURS.users_regex, name) is None
    for alias in (
        "#agents-a:theirXserver",
        "#agents-:their.server",
        "#agent-broadcasts:their.server",
        "#office-:their.server",
        "x#office-a:their.server",
    ):
        assert not any(re.search(regex, alias) for regex in OURS.aliases_regexes)


def test_prefix() -> None:
    """No characters that need escaping, and no conflict with the senders of registrations."""
    assert prefix_problem("_agent_") is None
    for wrong in ("", "A", "a=", "a b", "é", "a" * 65, "p", "palaver-", "palaver-x"):
        assert prefix_problem(wrong) is not None, wrong
    assert prefix_problem("palaver_") is None


def test_domain() -> None:
    """A server name, with an optional port."""
    assert domain_problem("their.server:8448") is None
    assert "not a server name" in (domain_problem("https://their.server") or "")
