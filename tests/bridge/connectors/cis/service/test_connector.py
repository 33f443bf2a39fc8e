"""Complete nodes that exchange agents and tasks."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest

from bridge.agents.agent import AgentStatus
from bridge.agents.routing import AgentRoutingTable
from bridge.connectors.cis.event_record import Verdict
from bridge.connectors.cis.protocol.events import Message
from bridge.connectors.cis.service.sender import Sent
from bridge.peers.peer import Peer, PeerAccess
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.request import TaskKey
from bridge.tasks.task import State
from federation.matrix.errors import MatrixError
from tests.bridge.connectors.cis.cis_nodes import QUICK, TIMEOUT, CisNodes, peers_of
from tests.federation.nodes import now_ms
from tests.support.agents import address, registered

GOOD = Answer(True, "Implementation completed...", 0, {"tokens_used": 1500})


def _status(table: AgentRoutingTable, text: str) -> tuple[AgentStatus, str | None] | None:
    agent = table.agent(address(text))
    return None if agent is None else (agent.status, agent.current_task)


def _by_id(peers: Mapping[str, PeerAccess]) -> dict[str, PeerAccess]:
    return {access.peer.node_id: access for access in peers.values()}


async def test_an_agent_of_another_node_answers_a_task(nodes: CisNodes) -> None:
    """The whole path between two nodes."""
    living, kitchen = await nodes.start_peers("living.test", "kitchen.test")
    await kitchen.local_agents.register("worker-1")
    agent = await living.wait_online("worker-1@kitchen.test")
    assert (agent.runtime, agent.capabilities, agent.connector) == ("claude", ("coding",), "cis")
    key = await living.ask("worker-1@kitchen.test")
    task = await kitchen.given()
    assert task.request.prompt == "Implement a function"
    assert str(task.request.from_address) == "coordinator@living.test"
    await kitchen.local_agents.run(task, GOOD, {"percent": 50})
    answered = await living.answered()
    assert (answered.key, answered.state, answered.answer) == (key, State.DONE, GOOD)
    assert await living.requester.heard.get() == {"percent": 50}
    for one in (living, kitchen):
        assert one.observer.problems == []


async def test_three_nodes_discover_each_other_and_exchange_tasks(nodes: CisNodes) -> None:
    """In any order of starting; many tasks in each direction at once."""
    all_three = await nodes.start_peers("a.test", "b.test", "c.test")
    for one in all_three:
        await one.local_agents.register("worker")
        one.local_agents.automatic_answer = Answer(True, f"done by {one.name}", 0)
    for one in all_three:
        for other in all_three:
            await one.wait_online(f"worker@{other.name}")
    for one in all_three:
        for other in all_three:
            for number in range(5):
                await one.ask(f"worker@{other.name}", f"{one.name} {other.name} {number}")
    for one in all_three:
        answers = [await one.answered() for _ in range(15)]
        said = sorted(task.answer.output for task in answers if task.answer is not None)
        assert said == sorted(5 * [f"done by {other.name}" for other in all_three])
        assert one.observer.problems == []


async def test_a_new_node_reads_all_agents_from_the_rooms(nodes: CisNodes) -> None:
    """Online and offline ones; its own agents are discovered in the same exchange."""
    first, second = await nodes.start_peers("a.test", "b.test")
    await second.close()
    await first.local_agents.register(*(f"w{number}" for number in range(30)))
    await first.local_agents.unregister("w7", "shutdown")
    second = await nodes.reopen(second)
    await second.local_agents.register("late")
    await first.wait_online("late@b.test")
    for number in range(30):
        if number != 7:
            await second.wait_online(f"w{number}@a.test")
    # The room has the registration of w7 before its unregistration.
    await second.until(lambda table: table.count("a.test") == 29)


async def test_statuses_and_unregistrations_are_announced(nodes: CisNodes) -> None:
    """With the current task, and with the reason."""
    living, kitchen = await nodes.start_peers("a.test", "b.test")
    kitchen.local_agents.settings_of["worker"] = AgentSettings(1, 10)
    await kitchen.local_agents.register("worker")
    await living.wait_online("worker@b.test")
    await living.ask("worker@b.test")
    task = await kitchen.given()
    done = asyncio.Event()

    async def work() -> None:
        assert await kitchen.core.tasks.begin(task.key) is not None
        await done.wait()
        await kitchen.core.tasks.finish(task.key, GOOD)

    working = asyncio.create_task(work())
    await living.until(lambda table: _status(table, "worker@b.test") == (AgentStatus.BUSY, "task-req-1"))
    done.set()
    await working
    await living.until(lambda table: _status(table, "worker@b.test") == (AgentStatus.IDLE, None))
    await kitchen.local_agents.unregister("worker", "maintenance")
    gone = await living.wait_offline("worker@b.test")
    assert gone.gone_reason == "maintenance"
    await living.ask("worker@b.test", "req-2")
    refused = await living.until_state(TaskKey("a.test", "req-2"), State.FAILED)
    assert refused.answer is not None
    assert refused.answer.error_code is ErrorCode.AGENT_NOT_FOUND


async def test_broadcasts_and_messages_are_received(nodes: CisNodes) -> None:
    """A broadcast by all nodes, a message by its target only."""
    a, b, c = await nodes.start_peers("a.test", "b.test", "c.test")
    heard: dict[str, asyncio.Queue[Message]] = {}
    for one in (b, c):
        heard[one.name] = asyncio.Queue()
        one.connector.subscribe(heard[one.name].put_nowait)
    await b.local_agents.register("worker")
    await c.local_agents.register("other")
    await a.wait_online("worker@b.test")
    await a.wait_online("other@c.test")
    for one in (b, c):
        await one.wait_joined("a.test")
    boss = address("coordinator@a.test")
    said = await a.connector.send_message(boss, None, "announcement", {"message": "New task", "cost": 0.5})
    assert isinstance(said, Sent)
    said = await a.connector.send_message(boss, address("worker@b.test"), "note", "for you")
    assert isinstance(said, Sent)
    for name, types in (("b.test", {"announcement", "note"}), ("c.test", {"announcement"})):
        got = {}
        async with asyncio.timeout(TIMEOUT):
            while len(got) < len(types):
                message = await heard[name].get()
                got[message.message_type] = message
        assert got.keys() == types
        assert got["announcement"].payload == {"message": "New task", "cost": 0.5}
        assert got["announcement"].from_agent == boss
        assert heard[name].empty()


async def test_namespaces_are_separate(nodes: CisNodes) -> None:
    """A node that may use a namespace sees its agents and sends them tasks. Any other node does neither, even
    if it knows an agent's address."""
    both = ("default", "alpha")
    peers = {
        "a.test": peers_of(b=PeerAccess(Peer("b.test", namespaces=frozenset(both))), c=PeerAccess(Peer("c.test"))),
        "b.test": {"a.test": PeerAccess(Peer("a.test", namespaces=frozenset(both)))},
        "c.test": {"a.test": PeerAccess(Peer("a.test", namespaces=frozenset(both)))},
    }
    a, b, c = await nodes.start_with(
        *(replace(QUICK, node_id=name, peers=_by_id(peers[name]), namespaces=both) for name in peers)
    )
    a.local_agents.automatic_answer = GOOD
    await a.local_agents.register("secret", namespaces=("alpha",))
    await a.local_agents.register("open")
    await b.wait_online("secret@a.test")
    await b.wait_online("open@a.test")
    await c.wait_online("open@a.test")
    assert c.table.agent(address("secret@a.test")) is None
    await b.ask("secret@a.test", "one")
    assert (await b.answered()).answer == GOOD
    # It gets the address in another way, and sends a request in the namespace that it may use.
    await c.routes.update([registered("secret@a.test", sent_at=now_ms())])
    await c.ask("secret@a.test", "two")
    refused = (await c.answered()).answer
    assert refused is not None
    assert refused.error_code is ErrorCode.AGENT_NOT_FOUND
    assert await c.node.rooms.membership("!agent-federation-alpha:a.test", "@palaver:c.test") is None


