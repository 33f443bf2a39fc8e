"""Palaver nodes that are configured as published nodes: signed single events over HTTP, and no rooms."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, cast

import pytest
from nacl.signing import SigningKey

from bridge.agents.agent import AgentStatus
from bridge.agents.routing import Unknown
from bridge.agents.updates import StatusUpdate, Unregistration
from bridge.connectors.cis.event_record import Verdict
from bridge.connectors.cis.protocol.rooms import parse_room_id
from bridge.connectors.cis.service.sender import Sent
from bridge.matrix.backend import MatrixBackend
from bridge.peers.peer import Peer, PeerAccess, PeerProfile
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode
from bridge.tasks.task import State
from federation.matrix.capabilities import BackendCapability
from federation.matrix.networks import LOOPBACK
from tests.bridge.connectors.cis.cis_nodes import QUICK, TIMEOUT, CisNode, CisNodes, RecordingObserver
from tests.federation.nodes import Node, now_ms
from tests.support.agents import address, routing_table
from tests.support.postgres import Server

KITCHEN, CELLAR = "kitchen.local", "cellar.local"
WORKER, MINER = f"worker@{KITCHEN}", f"miner@{CELLAR}"


class WithoutRoomIds:
    """A homeserver backend without the capability to choose room ids, like an application service."""

    def __init__(self, backend: MatrixBackend) -> None:
        self._backend = backend
        self.capabilities = frozenset({BackendCapability.TO_DEVICE})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


class PublishedNodes(CisNodes):
    """The nodes are configured as published nodes of each other. The kitchen has no rooms of agents."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.peers: dict[str, dict[str, PeerAccess]] = {KITCHEN: {}, CELLAR: {}}

    async def both(self) -> tuple[CisNode, CisNode]:
        settings = [replace(QUICK, node_id=name, peers=peers) for name, peers in self.peers.items()]
        kitchen, cellar = await self.start_with(*settings)
        return kitchen, cellar

    async def open(self, one: CisNode) -> CisNode:
        for name, peers in self.peers.items():
            peers.update({other: self.access(other) for other in self.peers if other != name})
        return await super().open(one)

    def access(self, name: str) -> PeerAccess:
        key = SigningKey(name.encode().ljust(32, b".")).verify_key
        peer = Peer(name, PeerProfile.CIS_1_1, public_key=bytes(key), require_signature=True)
        return PeerAccess(peer, f"http://{self._address_of(name)}", LOOPBACK)

    def _backend(self, node: Node) -> MatrixBackend:
        return cast("MatrixBackend", WithoutRoomIds(node.rooms)) if node.name == KITCHEN else node.rooms


@pytest.fixture
async def nodes(postgres_server: Server, migrated_template: str) -> AsyncIterator[PublishedNodes]:
    async with AsyncExitStack() as stack:
        yield PublishedNodes(postgres_server, migrated_template, stack)


@pytest.fixture
async def both(nodes: PublishedNodes) -> tuple[CisNode, CisNode]:
    kitchen, cellar = await nodes.both()
    await kitchen.local_agents.register("worker")
    await cellar.local_agents.register("miner")
    await kitchen.wait_online(MINER)
    await cellar.wait_online(WORKER)
    return kitchen, cellar


async def test_agents_are_exchanged(both: tuple[CisNode, CisNode]) -> None:
    """Registrations, capabilities, statuses and unregistrations, in both directions."""
    for ours, theirs, agent in ((*both, WORKER), (*reversed(both), MINER)):
        known = await theirs.wait_online(agent)
        assert (known.runtime, known.capabilities) == ("claude", ("coding",))
        await ours.routes.update([StatusUpdate(address(agent), AgentStatus.BUSY, "t-1", now_ms())])

        def busy(table: Any, agent: str = agent) -> bool:
            found = table.agent(address(agent))
            return found is not None and found.status is AgentStatus.BUSY

        await theirs.until(busy)
        await ours.local_agents.unregister(agent.partition("@")[0], "maintenance")
        assert (await theirs.wait_offline(agent)).gone_reason == "maintenance"


