"""Three nodes that exchange agents, with all faults between them except a kill."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from itertools import permutations

import pytest

from bridge.agents.agent import AgentStatus
from bridge.agents.routing_table import Change
from bridge.connectors.cis.protocol.events import Message
from bridge.connectors.cis.service.sender import Sent
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.task import State
from federation.matrix.errors import MatrixError
from tests.bridge.connectors.cis.agents_walk import AgentsWalk
from tests.bridge.connectors.cis.cis_nodes import CisNode
from tests.bridge.connectors.cis.far_agents import TIMEOUT, FarAgents, far_agents, known_to_each_other, until
from tests.federation.nodes import now_ms
from tests.support.agents import address, registered
from tests.support.bad_link import Trouble
from tests.support.postgres import Server

A, B, C = "a.test", "b.test", "c.test"
GOOD = Answer(True, "done", 0, {"tokens_used": 7})
OPEN = {A: ("default",), B: ("default",), C: ("default",)}
PARTLY = {A: ("default", "alpha"), B: ("default", "alpha"), C: ("default", "gamma")}
LOST_MS = 4_000
"""The timeout in tests that wait for agents to go offline."""
WALKS = 1
"""What happens depends on the machine's timing too, so that more find more."""

Three = Callable[..., AbstractAsyncContextManager[FarAgents]]


@pytest.fixture
def three(postgres_server: Server, migrated_template: str) -> Three:
    def make(spaces: dict[str, tuple[str, ...]] = OPEN, seed: object = 0, **how: object) -> object:
        rule = how.pop("join_rule", "public")
        settings = known_to_each_other(spaces, join_rule=rule)
        return far_agents(postgres_server, migrated_template, settings, seed, **how)

    return make  # type: ignore[return-value]


def _answer_by(node: CisNode) -> Answer:
    return Answer(True, f"done by {node.name}", 0)


async def _serve(node: CisNode, count: int) -> None:
    for _ in range(count):
        await node.local_agents.run(await node.given(), _answer_by(node), {"percent": 50})


async def _send(node: CisNode, to: str | None, type_: str) -> None:
    boss = address(f"boss@{node.name}")
    said = await node.connector.send_message(
        boss, None if to is None else address(to), type_, {"from": node.name, "cost": 0.5}
    )
    assert isinstance(said, Sent), said


def _listen(*nodes: CisNode) -> dict[str, "asyncio.Queue[Message]"]:
    heard: dict[str, asyncio.Queue[Message]] = {}
    for one in nodes:
        heard[one.name] = asyncio.Queue()
        one.connector.subscribe(heard[one.name].put_nowait)
    return heard


async def _refused(node: CisNode, to: str, request_id: str) -> Answer:
    await node.ask(to, request_id)
    answer = (await node.answered()).answer
    assert answer is not None
    assert not answer.success, answer
    return answer


def _status(node: CisNode, text: str) -> tuple[AgentStatus, str | None] | None:
    agent = node.table.agent(address(text))
    return None if agent is None else (agent.status, agent.current_task)


async def test_agents_are_discovered_and_run_tasks_in_all_directions(three: Three) -> None:
    """In any order of starting, with their descriptions; many tasks at once, with progress and answers."""
    async with three() as far:
        await far.stop(C)
        a, b, _ = far.all
        await a.local_agents.register("early", runtime="aider", capabilities=("coding", "review"))
        await b.local_agents.register("early", "left")
        await a.wait_online("early@b.test")
        await b.local_agents.unregister("left", "maintenance")
        await far.start_again(C)
        a, b, c = far.all
        await c.local_agents.register("late")
        for one, other in permutations((a, b, c), 2):
            found = await one.wait_online(f"{'late' if other is c else 'early'}@{other.name}")
            is_first = other is a
            assert found.runtime == ("aider" if is_first else "claude")
            assert found.capabilities == (("coding", "review") if is_first else ("coding",))
        for one in (a, c):
            left = one.table.agent(address("left@b.test"))
            assert left is None or not left.is_online
        working = [asyncio.create_task(_serve(one, 6)) for one in far.all]
        for one, other in permutations(far.all, 2):
            for number in range(3):
                to = f"{'late' if other is c else 'early'}@{other.name}"
                await one.ask(to, f"{one.name} {other.name} {number}")
        await asyncio.gather(*working)
        for one in far.all:
            answers = [(await one.answered()).answer for _ in range(6)]
            others = [other for other in far.all if other is not one]
            assert sorted(answer.output for answer in answers if answer is not None) == sorted(
                3 * [f"done by {other.name}" for other in others]
            )
            assert [await one.requester.heard.get() for _ in range(6)] == 6 * [{"percent": 50}]
            assert one.requester.answered.empty()
            assert one.observer.problems == []


