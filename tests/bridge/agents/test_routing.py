"""Where an address leads."""

import pytest

from bridge.agents.address import AgentAddress, BareAgentId
from bridge.agents.agent import TIMEOUT, UNTRUSTED, Agent, AgentNode, AgentStatus
from bridge.agents.routing import MAX_CANDIDATES, MAX_INTERNED, AgentRoutingTable, Local, Remote, Route, Unknown
from bridge.tasks.errors import ErrorCode

HERE = "living.local"
NOW = 10**12
NOT_FOUND = ErrorCode.AGENT_NOT_FOUND


def agent(text: str, **changed: object) -> Agent:
    agent_id, _, node_id = text.partition("@")
    known = Agent(agent_id, node_id, "cis", "claude", ("coding",), AgentStatus.IDLE, None, NOW, NOW, None)
    return known._replace(**changed)


def address(text: str) -> AgentAddress:
    parsed = AgentAddress.parse(text)
    assert isinstance(parsed, AgentAddress)
    return parsed


def table(*agents: Agent) -> AgentRoutingTable:
    routes = AgentRoutingTable()
    for one in agents:
        routes.put(one)
    return routes


def unknown(route: Route) -> Unknown:
    assert isinstance(route, Unknown)
    return route


def test_the_example_of_the_specification() -> None:
    """Its functions by their names, and its three results."""
    routing = AgentRoutingTable()
    routing.register_remote("worker-1", "kitchen.local")
    routing.register_node_url("kitchen.local", "http://kitchen.local:7676")
    route = routing.route("worker-1", "living.local")
    assert route == Remote(address("worker-1@kitchen.local"), "http://kitchen.local:7676")
    assert route.node_id == "kitchen.local"
    assert routing.route("worker-1", "kitchen.local") == Local(address("worker-1@kitchen.local"))
    assert isinstance(routing.route("worker-2", "living.local"), Unknown)


def test_register_remote_keeps_a_known_agent() -> None:
    """The specification's function has only the address."""
    routing = table(agent("w@a"))
    routing.register_remote("w", "a")
    assert routing.agent(address("w@a")) == agent("w@a")


def test_an_address_is_not_a_bare_id() -> None:
    """ "The same agent id on two nodes is two addresses": neither replaces the other."""
    routing = table(agent("w@a", runtime="kimi"), agent("w@b"))
    assert routing.route("w@a", HERE) == Remote(address("w@a"), None)
    assert routing.route(address("w@b"), HERE) == Remote(address("w@b"), None)
    assert routing.agents_of("a")["w"].runtime == "kimi"


def test_a_bare_id_is_this_nodes_first() -> None:
    """ "this node first, then the only node that has it"."""
    assert table(agent("w@a"), agent(f"w@{HERE}")).route("w", HERE) == Local(address(f"w@{HERE}"))
    assert table(agent("w@a")).route(BareAgentId("w"), HERE) == Remote(address("w@a"), None)


def test_an_ambiguous_bare_id_has_no_route() -> None:
    """ "several or none: `AGENT_NOT_FOUND` with the candidates in metadata"."""
    several = unknown(table(agent("w@b"), agent("w@a")).route("w", HERE))
    assert several.code is NOT_FOUND
    assert several.candidates == (address("w@a"), address("w@b"))
    assert several.error().metadata == {"candidates": ["w@a", "w@b"]}
    none = unknown(table(agent("w@b")).route("v", HERE))
    assert (none.code, none.candidates, none.error().metadata) == (NOT_FOUND, (), {})


def test_an_offline_agent_is_no_candidate() -> None:
    """Of two nodes that had the id one still has it."""
    routing = table(agent("w@a"), agent("w@b", gone_at=1, gone_reason="shutdown"))
    assert routing.route("w", HERE) == Remote(address("w@a"), None)
    at_home = table(agent("w@a"), agent(f"w@{HERE}", gone_at=1, gone_reason="shutdown"))
    assert at_home.route("w", HERE) == Remote(address("w@a"), None)


def test_the_number_of_candidates_is_bounded() -> None:
    """An id that every node has does not fill an answer."""
    routing = table(*(agent(f"w@n{number}") for number in range(100)))
    for target in ("w", "w@elsewhere"):
        assert len(unknown(routing.route(target, HERE)).candidates) == MAX_CANDIDATES


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [
        ("v@a", NOT_FOUND, "The node a has no agent v."),
        ("v@c", NOT_FOUND, "No node c is known."),
        ("left@a", NOT_FOUND, "is offline: maintenance"),
        ("lost@a", NOT_FOUND, "The agent lost@a is offline: it sent no heartbeat"),
        ("lost@b", ErrorCode.NODE_UNREACHABLE, "The node b is offline: it sent no heartbeat"),
        ("left@b", NOT_FOUND, "is offline: maintenance"),
        ("@", ErrorCode.INVALID_PAYLOAD, "not be empty"),
        ("a@b@c", ErrorCode.INVALID_PAYLOAD, "must not contain an @"),
    ],
)
def test_an_unknown_route_has_a_reason(target: str, code: ErrorCode, words: str) -> None:
    """A missing agent and a silent node are different errors."""
    left, lost = {"gone_at": 5, "gone_reason": "maintenance"}, {"gone_at": 5, "gone_reason": TIMEOUT}
    routing = table(agent("left@a", **left), agent("lost@a", **lost))
    routing.put(agent("left@b", **left))
    routing.put(agent("lost@b", **lost))
    routing.put_node(AgentNode("b", None, True, 1, silent_since=5))
    route = unknown(routing.route(target, HERE))
    assert route.code is code
    assert words in route.reason
    assert route.error().code is code


