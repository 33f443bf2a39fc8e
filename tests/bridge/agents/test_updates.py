"""Updates of agents and their effect."""

from typing import Any

import pytest

from bridge.agents.address import AgentAddress
from bridge.agents.agent import TIMEOUT, Agent, AgentNode, AgentStatus
from bridge.agents.updates import (
    MAX_CLOCK_AHEAD_MS,
    AgentHeartbeat,
    AgentUpdate,
    MalformedUpdate,
    MissingFromHeartbeat,
    NodeHeartbeat,
    Registration,
    ReportedByNode,
    StaleUpdate,
    StatusUpdate,
    UnknownAgent,
    Unregistration,
    Updated,
    apply_update,
    compare_heartbeat,
)

NOW = 10**12
SAID = NOW - 60_000
W1 = AgentAddress("w1", "kitchen.local")
IDLE, BUSY, DOWN = AgentStatus.IDLE, AgentStatus.BUSY, AgentStatus.SHUTDOWN
AGENT = Agent("w1", "kitchen.local", "cis", "claude", ("coding",), IDLE, None, SAID, SAID, None)
NODE = AgentNode("kitchen.local", None, True, 1, last_heartbeat=NOW - 9, heartbeat_sent_at=SAID - 5)
LOST = AGENT._replace(gone_at=NOW - 50, gone_reason=TIMEOUT)
LEFT = AGENT._replace(gone_at=NOW - 50, gone_reason="shutdown", status=DOWN)


def registered(sent_at: int = SAID + 1, **changed: Any) -> Registration:
    return Registration(
        **{
            "address": W1,
            "connector": "cis",
            "runtime": "kimi",
            "capabilities": ("test",),
            "sent_at": sent_at,
            **changed,
        }
    )


def taken(known: Agent | None, news: AgentUpdate, node: AgentNode | None = NODE) -> Agent:
    verdict = apply_update(known, node, news, NOW)
    assert isinstance(verdict, Updated)
    return verdict.agent


SAYINGS: list[Any] = [
    registered,
    lambda sent_at: Unregistration(W1, "x", sent_at),
    lambda sent_at: StatusUpdate(W1, BUSY, "t", sent_at),
    lambda sent_at: AgentHeartbeat(W1, BUSY, sent_at),
    lambda sent_at: ReportedByNode(W1, BUSY, sent_at),
]


@pytest.mark.parametrize("say", SAYINGS)
def test_only_newer_updates_are_applied(say: Any) -> None:
    """An equal timestamp is accepted; to bring an agent back online it must be newer."""
    assert apply_update(AGENT, NODE, say(SAID - 1), NOW) == StaleUpdate("a newer update of the agent is known")
    assert isinstance(apply_update(AGENT, NODE, say(SAID), NOW), Updated)
    assert apply_update(LEFT, NODE, say(SAID), NOW) == StaleUpdate("the agent has gone offline since")
    assert isinstance(apply_update(LEFT, NODE, say(SAID + 1), NOW), Updated)


@pytest.mark.parametrize("say", SAYINGS)
def test_updates_from_the_future_are_stale(say: Any) -> None:
    """ "at most five minutes ahead": otherwise one wrong clock would win for ever."""
    assert isinstance(apply_update(AGENT, NODE, say(NOW + MAX_CLOCK_AHEAD_MS), NOW), Updated)
    assert isinstance(apply_update(AGENT, NODE, say(NOW + MAX_CLOCK_AHEAD_MS + 1), NOW), StaleUpdate)
    assert isinstance(apply_update(None, None, say(NOW + MAX_CLOCK_AHEAD_MS + 1), NOW), StaleUpdate)


def test_a_nodes_heartbeat_outdates_heartbeats_of_its_agents() -> None:
    """But not of an agent that sends its own. It does not outdate registrations and statuses, which it may
    have overtaken."""
    node = NODE._replace(heartbeat_sent_at=SAID + 10)
    beat = AgentHeartbeat(W1, BUSY, SAID + 5)
    assert isinstance(apply_update(AGENT, node, beat, NOW), StaleUpdate)
    assert isinstance(apply_update(AGENT._replace(last_seen=NOW - 1), node, beat, NOW), Updated)
    assert isinstance(apply_update(AGENT, node, ReportedByNode(W1, BUSY, SAID + 10), NOW), Updated)
    assert taken(AGENT, registered(SAID + 5), node).runtime == "kimi"
    assert taken(AGENT, StatusUpdate(W1, BUSY, "t", SAID + 5), node).current_task == "t"
    assert not taken(AGENT, Unregistration(W1, "x", SAID + 5), node).is_online


