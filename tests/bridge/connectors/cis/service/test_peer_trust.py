"""Peers that are added, removed and trusted or not, while the nodes run."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from bridge.agents.routing import Remote, Unknown
from bridge.connectors.cis.event_record import Verdict
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode
from bridge.tasks.task import State
from federation.peers.audit import Direction
from storage.federation.audit import AuditRow, AuditSearch
from tests.bridge.connectors.cis.cis_nodes import TIMEOUT, CisNode
from tests.bridge.connectors.cis.peered_nodes import PeeredNodes, peered_nodes
from tests.bridge.connectors.cis.published_node import published_node
from tests.support.loopback_server import Certificates
from tests.support.postgres import Server

DONE = Answer(True, "done", 0)


@pytest.fixture
async def closed(postgres_server: Server, migrated_template: str, tmp_path: Path) -> AsyncIterator[PeeredNodes]:
    """Nodes that federate with their peers only, over TLS."""
    async with peered_nodes(postgres_server, migrated_template, Certificates(tmp_path)) as nodes:
        yield nodes


@pytest.fixture
async def open_(postgres_server: Server, migrated_template: str) -> AsyncIterator[PeeredNodes]:
    """Nodes that federate with every server, and exchange agents with their peers only."""
    async with peered_nodes(postgres_server, migrated_template) as nodes:
        yield nodes


async def run_task(asking: CisNode, working: CisNode, request_id: str) -> None:
    """Run a task of one node on the worker of the other, and one in the other direction."""
    key = await asking.ask(f"worker@{working.name}", request_id)
    given = await working.given()
    assert given.request.task_id == f"task-{request_id}"
    await working.local_agents.run(given, DONE)
    assert (await asking.answered()).answer == DONE
    assert (await asking.task(key)).state is State.DONE


async def wait_until_audited(node: CisNode, condition: Callable[[AuditRow], object]) -> None:
    """Wait until the homeserver has written such an audit entry."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            found = await node.node.homeserver.audit.search(AuditSearch(), 1_000)
            if any(map(condition, found)):
                return
            await asyncio.sleep(0.05)


def is_refusal_of(peer: str) -> Callable[[AuditRow], object]:
    """Check that requests from this server are refused before authentication."""
    words = f"does not federate with {peer}"
    return lambda row: row.direction == Direction.IN.value and words in (row.detail or "")


async def check_unreachable(node: CisNode, request_id: str, to: str) -> None:
    """Check that a task for that node fails at once, with an explanation."""
    await node.ask(to, request_id)
    ended = await node.answered()
    assert ended.answer is not None
    assert ended.answer.error_code is ErrorCode.NODE_UNREACHABLE
    assert "does not exchange agents with" in ended.answer.output


async def wait_until_excluded(node: CisNode, servers: list[str]) -> None:
    """Wait until the server ACL of the node's rooms excludes a server."""
    async with asyncio.timeout(TIMEOUT):
        while (await node.node.rooms.server_acl(f"!agent-broadcast:{node.name}") or {}).get("deny") != servers:
            await asyncio.sleep(0.02)


async def test_unknown_nodes_become_peers(closed: PeeredNodes) -> None:
    """As soon as each has added the other, agents are visible and run tasks in both directions. Before that,
    nothing is exchanged; after a restart the peering remains."""
    one, other = await closed.strangers("a.test", "b.test")
    for node in (one, other):
        await node.local_agents.register("worker")
    assert await closed.add("a.test", "b.test")
    await wait_until_audited(other, is_refusal_of("a.test"))
    assert one.table.count("b.test") == other.table.count("a.test") == 0
    assert await closed.add("b.test", "a.test")
    await one.wait_online("worker@b.test")
    await other.wait_online("worker@a.test")
    await run_task(one, other, "r1")
    await run_task(other, one, "r2")
    again = await closed.restart(one)
    await again.local_agents.register("worker")
    await again.wait_online("worker@b.test")
    await again.wait_joined("b.test")
    await run_task(again, other, "r3")
    await other.wait_online("worker@a.test")
    assert not await closed.add("a.test", "b.test")