async def test_a_node_without_room_ids_creates_no_rooms(both: tuple[CisNode, CisNode]) -> None:
    """And sends in none: everything goes to published peers."""
    kitchen, cellar = both
    kitchen.local_agents.automatic_answer = Answer(True, "done", 0)
    await cellar.ask(WORKER)
    assert (await cellar.answered()).state is State.DONE
    said = await kitchen.connector.send_message(address(WORKER), None, "hello", {"to": "all"})
    assert isinstance(said, Sent)
    await cellar.observer.until_recorded(Verdict.TAKEN, "io.cis.agent.message", KITCHEN)
    rooms = await kitchen.node.rooms.joined_rooms(f"@palaver:{KITCHEN}")
    assert [one for one in rooms if parse_room_id(one) is not None] == []
    assert await kitchen.node.rooms.profile(f"@palaver:{KITCHEN}") is not None
    assert not kitchen.observer.problems
    assert not cellar.observer.problems


async def test_tasks_go_both_ways(both: tuple[CisNode, CisNode]) -> None:
    """With progress and answer; each task runs once."""
    for asking, working, agent in ((*both, MINER), (*reversed(both), WORKER)):
        key = await asking.ask(agent, "req-there")
        task = await working.given()
        assert (task.request.prompt, str(task.request.to_address)) == ("Implement a function", agent)
        await working.local_agents.run(task, Answer(True, "done", 0), {"message": "half"})
        answered = await asking.answered()
        assert (answered.key, answered.state) == (key, State.DONE)
        assert answered.answer is not None
        assert answered.answer.output == "done"
        assert (await asking.requester.heard.get())["message"] == "half"
        assert working.local_agents.delivered.empty()


async def test_a_task_is_cancelled(both: tuple[CisNode, CisNode]) -> None:
    """The agent is stopped, on either node."""
    for asking, working, agent in ((*both, MINER), (*reversed(both), WORKER)):
        key = await asking.ask(agent, "req-cancel")
        task = await working.given()
        await asking.core.tasks.cancel(key, "@alice:there.test")
        async with asyncio.timeout(TIMEOUT):
            stopped = await working.local_agents.cancelled.get()
        assert stopped.key == task.key
        assert (await asking.answered()).state is State.CANCELLED


async def test_a_task_for_an_unknown_agent(both: tuple[CisNode, CisNode]) -> None:
    """It is refused here if the agent is unknown here; otherwise the other node refuses it, and the task ends
    before its deadline."""
    kitchen, cellar = both
    stranger = cellar.core.table.route(f"stranger@{KITCHEN}")
    assert isinstance(stranger, Unknown)
    # Its unregistration cannot be sent meanwhile.
    cellar.node.is_down = True
    await kitchen.local_agents.unregister("worker")
    key = await cellar.ask(WORKER)
    await cellar.until_state(key, State.ACCEPTED)
    await kitchen.observer.until_recorded(Verdict.TAKEN, "io.cis.agent.task.request", CELLAR)
    cellar.node.is_down = False
    answer = (await cellar.answered()).answer
    assert answer is not None
    assert answer.error_code is ErrorCode.AGENT_NOT_FOUND
    assert kitchen.local_agents.delivered.empty()


async def test_without_rooms_a_restart_repeats_the_announcements(
    nodes: PublishedNodes, both: tuple[CisNode, CisNode]
) -> None:
    """No room has the state, so online and offline agents are announced again."""
    kitchen, cellar = both
    await kitchen.local_agents.register("cook")
    await cellar.wait_online(f"cook@{KITCHEN}")
    await kitchen.close()
    async with routing_table(kitchen.node.database, KITCHEN, now_ms=now_ms) as routes:
        await routes.update([Unregistration(address(WORKER), "maintenance", now_ms())])
    told = len(cellar.observer.records)
    await nodes.reopen(kitchen)
    assert (await cellar.wait_offline(WORKER)).gone_reason == "maintenance"

    def told_again(observer: RecordingObserver) -> bool:
        later = observer.records[told:]
        return any((act.type, act.subject) == ("io.cis.agent.registered", f"cook@{KITCHEN}") for act in later)

    await cellar.observer.until(told_again)


async def test_a_lost_agent_is_announced_again(both: tuple[CisNode, CisNode]) -> None:
    """ "answers with a fresh `registered` if it lives", also without rooms."""
    kitchen, cellar = both
    lost = Unregistration(address(WORKER), "lost", now_ms())
    await cellar.routes.update([lost])
    await cellar.wait_offline(WORKER)
    await cellar.connector.announce_lost([agent] if (agent := cellar.routes.agent(address(WORKER))) else [])
    await kitchen.observer.until_recorded(Verdict.TAKEN, "io.cis.agent.unregistered", CELLAR)
    await cellar.wait_online(WORKER)