async def test_a_broadcast_is_received_once_by_each_node(three: Three) -> None:
    """And a message by its target only, even if it arrives more than once."""
    async with three() as far:
        for one in far.all:
            await one.local_agents.register("boss", "worker")
        for one, other in permutations(far.all, 2):
            await one.wait_online(f"worker@{other.name}")
        await far.in_touch()
        heard = _listen(*far.all)
        for link in far.links.values():
            link.duplicate()
        for one, other in permutations(far.all, 2):
            await _send(one, f"worker@{other.name}", "to one")
        for one in far.all:
            await _send(one, None, "to all")
        for link in far.links.values():
            link.heal()
        # A second one of each type, which arrives after all copies of the first.
        for one in far.all:
            for other in far.names:
                if other != one.name:
                    await _send(one, f"worker@{other}", "last to one")
            await _send(one, None, "last to all")
        for one in far.all:
            got = []
            async with asyncio.timeout(TIMEOUT):
                while len([message for message in got if message[1].startswith("last")]) < 4:
                    message = await heard[one.name].get()
                    assert message.payload == {"from": str(message.from_agent.node_id), "cost": 0.5}
                    got.append((message.from_agent.node_id, message.message_type))
            others = [name for name in far.names if name != one.name]
            kinds = ("to one", "to all", "last to one", "last to all")
            assert sorted(got) == sorted((name, kind) for name in others for kind in kinds)
        befell = sum(link.befell.total() for link in far.links.values())
        assert befell > 0


@pytest.mark.parametrize("join_rule", ["public", "invite"])
async def test_agents_of_a_foreign_namespace_are_invisible_and_unreachable(three: Three, join_rule: str) -> None:
    """In both directions, also if the address is known; the refusal names the reason. The node cannot join
    the namespace's room either."""
    async with three(PARTLY, join_rule=join_rule) as far:
        a, b, c = far.all
        for one in far.all:
            one.local_agents.automatic_answer = _answer_by(one)
        await a.local_agents.register("hidden", namespaces=("alpha",))
        await a.local_agents.register("both", namespaces=("default", "alpha"))
        await c.local_agents.register("hidden", namespaces=("gamma",))
        await c.local_agents.register("open")
        await b.local_agents.register("open")
        assert (await b.wait_online("hidden@a.test")).is_online
        for one, seen in ((b, "both@a.test"), (c, "both@a.test"), (a, "open@c.test"), (b, "open@c.test")):
            await one.wait_online(seen)
        await far.in_touch()
        # Who shares it does.
        await b.ask("hidden@a.test", "shared")
        assert (await b.answered()).answer == _answer_by(a)
        for one, to in ((c, "hidden@a.test"), (a, "hidden@c.test"), (b, "hidden@c.test")):
            assert one.table.agent(address(to)) is None
            refused = await _refused(one, to, "unknown")
            assert refused.error_code is ErrorCode.AGENT_NOT_FOUND
            assert to.partition("@")[2] in refused.output
            # The address is no secret; a node that knows it sends the request in a namespace that it may use.
            await one.routes.update([registered(to, sent_at=now_ms())])
            refused = await _refused(one, to, "known")
            assert refused.error_code is ErrorCode.AGENT_NOT_FOUND
            assert f"There is no agent {to} in the namespace default." in refused.output
        alpha = "!agent-federation-alpha:a.test"
        assert await c.node.rooms.membership(alpha, c.settings.node_user) is None
        with pytest.raises(MatrixError):
            await c.node.rooms.join(alpha, "@coordinator:c.test", via=[A])
        given = [task.request.to_address for task in _all(a.local_agents.delivered)]
        assert [str(one) for one in given] == ["hidden@a.test"]
        assert _all(c.local_agents.delivered) == []


def _all(queue: "asyncio.Queue[object]") -> list:  # type: ignore[type-arg] # whatever is in it
    return [queue.get_nowait() for _ in range(queue.qsize())]