async def test_a_silent_node_goes_offline_and_returns(nodes: CisNodes) -> None:
    """After the timeout, its agents are offline with the reason `timeout` and queued tasks fail with
    NODE_UNREACHABLE. After its next heartbeat they are online, with one answer to each task."""
    nodes.agent_timeout_ms = 2_000
    living, kitchen = await nodes.start_peers("a.test", "b.test")
    await kitchen.local_agents.register("worker")
    await living.wait_online("worker@b.test")
    # Otherwise the task could not be queued.
    await living.wait_joined("b.test")
    for one in (living, kitchen):
        one.node.is_down = True
    key = await living.ask("worker@b.test", "lost")
    gone = await living.wait_offline("worker@b.test")
    assert gone.gone_reason == "timeout"
    failed = (await living.answered()).answer
    assert failed is not None
    assert failed.error_code is ErrorCode.NODE_UNREACHABLE
    await living.ask("worker@b.test", "refused")
    refused = (await living.answered()).answer
    assert refused is not None
    assert refused.error_code is ErrorCode.NODE_UNREACHABLE
    for one, other in ((living, kitchen), (kitchen, living)):
        one.node.is_down = False
        other.node.outbox.retry(one.name)
    await living.wait_online("worker@b.test")
    # The queued request arrives together with its cancellation.
    await kitchen.until_state(key, State.CANCELLED)
    kitchen.local_agents.automatic_answer = GOOD
    await living.ask("worker@b.test", "again")
    assert (await living.answered()).answer == GOOD
    assert (await living.task(key)).answer == failed