def test_a_status_overtaken_by_a_heartbeat_adds_the_task() -> None:
    """The heartbeat reported the agent busy without the task. Nothing else of the older status applies."""
    busy = AGENT._replace(status=BUSY, sent_at=SAID + 10)
    assert taken(busy, StatusUpdate(W1, BUSY, "t", SAID + 5)) == busy._replace(current_task="t")
    for known, said in [
        (busy, StatusUpdate(W1, BUSY, None, SAID + 5)),
        (busy, StatusUpdate(W1, IDLE, None, SAID + 5)),
        (busy._replace(current_task="newer"), StatusUpdate(W1, BUSY, "t", SAID + 5)),
        (LEFT, StatusUpdate(W1, BUSY, "t", SAID - 5)),
    ]:
        assert isinstance(apply_update(known, NODE, said, NOW), StaleUpdate)


@pytest.mark.parametrize(
    "news",
    [
        registered(runtime="x" * 257),
        registered(connector="a\0"),
        registered(runtime="\ud800"),
        Unregistration(W1, "x\0", SAID),
        StatusUpdate(W1, BUSY, "x" * 257, SAID),
    ],
)
def test_updates_that_cannot_be_stored_are_malformed(news: AgentUpdate) -> None:
    """Lengths, NUL and unpaired surrogates."""
    assert isinstance(apply_update(AGENT, NODE, news, NOW), MalformedUpdate)


@pytest.mark.parametrize("say", SAYINGS)
def test_timestamps_outside_the_range_are_stale(say: Any) -> None:
    """Before 1970, or too large for a column."""
    for sent_at in (-1, -(10**30), 10**30):
        assert isinstance(apply_update(None, None, say(sent_at), NOW), StaleUpdate)


@pytest.mark.parametrize("say", SAYINGS[1:])
def test_an_unregistered_agent_is_unknown(say: Any) -> None:
    """Its runtime and capabilities are not known."""
    assert apply_update(None, NODE, say(SAID), NOW) == UnknownAgent(W1)
    assert apply_update(None, None, MissingFromHeartbeat(W1, 5), NOW) == UnknownAgent(W1)


def test_a_new_agent_is_idle() -> None:
    """The transition from `initial`."""
    assert taken(None, registered()) == Agent(
        "w1", "kitchen.local", "cis", "kimi", ("test",), IDLE, None, NOW, SAID + 1, None
    )


def test_registering_an_online_agent_keeps_its_status() -> None:
    """Nodes send all registrations to each new peer; that must not make a busy agent idle."""
    busy = AGENT._replace(status=BUSY, current_task="t")
    again = taken(busy, registered())
    assert (again.status, again.current_task, again.registered_at) == (BUSY, "t", SAID)
    assert (again.runtime, again.capabilities) == ("kimi", ("test",))


def test_registering_an_offline_agent_makes_it_idle() -> None:
    """Its earlier tasks have ended."""
    again = taken(LOST._replace(status=BUSY, current_task="t"), registered(sends_heartbeats=True))
    assert again.is_online
    assert (again.status, again.current_task, again.registered_at) == (IDLE, None, NOW)
    assert again.last_seen == NOW


def test_an_unregistered_agent_is_offline_with_its_reason() -> None:
    """A second unregistration keeps the first reason."""
    gone = taken(AGENT, Unregistration(W1, "maintenance", SAID + 1))
    assert (gone.gone_at, gone.gone_reason, gone.status) == (NOW, "maintenance", DOWN)
    assert taken(gone, Unregistration(W1, "other", SAID + 2)) == gone._replace(sent_at=SAID + 2)


@pytest.mark.parametrize(
    "news",
    [StatusUpdate(W1, DOWN, "t", SAID + 1), AgentHeartbeat(W1, DOWN, SAID + 1), ReportedByNode(W1, DOWN, SAID + 1)],
)
def test_an_agent_that_is_shut_down_is_offline(news: AgentUpdate) -> None:
    """ "any —shutdown→ shutdown", whether or not it also unregisters."""
    gone = taken(AGENT._replace(status=BUSY, current_task="t"), news)
    assert (gone.gone_reason, gone.status, gone.current_task) == ("shutdown", DOWN, None)


def test_a_reported_status_may_skip_a_step() -> None:
    """Only the agents of this node follow the table."""
    error = AGENT._replace(status=AgentStatus.ERROR)
    busy = taken(error, StatusUpdate(W1, BUSY, "t2", SAID + 1))
    assert (busy.status, busy.current_task, busy.sent_at) == (BUSY, "t2", SAID + 1)


def test_a_status_from_tasks_is_no_heartbeat() -> None:
    """A task that fails because its agent is silent makes the agent idle, but neither brings it back nor
    extends its timeout."""
    idle = StatusUpdate(W1, IDLE, None, SAID + 1, from_tasks=True)
    assert apply_update(LOST, NODE, idle, NOW) == StaleUpdate("the agent has gone offline since")
    silent = AGENT._replace(status=BUSY, current_task="t", last_seen=NOW - 90_000)
    assert taken(silent, idle) == silent._replace(status=IDLE, current_task=None, sent_at=SAID + 1)
    assert taken(AGENT, idle).last_seen is None, "it lives with its node"