async def test_an_agent_changes_its_namespace(three: Three) -> None:
    """Nodes that only share the old namespace lose it; the others can still send it tasks."""
    async with three(PARTLY) as far:
        a, b, c = far.all
        a.local_agents.automatic_answer = GOOD
        await a.local_agents.register("worker")
        for one in (b, c):
            await one.wait_online("worker@a.test")
            await one.ask("worker@a.test", "one")
            assert (await one.answered()).answer == GOOD
        await a.local_agents.unregister("worker")
        for one in (b, c):
            await one.wait_offline("worker@a.test")
        await a.local_agents.register("worker", namespaces=("alpha",))
        await b.wait_online("worker@a.test")
        await b.ask("worker@a.test", "two")
        assert (await b.answered()).answer == GOOD
        refused = await _refused(c, "worker@a.test", "two")
        assert refused.error_code is ErrorCode.AGENT_NOT_FOUND


async def test_the_running_tasks_of_an_agent_that_goes_offline_fail(three: Three) -> None:
    """As interrupted, on every requester's node; other tasks are not affected."""
    async with three() as far:
        a, b, c = far.all
        await b.local_agents.register("weak", "strong")
        for one in (a, c):
            for name in ("weak", "strong"):
                await one.wait_online(f"{name}@b.test")
                await one.ask(f"{name}@b.test", f"{name} {one.name}")
        given = [await b.given() for _ in range(4)]
        for task in given:
            assert await b.core.tasks.begin(task.key) is not None
        await b.local_agents.unregister("weak", "out of memory")
        for one in (a, c):
            failed = (await one.answered()).answer
            assert failed is not None
            assert (failed.error_code, failed.metadata["interrupted"]) == (ErrorCode.NODE_UNREACHABLE, True)
            assert "out of memory" in failed.output
            assert (await one.wait_offline("weak@b.test")).gone_reason == "out of memory"
        for task in given:
            if task.request.to_address.agent_id == "strong":
                await b.core.tasks.finish(task.key, GOOD)
        for one in (a, c):
            assert (await one.answered()).answer == GOOD
            assert one.requester.answered.empty()


async def test_a_short_network_partition_loses_nothing(three: Three) -> None:
    """The node stays online for the others. Requests and answers arrive after the partition."""
    async with three() as far:
        a, b, c = far.all
        for one in far.all:
            await one.local_agents.register("worker")
        for one, other in permutations(far.all, 2):
            await one.wait_online(f"worker@{other.name}")
        # The requester has joined the other node's room before: it cannot join during the partition.
        working = [asyncio.create_task(_serve(one, 2)) for one in far.all]
        for one, other in permutations(far.all, 2):
            await one.ask(f"worker@{other.name}", f"before {one.name} {other.name}")
        await asyncio.gather(*working)
        for one in far.all:
            for _ in range(2):
                assert (await one.answered()).state is State.DONE
        await a.ask("worker@b.test", "under way")
        under_way = await b.given()
        for link in far.between([B], [A, C]):
            link.cut()
        await b.local_agents.run(under_way, GOOD)
        asked = [(a, B), (b, A), (b, C), (c, B)]
        for one, name in asked:
            await one.ask(f"worker@{name}", f"meanwhile {one.name} {name}")
        await b.local_agents.register("newcomer")
        await c.local_agents.unregister("worker", "enough")
        heard = _listen(a, c)
        await _send(b, None, "I am alone")
        # The other two are not.
        await a.wait_offline("worker@c.test")
        assert b.table.agent(address("worker@c.test")) is not None
        gone: list[Change] = []
        a.routes.subscribe(lambda changes: gone.extend(_offline_changes(changes)))
        for link in far.links.values():
            link.heal()
        async with far.leaping():
            for one in (a, c):
                await one.wait_online("newcomer@b.test")
                async with asyncio.timeout(TIMEOUT):
                    assert (await heard[one.name].get()).message_type == "I am alone"
            await b.wait_offline("worker@c.test")
            await asyncio.gather(_serve(a, 1), _serve(b, 2))
            answers = {task.key.request_id: task.answer for task in [await a.answered() for _ in range(2)]}
            assert answers == {"under way": GOOD, f"meanwhile {A} {B}": _answer_by(b)}
            assert (await c.answered()).answer == _answer_by(b)
            answers = {task.key.request_id: task.answer for task in [await b.answered() for _ in range(2)]}
            assert answers[f"meanwhile {B} {A}"] == _answer_by(a)
            left = answers[f"meanwhile {B} {C}"]
            assert left is not None
            assert left.error_code is ErrorCode.AGENT_NOT_FOUND
        # The table has a change before its listeners are called, so that of this agent may still be reported.
        assert [change for change in gone if change.before.address != address("worker@c.test")] == []
        for one in far.all:
            assert one.requester.answered.empty()