@pytest.mark.parametrize("ahead", [60_000, -60_000])
async def test_clocks_may_differ_by_a_minute(nodes: CisNodes, ahead: int) -> None:
    """Agents are registered, updated and unregistered, and run tasks."""
    nodes.clocks["b.test"] = ahead
    nodes.agent_timeout_ms = 10_000
    living, kitchen = await nodes.start_peers("a.test", "b.test")
    kitchen.local_agents.automatic_answer = GOOD
    kitchen.local_agents.clock_offset_ms = ahead
    await kitchen.local_agents.register("worker")
    await living.local_agents.register("boss")
    await living.wait_online("worker@b.test")
    await kitchen.wait_online("boss@a.test")
    await living.ask("worker@b.test", timeout_ms=10_000)
    assert (await living.answered()).answer == GOOD
    await kitchen.local_agents.unregister("worker")
    await living.wait_offline("worker@b.test")
    await kitchen.local_agents.register("worker")
    await living.wait_online("worker@b.test")
    heard = living.table.node("b.test")
    assert heard is not None
    assert heard.silent_since is None


async def test_a_restart_loses_nothing_and_repeats_nothing(nodes: CisNodes) -> None:
    """Agents are announced once, and a running task continues, whichever node restarts."""
    living, kitchen = await nodes.start_peers("a.test", "b.test")
    await kitchen.local_agents.register("worker")
    await living.wait_online("worker@b.test")
    key = await living.ask("worker@b.test")
    await kitchen.given()
    await kitchen.close()
    living_before = living
    await living.close()
    kitchen = await nodes.reopen(kitchen)
    task = await kitchen.given()
    await kitchen.local_agents.run(task, GOOD)
    living = await nodes.reopen(living_before)
    assert (await living.answered()).answer == GOOD
    assert (await living.task(key)).state is State.DONE
    assert living.requester.answered.empty()
    await kitchen.wait_joined("a.test")
    entries = await kitchen.node.rooms.messages("!agent-broadcast:b.test")
    told = [event for event in entries.events if event.type == "io.cis.agent.registered"]
    assert len(told) == 1


async def test_a_repeated_request_is_one_task(nodes: CisNodes) -> None:
    """A known request id gets the stored answer without a second run; with other content it is refused."""
    living, kitchen = await nodes.start_peers("a.test", "b.test")
    await kitchen.local_agents.register("worker")
    await living.wait_online("worker@b.test")
    key = await living.ask("worker@b.test")
    await kitchen.local_agents.run(await kitchen.given(), GOOD)
    assert (await living.answered()).answer == GOOD
    room_id, user = "!agent-federation-default:b.test", "@coordinator:a.test"
    page = await living.node.rooms.messages(room_id)
    [asked] = [event for event in page.events if event.type == "io.cis.agent.task.request"]
    await living.node.rooms.send(room_id, user, asked.type, asked.content)
    await kitchen.observer.until(
        lambda observer: [a.verdict for a in observer.records if a.type == asked.type] == [Verdict.TAKEN, Verdict.TAKEN]
    )
    changed = {**asked.content, "task": {**asked.content["task"], "prompt": "something else"}}
    await living.node.rooms.send(room_id, user, asked.type, changed)
    await living.observer.until(lambda observer: len(observer.drops) == 2)
    assert {dropped.message for dropped in living.observer.drops} == {"result"}
    assert kitchen.local_agents.delivered.empty()
    assert (await living.task(key)).answer == GOOD


async def test_a_node_that_does_not_federate_keeps_to_itself(nodes: CisNodes) -> None:
    """Its rooms are closed, it joins no others, and its own agents still run its tasks."""
    alone, other = await nodes.start_with(
        replace(QUICK, node_id="a.test", peers=peers_of("b.test"), federate=False),
        replace(QUICK, node_id="b.test", peers=peers_of("a.test")),
    )
    alone.local_agents.automatic_answer = GOOD
    await alone.local_agents.register("worker")
    await alone.ask("worker@a.test")
    assert (await alone.answered()).answer == GOOD
    await alone.routes.update([registered("worker@b.test", sent_at=now_ms())])
    await alone.ask("worker@b.test", "two")
    refused = (await alone.answered()).answer
    assert refused is not None
    assert refused.error_code is ErrorCode.NODE_UNREACHABLE
    with pytest.raises(MatrixError):
        await other.node.rooms.join("!agent-broadcast:a.test", other.settings.node_user, via=["a.test"])
    assert all(room.endswith(":a.test") for room in await alone.node.rooms.joined_rooms("@palaver:a.test"))


async def test_a_long_prompt_and_a_long_answer_arrive(nodes: CisNodes) -> None:
    """The agent gets the full prompt; the answer is shortened, with a reference to the full text."""
    living, kitchen = await nodes.start_peers("a.test", "b.test")
    await kitchen.local_agents.register("worker")
    await living.wait_online("worker@b.test")
    prompt = "please " * 20_000
    await living.ask("worker@b.test", prompt=prompt)
    task = await kitchen.given()
    assert task.request.prompt == prompt
    assert task.request.metadata == {}
    await kitchen.local_agents.run(task, Answer(True, "x" * 200_000, 0))
    answer = (await living.answered()).answer
    assert answer is not None
    assert len(answer.output) < 10_000
    stored = answer.metadata["io.palaver.media"]["output"]
    assert stored["size"] == 200_000
    assert stored["url"].startswith("mxc://b.test/")