async def test_a_peer_loses_its_trust(closed: PeeredNodes) -> None:
    """At once nothing is exchanged in either direction: its agents are offline, open tasks end, and its
    requests are refused and audited. When it is trusted again, all is as before."""
    one, other = await closed.strangers("a.test", "b.test")
    await closed.introduce("a.test", "b.test")
    for node in (one, other):
        await node.local_agents.register("worker")
    await one.wait_online("worker@b.test")
    await other.wait_online("worker@a.test")
    theirs = await one.ask("worker@b.test", "theirs")
    await other.given()
    ours = await other.ask("worker@a.test", "ours")
    given = await one.given()

    assert await closed.peers["a.test"].trust("b.test", trusted=False)
    gone = await one.wait_offline("worker@b.test")
    assert gone.gone_reason == "untrusted"
    ended = await one.answered()
    assert (ended.key, ended.answer and ended.answer.error_code) == (theirs, ErrorCode.NODE_UNREACHABLE)
    # Their requested tasks are cancelled.
    assert (await one.local_agents.cancelled.get()).key == given.key == ours
    assert (await one.task(ours)).state is State.CANCELLED
    await check_unreachable(one, "refused", "worker@b.test")
    assert isinstance(one.routes.route("worker@b.test"), Unknown)
    await other.ask("worker@a.test", "unheard")
    await wait_until_audited(one, is_refusal_of("b.test"))
    assert one.local_agents.delivered.empty()

    assert await closed.peers["a.test"].trust("b.test", trusted=True)
    await one.wait_online("worker@b.test")
    assert isinstance(one.routes.route("worker@b.test"), Remote)
    # Tasks requested meanwhile were queued there.
    assert (await one.given()).request.task_id == "task-unheard"
    await run_task(one, other, "again")


async def test_an_open_node_refuses_only_agent_events(open_: PeeredNodes) -> None:
    """The other node can still use the homeserver; its agent events are refused and audited."""
    one, other = await open_.strangers("a.test", "b.test")
    await open_.introduce("a.test", "b.test")
    await other.local_agents.register("worker")
    await one.wait_online("worker@b.test")
    await one.wait_joined("b.test")
    assert await open_.peers["a.test"].trust("b.test", trusted=False)
    await one.wait_offline("worker@b.test")
    await other.local_agents.register("late")
    await one.observer.until(lambda observer: any(act.verdict is Verdict.FORBIDDEN for act in observer.records))
    assert {act.peer for act in one.observer.records if act.verdict is Verdict.FORBIDDEN} == {"b.test"}
    await wait_until_excluded(one, ["b.test"])
    await check_unreachable(one, "r1", "worker@b.test")
    assert await open_.peers["a.test"].trust("b.test", trusted=True)
    await wait_until_excluded(one, [])
    for agent in ("worker@b.test", "late@b.test"):
        await one.wait_online(agent)
    await run_task(one, other, "r2")


async def test_a_removed_peer_is_unknown_again(closed: PeeredNodes) -> None:
    """It can be added again, and its agents are then loaded without a new announcement."""
    one, other = await closed.strangers("a.test", "b.test")
    await closed.introduce("a.test", "b.test")
    await other.local_agents.register("worker")
    await one.wait_online("worker@b.test")
    assert await closed.peers["a.test"].remove("b.test")
    await one.wait_offline("worker@b.test")
    await check_unreachable(one, "r1", "worker@b.test")
    await check_unreachable(one, "r2", "nobody@b.test")
    await wait_until_audited(one, is_refusal_of("b.test"))
    assert not await closed.peers["a.test"].remove("b.test")
    assert await closed.add("a.test", "b.test")
    await one.wait_online("worker@b.test")
    await run_task(one, other, "r3")