def _offline_changes(changes: Sequence[Change]) -> list[Change]:
    return [one for one in changes if one.after is not None and not one.after.is_online]


async def test_a_long_network_partition(three: Three) -> None:
    """After the timeout, the agents of the other side are offline on both sides with the reason `timeout`;
    queued and new tasks fail with NODE_UNREACHABLE and an explanation. When the network is healed, all
    recovers without a restart: new agents are online, unregistered ones are not, and messages arrive."""
    async with three(PARTLY, agent_timeout_ms=LOST_MS) as far:
        a, b, c = far.all
        for one in far.all:
            await one.local_agents.register("worker", "leaver")
        await b.local_agents.register("secret", "secret leaver", namespaces=("alpha",))
        for one, other in permutations(far.all, 2):
            await one.wait_online(f"worker@{other.name}")
            await one.wait_online(f"leaver@{other.name}")
        for name in ("secret", "secret leaver"):
            await a.wait_online(f"{name}@b.test")
        await far.in_touch()
        key = await a.ask("worker@b.test", "before")
        await b.given()
        links = far.between([B], [A, C])
        for link in links:
            link.cut()
        for name in ("leaver", "secret leaver"):
            await b.local_agents.unregister(name)
        await b.local_agents.register("newcomer")
        heard = _listen(a)
        await _send(b, None, "I am alone")
        for one, name in ((a, B), (c, B), (b, A), (b, C)):
            assert (await one.wait_offline(f"worker@{name}")).gone_reason == "timeout"
        failed = (await a.answered()).answer
        assert failed is not None
        for answer in (failed, await _refused(c, "worker@b.test", "c"), await _refused(b, "worker@a.test", "b")):
            assert answer.error_code is ErrorCode.NODE_UNREACHABLE
            assert "is offline" in answer.output
        assert await a.wait_online("worker@c.test")
        for link in links:
            link.heal()
        async with far.leaping():
            for one, other in permutations(far.all, 2):
                await one.wait_online(f"worker@{other.name}")
            for one in (a, c):
                await one.wait_online("newcomer@b.test")
            await a.wait_online("secret@b.test")
            async with asyncio.timeout(TIMEOUT):
                assert (await heard[A].get()).message_type == "I am alone"
            for name in ("leaver", "secret leaver"):
                await a.wait_offline(f"{name}@b.test")
            # The queued request arrives together with its cancellation.
            await b.until_state(key, State.CANCELLED)
            for one in far.all:
                one.local_agents.automatic_answer = _answer_by(one)
            for one, other in permutations(far.all, 2):
                await one.ask(f"worker@{other.name}", f"again {one.name} {other.name}")
                assert (await one.answered()).answer == _answer_by(other)
            await a.ask("secret@b.test", "again secret")
            assert (await a.answered()).answer == _answer_by(b)
        assert (await a.task(key)).answer == failed


async def test_repeated_events_are_handled_once(three: Three) -> None:
    """Requests, progress, answers and agent events: repeated in sequence, concurrently, or after later ones.
    The same holds if responses are lost, so that the sender has to retry."""
    async with three() as far:
        for one in far.all:
            await one.local_agents.register("worker")
        for one, other in permutations(far.all, 2):
            await one.wait_online(f"worker@{other.name}")
        await far.in_touch()
        walk = AgentsWalk(far)
        async with far.leaping(), walk.working():
            for how in ("duplicate", "lose"):
                for link in far.links.values():
                    if how == "duplicate":
                        link.duplicate()
                    else:
                        link.lose_answers(0.5)
                for one, other in permutations(far.all, 2):
                    for number in range(3):
                        await walk.ask(one.name, f"worker@{other.name}", f"{how} {other.name} {number}")
                await walk.all_answered()
            await far.all[0].local_agents.unregister("worker")
            for one in far.all[1:]:
                await one.wait_offline("worker@a.test")
        befell = sum((link.befell for link in far.links.values()), start=far.links[A, B].befell.__class__())
        assert all(befell[trouble] for trouble in (Trouble.TWICE, Trouble.AT_ONCE, Trouble.AGAIN)), befell
        assert befell[Trouble.LOST_ANSWER] + befell[Trouble.HALF_ANSWER] > 0
        assert len(walk.asked) == 36
        await walk.check_tasks()
        assert {walk.begun[key] for key in walk.asked} == {1}
        assert {answer.output for key in walk.asked for answer in walk.answers[key]} == {"done"}