def test_a_heartbeat_keeps_the_task_of_a_busy_agent() -> None:
    """Heartbeats do not contain the task."""
    busy = AGENT._replace(status=BUSY, current_task="t")
    assert taken(busy, AgentHeartbeat(W1, BUSY, SAID + 1)).current_task == "t"
    assert taken(busy, ReportedByNode(W1, BUSY, SAID + 1)).current_task == "t"
    assert taken(busy, AgentHeartbeat(W1, IDLE, SAID + 1)).current_task is None


@pytest.mark.parametrize(
    ("known", "node", "last_seen"),
    [
        (AGENT, NODE, None),
        (AGENT._replace(last_seen=5), NODE, NOW),
        (AGENT, NODE._replace(last_heartbeat=None), NOW),
        (AGENT, NODE._replace(silent_since=NOW - 1), NOW),
        (AGENT, None, NOW),
        (LOST, NODE, NOW),
    ],
)
@pytest.mark.parametrize("news", [AgentHeartbeat(W1, IDLE, SAID + 1), StatusUpdate(W1, IDLE, None, SAID + 1)])
def test_an_agents_own_heartbeat_sets_last_seen(
    known: Agent, node: AgentNode | None, last_seen: int | None, news: AgentUpdate
) -> None:
    """Unless its node reports it: nodes may send both kinds of heartbeat."""
    agent = taken(known, news, node)
    assert agent.is_online
    assert agent.last_seen == last_seen


def test_an_omitted_agent_was_last_seen_with_the_previous_heartbeat() -> None:
    """From then on its own timeout counts."""
    assert taken(AGENT, MissingFromHeartbeat(W1, 77)).last_seen == 77
    assert taken(AGENT._replace(last_seen=88), MissingFromHeartbeat(W1, 77)).last_seen == 88


# ---- the heartbeat of a node -------------------------------------------------------------------------


def beat(sent_at: int = SAID + 1, **statuses: AgentStatus) -> NodeHeartbeat:
    return NodeHeartbeat("kitchen.local", sent_at, statuses)


def differences(agents: list[Agent], news: NodeHeartbeat) -> tuple[set[Any], set[str]]:
    found = compare_heartbeat(NODE, {agent.agent_id: agent for agent in agents}, news, NOW)
    assert not isinstance(found, StaleUpdate)
    return set(found.updates), set(found.unknown)


def test_a_heartbeat_without_changes_has_no_updates() -> None:
    """For any number of agents."""
    agents = [AGENT._replace(agent_id=f"w{number}") for number in range(100)]
    assert differences(agents, beat(**{agent.agent_id: IDLE for agent in agents})) == (set(), set())


def test_a_heartbeat_yields_the_differences() -> None:
    """Another status, an agent with its own heartbeats, an offline one, an omitted one, an unknown one."""
    agents = [
        AGENT,
        AGENT._replace(agent_id="w2"),
        AGENT._replace(agent_id="w3", last_seen=5),
        LOST._replace(agent_id="w4"),
        AGENT._replace(agent_id="w5"),
        AGENT._replace(agent_id="w6", last_seen=5),
        LOST._replace(agent_id="w7"),
    ]
    news, unknown = differences(agents, beat(w1=IDLE, w2=BUSY, w3=IDLE, w4=IDLE, w9=IDLE))
    said = SAID + 1
    assert news == {
        ReportedByNode(AgentAddress("w2", "kitchen.local"), BUSY, said),
        ReportedByNode(AgentAddress("w3", "kitchen.local"), IDLE, said),
        ReportedByNode(AgentAddress("w4", "kitchen.local"), IDLE, said),
        MissingFromHeartbeat(AgentAddress("w5", "kitchen.local"), NOW - 9),
    }
    assert unknown == {"w9"}


def test_a_newer_update_of_an_agent_stays() -> None:
    """The heartbeat was sent before it and arrived after it."""
    newer = AGENT._replace(sent_at=SAID + 5)
    gone = LEFT._replace(agent_id="w2", sent_at=SAID + 1)
    assert differences([newer, gone], beat(w1=BUSY, w2=IDLE)) == (set(), set())


def test_an_agent_that_stays_shut_down_is_no_difference() -> None:
    """Its node may keep listing it."""
    assert differences([LEFT], beat(w1=DOWN)) == (set(), set())


def test_a_heartbeat_without_statuses_has_no_differences() -> None:
    """It only shows that the node is online."""
    assert differences([AGENT, LOST], NodeHeartbeat("kitchen.local", SAID + 1)) == (set(), set())


@pytest.mark.parametrize("sent_at", [SAID - 5, SAID - 6, NOW + MAX_CLOCK_AHEAD_MS + 1, -1])
def test_an_old_heartbeat_and_one_from_the_future_are_stale(sent_at: int) -> None:
    """A repeated heartbeat does not show that the node is online."""
    assert isinstance(compare_heartbeat(NODE, {}, beat(sent_at), NOW), StaleUpdate)
    assert not isinstance(compare_heartbeat(None, {}, beat(SAID), NOW), StaleUpdate)