async def test_changes_made_while_no_process_ran_are_applied(closed: PeeredNodes) -> None:
    """A process that starts finds a peer untrusted or removed, and takes its agents offline."""
    one, other = await closed.strangers("a.test", "b.test")
    await closed.introduce("a.test", "b.test")
    await other.local_agents.register("worker")
    await one.wait_online("worker@b.test")
    await one.close()
    await closed.peers["a.test"].remove("b.test")
    again = await closed.restart(one)
    await again.wait_offline("worker@b.test")
    await check_unreachable(again, "r1", "worker@b.test")


async def test_the_trust_of_a_configured_peer_can_be_overridden(closed: PeeredNodes) -> None:
    """By a command, also after a restart; after the override is removed, the configuration applies again."""
    closed.in_file["b.test"] = [{"node_id": "a.test", "trusted": False}]
    one, other = await closed.strangers("a.test", "b.test")
    await closed.add("a.test", "b.test")
    await one.local_agents.register("worker")
    await wait_until_audited(other, is_refusal_of("a.test"))
    # It is found by its name, or it joins by itself.
    assert await closed.peers["b.test"].trust("a.test", trusted=True)
    assert "a.test" in closed.peers["b.test"].servers
    again = await closed.restart(other)
    assert "a.test" in closed.peers["b.test"].servers
    assert again.settings.access("a.test") is not None
    assert await closed.peers["b.test"].remove("a.test")
    assert again.settings.access("a.test") is None


async def test_a_former_peer_leaves_invite_only_rooms(open_: PeeredNodes) -> None:
    """If this node still federates with it, it is kicked; it is invited again when it is a peer again."""
    one, other = await open_.strangers("a.test", "b.test", join_rule="invite")
    await open_.introduce("a.test", "b.test")
    await one.local_agents.register("worker")
    await other.wait_online("worker@a.test")
    room, user = "!agent-broadcast:a.test", "@palaver:b.test"
    await one.node.until_member(room, user, "join")
    await open_.peers["a.test"].remove("b.test")
    await one.node.until_member(room, user, "leave")
    await open_.add("a.test", "b.test")
    await one.node.until_member(room, user, "join")
    await one.local_agents.register("late")
    await other.wait_online("late@a.test")


async def test_a_published_node_is_added_and_removed(open_: PeeredNodes) -> None:
    """It receives the local agents as soon as it is a peer. Untrusted, it is refused by name; removed, it is
    unknown."""
    async with published_node("old.local") as theirs:
        [ours] = await open_.strangers("new.local")
        await ours.local_agents.register("worker")
        url = f"http://{open_._address_of('new.local')}"
        peers = open_.peers["new.local"]
        assert (await theirs.send(url, theirs.registered()))[0] == 403
        old = {"profile": "cis-1.1", "url": theirs.url, "networks": ["127.0.0.0/8", "::1/128"]}
        await peers.add(open_.known_as("old.local", **old))
        assert (await theirs.next("registered"))["content"]["payload"]["agent_id"] == "worker"
        assert (await theirs.send(url, theirs.registered()))[0] == 200
        await ours.wait_online("old-1@old.local")
        await ours.ask("old-1@old.local", "r1")
        await theirs.next("task.request")

        await peers.trust("old.local", trusted=False)
        assert (await ours.answered()).answer.error_code is ErrorCode.NODE_UNREACHABLE  # type: ignore[union-attr] # it has ended
        status, answer = await theirs.send(url, theirs.registered("old-2"))
        assert (status, answer["error"]) == (403, "This node does not trust the peer.")
        await check_unreachable(ours, "r2", "old-1@old.local")
        await peers.remove("old.local")
        status, answer = await theirs.send(url, theirs.registered("old-2"))
        assert (status, answer["error"]) == (403, "This server is not configured as a peer of this node.")
        await peers.add(open_.known_as("old.local", **old))
        assert (await theirs.send(url, theirs.registered("old-2")))[0] == 200
        await ours.wait_online("old-2@old.local")