async def test_clocks_may_be_a_minute_fast_and_a_minute_slow(three: Three) -> None:
    """Agents are discovered, run tasks, update their status and go offline; heartbeats count. A task with
    five seconds neither ends at once where the clock is ahead, nor outlives its deadline where the clock is
    behind."""
    skew = {A: 60_000, B: -60_000}
    async with three(skew=skew, agent_timeout_ms=2 * LOST_MS) as far:
        lost: list[Change] = []
        for one in far.all:
            await one.local_agents.register("worker", "idler")
            one.local_agents.settings_of["worker"] = AgentSettings(1, 10)
            one.routes.subscribe(lambda changes: lost.extend(_offline_changes(changes)))
        for one, other in permutations(far.all, 2):
            await one.wait_online(f"worker@{other.name}")
            await one.wait_online(f"idler@{other.name}")
        begun_at = {one.name: one.routes._now_ms() for one in far.all}
        pairs = list(permutations(far.all, 2))
        keys = {
            (one.name, other.name): await one.ask(f"idler@{other.name}", f"{one.name} {other.name}", timeout_ms=5_000)
            for one, other in pairs
        }
        for one in far.all:
            for _ in range(2):
                task = await one.given()
                # What is left of five seconds, rounded up, counts from here.
                assert 1_000 <= task.deadline - task.received_at <= 5_000
                assert await one.core.tasks.begin(task.key) is not None
        # Meanwhile something else is done.
        await far.cis[A].ask("worker@b.test", "status")
        task = await far.cis[B].given()
        assert await far.cis[B].core.tasks.begin(task.key) is not None
        for one in (far.cis[A], far.cis[C]):
            await one.until(_is(one, "worker@b.test", (AgentStatus.BUSY, "task-status")))
        await far.cis[B].core.tasks.finish(task.key, GOOD)
        assert (await far.cis[A].answered()).answer == GOOD
        for one in (far.cis[A], far.cis[C]):
            await one.until(_is(one, "worker@b.test", (AgentStatus.IDLE, None)))
        for one, other in pairs:
            ended = await one.answered()
            assert ended.state is State.TIMED_OUT
            assert ended.finished_at is not None
            assert ended.finished_at - ended.received_at >= 5_000
            key = keys[one.name, other.name]
            await one.until_state(key, State.TIMED_OUT)
            there = await _wait_until_ended(other, key)
            assert there.state in (State.TIMED_OUT, State.CANCELLED)
        # All nodes are connected for longer than the timeout.
        for one, other in pairs:
            await until(
                partial(_sent_heartbeat_after, one, other.name, begun_at[one.name] + 2 * LOST_MS),
                partial(one.table.node, other.name),
            )
        assert lost == []
        await far.cis[A].local_agents.unregister("worker")
        await far.cis[B].local_agents.unregister("worker")
        for one in far.all:
            for name in {A, B} - {one.name}:
                await one.wait_offline(f"worker@{name}")
        await far.cis[B].local_agents.register("worker")
        await far.cis[A].wait_online("worker@b.test")


def _is(node: CisNode, text: str, status: tuple[AgentStatus, str | None]) -> Callable[[object], bool]:
    return lambda table: _status(node, text) == status


async def _sent_heartbeat_after(node: CisNode, node_id: str, at_ms: int) -> bool:
    peer = node.table.node(node_id)
    return peer is not None and (peer.last_heartbeat or 0) > at_ms and peer.silent_since is None


async def _wait_until_ended(node: CisNode, key: object) -> object:
    async with asyncio.timeout(TIMEOUT):
        while not (task := await node.task(key)).state.is_final:  # type: ignore[arg-type]
            await asyncio.sleep(0.02)
    return task


@pytest.mark.parametrize("seed", range(WALKS))
async def test_all_nodes_agree_after_a_random_walk(three: Three, seed: int) -> None:
    """On the online agents. Each task has one answer at its requester, and was begun at most once."""
    async with three(PARTLY, seed, agent_timeout_ms=LOST_MS) as far:
        await AgentsWalk(far).go(45)
