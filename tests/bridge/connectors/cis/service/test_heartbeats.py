"""Sending and receiving heartbeats."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from bridge.agents.agent import Agent, AgentStatus
from bridge.agents.routing_table import RoutingTable
from bridge.agents.updates import NodeHeartbeat, Registration
from bridge.connectors.cis.event_record import Verdict
from bridge.connectors.cis.protocol import event_fields
from bridge.connectors.cis.service.heartbeats import HeartbeatReceiver
from bridge.connectors.cis.settings import CisSettings
from bridge.peers.peer import Peer, PeerAccess, PeerProfile
from federation.transactions.edu_dispatcher import ReceivedCustomEdu
from federation.transactions.edus import CustomEdu
from storage.database import Database
from tests.bridge.connectors.cis.cis_nodes import TIMEOUT, CisNodes, RecordingObserver, peers_of
from tests.support.agents import NOW, Clock, address, routing_table

TYPE = "io.cis.agent.heartbeat"
SETTINGS = CisSettings(
    "here",
    {
        **peers_of("kitchen"),
        "old": PeerAccess(Peer("old", PeerProfile.CIS_1_1)),
        "bad": PeerAccess(Peer("bad", trusted=False)),
    },
)


class EduBackend:
    """The part of a Matrix backend that receives EDUs."""

    def listen(self, edu_type: str, listener: Any) -> Any:
        assert edu_type == TYPE
        self.hear = listener
        return lambda: None


@dataclass
class ReceiverFixture:
    backend: EduBackend
    routes: RoutingTable
    observer: RecordingObserver
    unknown: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    met: list[NodeHeartbeat] = field(default_factory=list)

    def say(self, origin: str, content: Mapping[str, Any]) -> None:
        self.backend.hear(ReceivedCustomEdu(origin, CustomEdu(TYPE, content)))

    async def until(self, agent: str, status: AgentStatus) -> Agent:
        async with asyncio.timeout(TIMEOUT):
            while (known := self.routes.agent(address(agent))) is None or known.status is not status:
                await asyncio.sleep(0.01)
        return known


@pytest.fixture
async def fixture(database: Database) -> AsyncIterator[ReceiverFixture]:
    clock = Clock()
    async with routing_table(database, "here", now_ms=clock) as routes:
        backend, observer = EduBackend(), RecordingObserver()
        one = ReceiverFixture(backend, routes, observer)
        heard = HeartbeatReceiver(
            backend,  # type: ignore[arg-type]
            routes,
            SETTINGS,
            observer,
            on_unknown=lambda node_id, agent_ids: one.unknown.append((node_id, agent_ids)),
            on_returned=one.met.append,
        )
        heard.start()
        yield one
        await heard.close()


def heartbeat_content(agents: Mapping[str, list[str]] | None, sent_at: int, node_id: str = "kitchen") -> dict[str, Any]:
    said = {
        "event_type": TYPE,
        "node_id": node_id,
        "timestamp": event_fields.format_timestamp(event_fields.from_milliseconds(sent_at)),
    }
    return said if agents is None else {**said, "agents": agents}


async def register(fixture: ReceiverFixture, *names: str) -> None:
    await fixture.routes.update([Registration(address(name), "cis", "claude", (), NOW - 1000) for name in names])


async def test_a_heartbeat_updates_all_agents_of_its_node(fixture: ReceiverFixture) -> None:
    """Their statuses are stored; unknown agents are reported to the callback."""
    await register(fixture, "w1@kitchen", "w2@kitchen")
    fixture.say("kitchen", heartbeat_content({"idle": ["w1"], "busy": ["w2", "w3"]}, NOW))
    await fixture.until("w2@kitchen", AgentStatus.BUSY)
    async with asyncio.timeout(TIMEOUT):  # the callback comes after the update of the routing table
        while not fixture.unknown:
            await asyncio.sleep(0.01)
    assert fixture.unknown == [("kitchen", ("w3",))]
    assert fixture.met == []


async def test_a_returned_node_is_reported(fixture: ReceiverFixture) -> None:
    """With the time of its heartbeat."""
    fixture.say("kitchen", heartbeat_content(None, NOW))
    async with asyncio.timeout(TIMEOUT):
        while not fixture.met:
            await asyncio.sleep(0.01)
    assert fixture.met == [NodeHeartbeat("kitchen", NOW)]


async def test_only_the_newest_heartbeat_is_written(fixture: ReceiverFixture) -> None:
    """Many heartbeats of a node cost no more than one."""
    await register(fixture, "w1@kitchen")
    for number in range(50):
        fixture.say("kitchen", heartbeat_content({"busy" if number % 2 else "idle": ["w1"]}, NOW + number))
    fixture.say("kitchen", heartbeat_content({"idle": ["w1"]}, NOW + 1))
    agent = await fixture.until("w1@kitchen", AgentStatus.BUSY)
    assert agent.sent_at == NOW + 49


async def test_the_heartbeat_of_a_single_agent(fixture: ReceiverFixture) -> None:
    """As in the specification, in both shapes."""
    await register(fixture, "w1@kitchen")
    said = {
        "agent_id": "w1",
        "node_id": "kitchen",
        "status": "busy",
        "timestamp": event_fields.format_timestamp(event_fields.from_milliseconds(NOW)),
    }
    fixture.say("kitchen", {"event_type": TYPE, "payload": said})
    await fixture.until("w1@kitchen", AgentStatus.BUSY)


@pytest.mark.parametrize(
    ("origin", "content", "verdict"),
    [
        ("stranger", heartbeat_content({}, NOW, "stranger"), Verdict.FORBIDDEN),
        ("bad", heartbeat_content({}, NOW, "bad"), Verdict.FORBIDDEN),
        ("old", heartbeat_content({}, NOW, "old"), Verdict.FORBIDDEN),
        ("kitchen", heartbeat_content({}, NOW, "elsewhere"), Verdict.FORBIDDEN),
        ("kitchen", {**heartbeat_content({}, NOW), "timestamp": "x"}, Verdict.INVALID),
        ("kitchen", {**heartbeat_content({}, NOW), "agents": []}, Verdict.INVALID),
        ("kitchen", {}, Verdict.FORBIDDEN),
        ("kitchen", {"agent_id": 5}, Verdict.INVALID),
    ],
)
async def test_invalid_heartbeats_are_refused(
    fixture: ReceiverFixture, origin: str, content: dict[str, Any], verdict: Verdict
) -> None:
    """From unknown servers, for other nodes, or malformed; nothing is written."""
    fixture.say(origin, content)
    [act] = fixture.observer.records
    assert (act.peer, act.verdict) == (origin, verdict)
    assert fixture.routes.table.node("elsewhere") is None
    assert fixture.routes.table.node(origin) is None


async def test_a_heartbeat_is_dropped_if_trust_ends_before_it_is_written(
    fixture: ReceiverFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is stored."""
    await register(fixture, "w1@kitchen", "w2@other")
    peers = dict(SETTINGS.peers) | peers_of("other")
    monkeypatch.setitem(SETTINGS.peers, "other", peers["other"])  # type: ignore[arg-type] # it is a dict
    fixture.say("other", heartbeat_content({"busy": ["w2"]}, NOW))
    monkeypatch.delitem(SETTINGS.peers, "other")  # type: ignore[arg-type] # it is a dict
    fixture.say("kitchen", heartbeat_content({"busy": ["w1"]}, NOW))
    await fixture.until("w1@kitchen", AgentStatus.BUSY)
    other = fixture.routes.agent(address("w2@other"))
    assert other is not None
    assert other.status is AgentStatus.IDLE


