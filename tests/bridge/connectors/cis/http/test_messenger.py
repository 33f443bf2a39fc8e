"""Events sent to published nodes."""

import asyncio
from dataclasses import replace

import orjson
from nacl.signing import SigningKey

from bridge.agents.agent import AgentStatus
from bridge.agents.updates import StatusUpdate
from bridge.connectors.cis.protocol.envelope import Envelope
from bridge.connectors.cis.protocol.envelope import read as read_envelope
from bridge.connectors.cis.protocol.published import SignatureCheck, check_signature
from bridge.peers.peer import Peer, PeerAccess, PeerProfile
from bridge.tasks.errors import ErrorCode
from bridge.tasks.task import State
from federation.matrix.networks import LOOPBACK
from tests.bridge.connectors.cis.cis_nodes import QUICK, TIMEOUT, CisNodes
from tests.bridge.connectors.cis.http.conftest import Both
from tests.bridge.connectors.cis.published_node import PublishedNode, published_node
from tests.federation.nodes import now_ms
from tests.support.agents import address


async def test_local_agents_are_announced_in_single_events(both: Both) -> None:
    """Registration with a runtime that the node can decode, status and unregistration; nested and signed."""
    await both.ours.local_agents.register("worker", runtime="palaver-special")
    event = await both.theirs.next("registered")
    payload = event["content"]["payload"]
    assert payload["runtime_type"] == "claude"
    assert payload["capabilities"] == ["coding", "runtime:palaver-special"]
    assert (event["room_id"], event["sender"]) == ("!agent-broadcast:new.local", "@worker:new.local")
    read = read_envelope(orjson.dumps(event))
    assert isinstance(read, Envelope)
    key = SigningKey(b"new.local".ljust(32, b".")).verify_key
    us = Peer("new.local", PeerProfile.CIS_1_1, public_key=bytes(key))
    assert check_signature(read, us) is SignatureCheck.VALID
    agent = address("worker@new.local")
    await both.ours.routes.update([StatusUpdate(agent, AgentStatus.BUSY, "t", now_ms())])
    assert (await both.theirs.next("status_update"))["content"]["payload"]["current_task"] == "t"
    await both.ours.local_agents.unregister("worker", "maintenance")
    assert (await both.theirs.next("unregistered"))["content"]["payload"]["reason"] == "maintenance"


async def test_the_events_of_a_broadcast_share_an_id(nodes: CisNodes, theirs: PublishedNode) -> None:
    """Except heartbeats, which get a new id for each node. A node that may not use the agent's namespace gets
    none."""
    async with published_node("other.local") as other, published_node("third.local") as third:
        every = [theirs, other, third]
        peers = {
            one.name: PeerAccess(
                Peer(
                    one.name,
                    PeerProfile.CIS_1_1,
                    namespaces=frozenset({"default"} if one is third else {"default", "alpha"}),
                ),
                one.url,
                LOOPBACK,
            )
            for one in every
        }
        settings = replace(QUICK, node_id="new.local", peers=peers, namespaces=("default", "alpha"))
        [ours] = await nodes.start_with(settings)
        await ours.local_agents.register("secret", namespaces=("alpha",))
        told = [await one.next("registered") for one in (theirs, other)]
        assert told[0]["event_id"] == told[1]["event_id"]
        await ours.local_agents.register("open")
        beats = [await one.next("heartbeat") for one in every]
        assert len({event["event_id"] for event in beats}) == 3
        assert beats[2]["content"]["payload"]["agent_id"] == "open"


async def test_a_registration_is_answered_once_with_all_local_agents(both: Both) -> None:
    """ "once per peer when it first appears or was offline, at most once a minute, so that the exchange ends
    after one round"."""
    await both.ours.local_agents.register("w1", "w2")
    for _ in range(2):
        await both.theirs.next("registered")
    both.theirs.name = "old.local"
    for number in range(3):
        assert (await both.send(both.theirs.registered(f"old-{number}")))[0] == 200
    listed = [(await both.theirs.next("registered"))["content"]["payload"]["agent_id"] for _ in range(2)]
    assert sorted(listed) == ["w1", "w2"]
    # After three more heartbeats there is still no other list.
    kinds = []
    async with asyncio.timeout(TIMEOUT):
        while kinds.count("io.cis.agent.heartbeat") < 6:
            kinds.append((await both.theirs.taken.get())["type"])
    assert set(kinds) == {"io.cis.agent.heartbeat"}


async def test_heartbeats_are_not_queued(both: Both) -> None:
    """A node that was offline does not receive the heartbeats of that time."""
    waiting = "SELECT count(*) FROM cis_outgoing WHERE NOT is_sent"
    await both.ours.local_agents.register("worker")
    await both.theirs.next("registered")
    async with both.ours.node.database.connection() as connection, asyncio.timeout(TIMEOUT):
        while await connection.fetchval(waiting):
            await asyncio.sleep(0.01)
        both.theirs.answers = [(500, {})] * 3
        await both.theirs.next("heartbeat")
        while both.theirs.answers:
            await asyncio.sleep(0.01)
        await both.theirs.next("heartbeat")
        assert await connection.fetchval(waiting) == 0


async def test_a_refused_task_fails_at_once(both: Both) -> None:
    """With NODE_UNREACHABLE and the peer's error; if the node does not answer, the task ends by its
    deadline."""
    await both.send(both.theirs.registered())
    await both.ours.wait_online("old-1@old.local")
    both.theirs.answers = [(403, {"accepted": False, "error": "closed today"})]
    await both.ours.ask("old-1@old.local", "one")
    refused = await both.ours.answered()
    assert refused.answer is not None
    assert refused.answer.error_code is ErrorCode.NODE_UNREACHABLE
    assert "closed today" in refused.answer.output
    await both.ours.ask("old-1@old.local", "two", timeout_ms=1_500)
    request = await both.theirs.next("task.request")
    assert request["content"]["payload"]["timeout_secs"] == 2
    late = await both.ours.answered()
    assert late.state is State.TIMED_OUT
    cancel = (await both.theirs.next("message"))["content"]["payload"]
    assert (cancel["message_type"], cancel["payload"]["request_id"]) == ("cancel", "two")


async def test_agents_of_a_silent_node_time_out_and_the_node_is_notified(
    nodes: CisNodes, theirs: PublishedNode
) -> None:
    """Its agents time out one by one, because each sends its own heartbeats."""
    nodes.agent_timeout_ms = 1_200
    peer = Peer("old.local", PeerProfile.CIS_1_1)
    peers = {"old.local": PeerAccess(peer, theirs.url, LOOPBACK)}
    [ours] = await nodes.start_with(replace(QUICK, node_id="new.local", peers=peers))
    both = Both(ours, theirs, nodes)
    await both.send(theirs.registered(timestamp="2026-02-08T10:36:00Z"))
    gone = await ours.wait_offline("old-1@old.local")
    assert gone.gone_reason == "timeout"
    told = (await theirs.next("unregistered"))["content"]["payload"]
    assert (told["agent_id"], told["node_id"], told["reason"]) == ("old-1", "old.local", "timeout")