def test_the_candidates_of_a_wrong_node() -> None:
    """worker-1@kitchen was meant to be worker-1@kitchen.local."""
    route = unknown(table(agent("w@kitchen.local")).route("w@kitchen", HERE))
    assert route.candidates == (address("w@kitchen.local"),)


def test_online_agents_are_counted() -> None:
    """Each once, however often it is put; not those that are offline or removed."""
    routing = table(agent("w@a"), agent("v@a"))
    assert routing.put(agent("w@a", status=AgentStatus.BUSY)) == agent("w@a")
    assert routing.count("a") == 2
    routing.put(agent("w@a", gone_at=1, gone_reason="x"))
    assert routing.count("a") == 1
    assert len(routing.agents_of("a")) == 2
    routing.remove(address("w@a"))
    routing.remove(address("v@a"))
    routing.remove(address("v@b"))
    assert (routing.count("a"), dict(routing.agents_of("a")), routing.count("c")) == (0, {}, 0)


def test_when_an_agent_was_last_seen() -> None:
    """By its own heartbeat or by its node's."""
    with_node, alone = agent("w@a"), agent("v@a", last_seen=3)
    routing = table(with_node, alone)
    assert routing.last_seen(with_node) is None
    routing.put_node(AgentNode("a", None, True, 1, silent_since=5))
    routing.record_heartbeat("a", 50, 40)
    assert (routing.last_seen(with_node), routing.last_seen(alone)) == (50, 3)
    assert routing.node("a") == AgentNode("a", None, True, 1, 50, 40)
    routing.record_heartbeat("a", 49, 39)
    assert routing.last_seen(with_node) == 50


def test_an_outdated_row_keeps_the_newer_heartbeat() -> None:
    """The database may be older than this process's memory."""
    routing = table()
    routing.record_heartbeat("a", 50, 40)
    routing.put_node(AgentNode("a", "http://a", True, 7, 30, 20))
    assert routing.node("a") == AgentNode("a", "http://a", True, 7, 50, 40)
    routing.put_node(AgentNode("a", "http://a", True, 7, 60, 55))
    assert routing.nodes() == [AgentNode("a", "http://a", True, 7, 60, 55)]


def test_agents_are_found_by_capabilities() -> None:
    """Available ones first, offline ones not at all."""
    routing = table(
        agent("a@x", status=AgentStatus.BUSY, capabilities=("coding", "test")),
        agent("b@x", capabilities=("coding", "test", "runtime:kimi")),
        agent("c@x"),
        agent("d@x", capabilities=("coding", "test"), gone_at=1, gone_reason="x"),
    )
    assert [one.agent_id for one in routing.find_capable(["Coding", "test"])] == ["b", "a"]
    assert [one.agent_id for one in routing.find_capable(["runtime:*"])] == ["b"]


def test_equal_values_are_interned() -> None:
    """Most agents have the same few capabilities; a peer that gives each agent its own does not grow the
    memory without bound."""
    routing = AgentRoutingTable()
    names = ["coding", "test"]
    first = routing.intern(tuple(names))
    assert routing.intern(tuple(names)) is first
    for number in range(2 * MAX_INTERNED):
        routing.intern((str(number),))
    assert len(routing._interned) <= MAX_INTERNED


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("w", ["w@kitchen.local is on another node", "at http://k:7676", "busy with t-1", "12 s ago"]),
        ("v@n", ["v@n is on another node", "by server discovery", "idle", "claude"]),
        (f"me@{HERE}", [f"me@{HERE} is an agent of this node", "idle"]),
        ("nobody", ["No agent nobody is known.", "AGENT_NOT_FOUND"]),
        ("w@kitchen", ["No node kitchen is known.", "Known: w@kitchen.local."]),
    ],
)
def test_a_route_is_explained(target: str, words: list[str]) -> None:
    """In one or two sentences, for `palaver route`."""
    routing = table(
        agent("w@kitchen.local", status=AgentStatus.BUSY, current_task="t-1", last_seen=NOW - 12_000),
        agent("v@n"),
        agent(f"me@{HERE}", last_seen=NOW),
    )
    routing.register_node_url("kitchen.local", "http://k:7676")
    explained = routing.explain(target, HERE, NOW)
    for word in words:
        assert word in explained


def test_an_untrusted_node_has_no_route() -> None:
    """None of its agents; trusted again, it is like any other."""
    gone = agent("w@a", gone_at=1, gone_reason=UNTRUSTED)
    routing = table(gone, agent("left@a", gone_at=1, gone_reason="shutdown"))
    routing.put_node(AgentNode("a", None, trusted=False, first_seen_at=1, silent_since=2))
    for target in ("w@a", "nobody@a"):
        route = unknown(routing.route(target, HERE))
        assert (route.code, route.reason) == (ErrorCode.NODE_UNREACHABLE, "This node does not exchange agents with a.")
    assert unknown(routing.route("left@a", HERE)).code is NOT_FOUND
    routing.put_node(AgentNode("a", None, trusted=True, first_seen_at=1))
    routing.put(gone._replace(gone_at=None, gone_reason=None))
    assert routing.route("w@a", HERE) == Remote(address("w@a"), None)
    assert unknown(routing.route("nobody@a", HERE)).code is NOT_FOUND