async def test_one_edu_per_interval(nodes: CisNodes) -> None:
    """With all agents by status; a node that joins gets one at once."""
    living, kitchen = await nodes.start_peers("a.test", "b.test", heartbeat_ms=60_000)
    heard: list[Mapping[str, Any]] = []
    kitchen.node.rooms.listen(
        TYPE, lambda said: heard.append(said.edu.content) if isinstance(said, ReceivedCustomEdu) else None
    )
    await living.local_agents.register(*(f"w{number}" for number in range(20)))
    await kitchen.wait_online("w19@a.test")
    lead = await living.wait_leader()
    lead.heartbeats.send_soon()
    async with asyncio.timeout(TIMEOUT):
        while not heard or len(heard[-1]["agents"].get("idle", [])) < 20:
            await asyncio.sleep(0.02)
    assert heard[-1]["node_id"] == "a.test"
    assert len(heard) <= 3


async def test_agents_of_a_namespace_are_not_listed(nodes: CisNodes) -> None:
    """The heartbeat then covers all known agents, and lost ones are found in the rooms."""
    nodes.agent_timeout_ms = 1_500
    both = ("default", "alpha")
    known = {"a.test": PeerAccess(Peer("a.test", namespaces=frozenset(both)))}
    peers = {"b.test": PeerAccess(Peer("b.test", namespaces=frozenset(both)))}
    from dataclasses import replace

    from tests.bridge.connectors.cis.cis_nodes import QUICK

    living, kitchen = await nodes.start_with(
        replace(QUICK, node_id="a.test", peers=peers, namespaces=both),
        replace(QUICK, node_id="b.test", peers=known, namespaces=both),
    )
    heard: list[Mapping[str, Any]] = []
    kitchen.node.rooms.listen(
        TYPE, lambda said: heard.append(said.edu.content) if isinstance(said, ReceivedCustomEdu) else None
    )
    await living.local_agents.register("secret", namespaces=("alpha",))
    await kitchen.wait_online("secret@a.test")
    async with asyncio.timeout(TIMEOUT):
        while not heard or "agents" in heard[-1]:
            await asyncio.sleep(0.02)
    living.node.is_down = kitchen.node.is_down = True
    await kitchen.wait_offline("secret@a.test")
    living.node.is_down = kitchen.node.is_down = False
    living.node.outbox.retry("b.test")
    await kitchen.wait_online("secret@a.test")
