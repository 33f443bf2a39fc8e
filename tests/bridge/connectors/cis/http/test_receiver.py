"""Single events received over HTTP, and the responses to them."""

import asyncio
from dataclasses import replace
from typing import Any

import orjson
import pytest
from nacl.signing import SigningKey

from bridge.connectors.cis.event_record import Verdict
from bridge.connectors.cis.protocol import event_fields
from bridge.connectors.cis.protocol.envelope import Envelope
from bridge.connectors.cis.protocol.envelope import read as read_envelope
from bridge.connectors.cis.protocol.envelope import write as write_envelope
from bridge.connectors.cis.protocol.published import sign
from bridge.peers.peer import Peer, PeerAccess, PeerProfile
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode
from bridge.tasks.request import TaskKey
from bridge.tasks.task import State
from federation.matrix.networks import LOOPBACK
from federation.peers.limits import Rate
from tests.bridge.connectors.cis.cis_nodes import QUICK, CisNodes
from tests.bridge.connectors.cis.http.conftest import Both
from tests.bridge.connectors.cis.published_node import PublishedNode
from tests.federation.nodes import now_ms

GOOD = Answer(True, "done", 0, {"tokens_used": 7})


async def test_an_agent_of_a_published_node_is_registered(both: Both) -> None:
    """It stays online by its own heartbeats. The response has the shape of published nodes."""
    event = both.theirs.registered()
    assert await both.send(event) == (200, {"accepted": True, "event_id": event["event_id"]})
    agent = await both.ours.wait_online("old-1@old.local")
    assert (agent.runtime, agent.connector) == ("open_code", "cis")
    assert agent.last_seen is not None
    node = both.ours.table.node("old.local")
    assert node is not None
    assert (node.url, node.trusted) == (both.theirs.url, True)


async def test_the_flat_shape_is_read_too(both: Both) -> None:
    """ "both are read from anyone\""""
    event = both.theirs.registered()
    event["content"] = {"event_type": event["type"], **event["content"]["payload"]}
    assert (await both.send(event))[0] == 200
    await both.ours.wait_online("old-1@old.local")


async def test_a_task_of_a_published_node_is_answered(both: Both) -> None:
    """In the nested shape and with the addresses of the request; a repeated request does not run again."""
    await both.ours.local_agents.register("worker")
    event = both.theirs.request("worker@new.local")
    assert (await both.send(event))[0] == 200
    task = await both.ours.given()
    assert task.request.prompt == "do it"
    await both.ours.local_agents.run(task, GOOD, {"percent": 50})
    progress = await both.theirs.next("message")
    assert progress["content"]["payload"]["message_type"] == "progress"
    assert progress["content"]["payload"]["payload"]["percent"] == 50
    answer = await both.theirs.next("task.response")
    payload = answer["content"]["payload"]
    assert payload["result"] == {"success": True, "output": "done", "exit_code": 0, "metadata": {"tokens_used": 7}}
    assert (payload["request_id"], payload["to_agent"]) == ("req-1", "old-1@old.local")
    assert answer["room_id"] == "!agent-federation-default:old.local"
    again = both.theirs.request("worker@new.local")
    assert (await both.send(again))[0] == 200
    assert (await both.theirs.next("task.response"))["content"]["payload"]["result"]["output"] == "done"
    assert both.ours.local_agents.delivered.empty()


async def test_a_proxy_that_names_the_target_as_its_address(both: Both) -> None:
    """ "its own proxy puts the target's address into `sender`, `from_agent` and `to_agent`": it is answered
    with the addresses as they were given."""
    await both.ours.local_agents.register("worker")
    event = both.theirs.request("worker@new.local", from_agent="worker@new.local")
    event["sender"] = "@worker:new.local"
    assert (await both.send(event))[0] == 200
    task = await both.ours.given()
    assert str(task.request.from_address) == "proxy@old.local"
    await both.ours.local_agents.run(task, GOOD)
    payload = (await both.theirs.next("task.response"))["content"]["payload"]
    assert (payload["from_agent"], payload["to_agent"]) == ("worker@new.local", "worker@new.local")


async def test_a_refused_task_is_answered_with_its_code(both: Both) -> None:
    """The HTTP response still accepts the event, because it was valid."""
    assert (await both.send(both.theirs.request("nobody@new.local")))[0] == 200
    result = (await both.theirs.next("task.response"))["content"]["payload"]["result"]
    assert (result["success"], result["exit_code"]) == (False, -1)
    assert result["metadata"]["error_code"] == ErrorCode.AGENT_NOT_FOUND


async def test_heartbeats_keep_an_agent_online(both: Both) -> None:
    """Each has its own event id. A heartbeat of an agent that was never registered adds the agent."""
    for status in ("idle", "busy"):
        beat = both.theirs.event(
            "heartbeat", {"agent_id": "old-2", "node_id": "old.local", "status": status, "timestamp": _now()}
        )
        assert (await both.send(beat))[0] == 200
    await both.ours.until(lambda table: any(a.agent_id == "old-2" and a.status == "busy" for a in table.agents()))
    agent = await both.ours.wait_online("old-2@old.local")
    assert agent.runtime == "unknown"


# ---- the same node, hostile --------------------------------------------------------------------------


def _now() -> str:
    return event_fields.format_timestamp(event_fields.from_milliseconds(now_ms()))


@pytest.mark.parametrize(
    ("changed", "status", "words"),
    [
        ({"sender": "@old-1:elsewhere"}, 403, "sender"),
        ({"origin": "elsewhere"}, 403, "origin"),
        ({"room_id": "!agent-federation-secret:old.local"}, 403, "namespace"),
        ({"room_id": "!elsewhere:old.local"}, 403, "not a room of agents"),
        ({"room_id": "!agent-federation-default:third.local"}, 403, "another node"),
        ({"type": "io.cis.agent.message"}, 400, "INVALID_PAYLOAD: event_type"),
        ({"type": "m.room.message"}, 400, "INVALID_PAYLOAD: type"),
        ({"event_id": "nonsense"}, 400, "INVALID_PAYLOAD: event_id"),
        ({"event_id": None}, 400, "INVALID_PAYLOAD: event_id"),
        ({"content": []}, 400, "INVALID_PAYLOAD: content"),
        ({"origin_server_ts": "now"}, 400, "INVALID_PAYLOAD: origin_server_ts"),
    ],
)
async def test_a_malformed_envelope_is_refused(both: Both, changed: dict[str, Any], status: int, words: str) -> None:
    """With the name of the field, and never with a response that published senders retry."""
    event = {**both.theirs.registered(), **changed}
    got, answer = await both.send(event)
    assert got == status
    assert answer["accepted"] is False
    assert words in answer["error"]
    assert both.ours.table.agents_of("old.local") == {}


@pytest.mark.parametrize(
    ("changed", "status", "words"),
    [
        ({"node_id": "elsewhere"}, 403, "node_id"),
        ({"runtime_type": ""}, 400, "payload.runtime_type"),
        ({"capabilities": "all"}, 400, "payload.capabilities"),
        ({"timestamp": "yesterday"}, 400, "payload.timestamp"),
        ({"agent_id": "a@b"}, 400, "payload.agent_id"),
    ],
)
async def test_malformed_content_is_refused(both: Both, changed: dict[str, Any], status: int, words: str) -> None:
    """With the name of the field, and never with a response that published senders retry."""
    got, answer = await both.send(both.theirs.registered(**changed))
    assert got == status
    assert words in answer["error"]


async def test_content_in_both_shapes_is_refused(both: Both) -> None:
    """It is ambiguous."""
    event = both.theirs.registered()
    event["content"] = {**event["content"]["payload"], **event["content"]}
    got, answer = await both.send(event)
    assert (got, answer["accepted"]) == (400, False)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'"x"', b'{"event_id":"$1"'])
async def test_a_body_that_is_no_event_is_refused(both: Both, body: bytes) -> None:
    """Never with a 500."""
    got, answer = await both.send(body)
    assert (got, answer["accepted"]) == (400, False)


async def test_an_event_above_the_size_limit_is_refused(both: Both) -> None:
    """With 413."""
    event = both.theirs.registered(padding="x" * 3 * 1024 * 1024)
    got, answer = await both.send(event)
    assert (got, answer["accepted"]) == (413, False)


async def test_a_repeated_event_is_ignored_and_other_content_refused(both: Both) -> None:
    """ "the key is (peer, event_id), an id with other content is refused"."""
    event = both.theirs.registered()
    answers = [await both.send(event) for _ in range(3)]
    assert [status for status, _ in answers] == [200, 200, 200]
    verdicts = [act.verdict for act in both.ours.observer.records if act.type == event["type"] and not act.is_outgoing]
    assert verdicts == [Verdict.TAKEN, Verdict.REPEATED, Verdict.REPEATED]
    other = both.theirs.registered(capabilities=["everything"])
    got, answer = await both.send({**other, "event_id": event["event_id"]})
    assert (got, answer["accepted"]) == (403, False)
    assert (await both.ours.wait_online("old-1@old.local")).capabilities == ("task_execution", "messaging")


async def test_concurrent_copies_of_an_event_are_handled_once(both: Both) -> None:
    """The others are recorded as repeated."""
    await both.ours.local_agents.register("worker")
    event = both.theirs.request("worker@new.local")
    answers = await asyncio.gather(*(both.send(event) for _ in range(10)))
    assert {status for status, _ in answers} == {200}
    await both.ours.given()
    assert both.ours.local_agents.delivered.empty()


async def test_the_rate_limit(nodes: CisNodes, theirs: PublishedNode) -> None:
    """429 with a Retry-After header, and without digits that would stop the sender from retrying. No accepted
    event is lost."""
    peers = {"old.local": PeerAccess(Peer("old.local", PeerProfile.CIS_1_1), theirs.url, LOOPBACK)}
    settings = replace(QUICK, node_id="new.local", peers=peers, agent_rate=Rate(0.001, 3))
    [ours] = await nodes.start_with(settings)
    both = Both(ours, theirs, nodes)
    statuses = [(await both.send(theirs.registered("flood")))[0] for _ in range(5)]
    assert statuses == [200, 200, 200, 429, 429]
    assert (await both.send(theirs.registered("other")))[0] == 200
    async with theirs.session.post(f"{both.url}/_cis/v1/event/receive", json=theirs.registered("flood")) as response:
        assert int(response.headers["Retry-After"]) > 0
        text = await response.text()
    assert not any(digits in text for digits in ("400", "401", "403", "404"))


async def test_an_unknown_or_untrusted_sender_is_refused(nodes: CisNodes, theirs: PublishedNode) -> None:
    """403 in the shape of published nodes: for an unknown server, for a peer that is configured as untrusted,
    and for a peer on another network."""
    for access in (
        None,
        PeerAccess(Peer("old.local", PeerProfile.CIS_1_1, trusted=False), theirs.url, LOOPBACK),
        PeerAccess(Peer("old.local", PeerProfile.CIS_1_1), theirs.url, ()),
        PeerAccess(Peer("old.local"), None, LOOPBACK),
    ):
        peers = {} if access is None else {"old.local": access}
        name = f"new{len(nodes._made)}.local"
        [ours] = await nodes.start_with(replace(QUICK, node_id=name, peers=peers))
        got, answer = await Both(ours, theirs, nodes).send(theirs.registered())
        assert (got, answer["accepted"]) == (403, False)
        assert set(answer) == {"accepted", "error", "event_id"}
        assert ours.table.agents_of("old.local") == {}


async def test_the_signature_of_a_peer_with_a_key_is_checked(nodes: CisNodes, theirs: PublishedNode) -> None:
    """A wrong signature is always refused, a missing one if signatures are required."""
    key = SigningKey(b"k" * 32)
    peer = Peer("old.local", PeerProfile.CIS_1_1, public_key=bytes(key.verify_key), require_signature=True)
    peers = {"old.local": PeerAccess(peer, theirs.url, LOOPBACK)}
    [ours] = await nodes.start_with(replace(QUICK, node_id="new.local", peers=peers))
    both = Both(ours, theirs, nodes)
    event = read_envelope(orjson.dumps(theirs.registered()))
    assert isinstance(event, Envelope)
    good = write_envelope(sign(event, "old.local", key))
    bad = write_envelope(sign(event, "old.local", SigningKey(b"x" * 32)))
    assert (await both.send(theirs.registered()))[0] == 403
    assert (await both.send(bad))[0] == 403
    assert (await both.send(good))[0] == 200


async def test_an_unknown_type_is_accepted_and_counted(both: Both) -> None:
    """ "stored …, not acted on, counted\""""
    event = both.theirs.event("dance", {"steps": 3})
    assert (await both.send(event))[0] == 200
    assert both.ours.observer.records[-1].verdict is Verdict.KEPT


async def test_the_sender_retries_while_the_database_is_unavailable(both: Both) -> None:
    """The response is 503, and the same event is accepted later."""
    event = both.theirs.registered()
    async with both.ours.node.database.connection() as other:
        transaction = other.transaction()
        await transaction.start()
        await other.execute("LOCK TABLE cis_received")
        sending = asyncio.create_task(both.send(event))
        ended = (
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        while not await other.fetchval(ended):
            # Within a transaction Postgres would show the same activity again.
            await other.execute("SELECT pg_stat_clear_snapshot()")
            await asyncio.sleep(0.01)
        got, answer = await sending
        await transaction.rollback()
    assert (got, answer["accepted"]) == (503, False)
    assert (await both.send(event))[0] == 200
    await both.ours.wait_online("old-1@old.local")


async def test_a_local_task_is_answered_by_its_target(both: Both) -> None:
    """Matched by request id and peer; an answer from another agent, or a second one, changes nothing."""
    await both.send(both.theirs.registered())
    await both.ours.wait_online("old-1@old.local")
    key = await both.ours.ask("old-1@old.local")
    request = await both.theirs.next("task.request")
    assert request["content"]["payload"]["request_id"] == "req-1"
    result = {"success": True, "output": "ok", "exit_code": 0, "metadata": {}}
    said = {"request_id": "req-1", "to_agent": "coordinator@new.local", "result": result}
    other = both.theirs.event("task.response", {**said, "from_agent": "other@old.local"}, to="new.local")
    assert (await both.send(other))[0] == 200
    assert (await both.ours.task(key)).state is State.ACCEPTED
    right = both.theirs.event("task.response", {**said, "from_agent": "old-1@old.local"}, to="new.local")
    assert (await both.send(right))[0] == 200
    assert (await both.ours.answered()).answer == Answer(True, "ok", 0)
    late = both.theirs.event("task.response", {**said, "from_agent": "old-1@old.local"}, to="new.local")
    assert (await both.send(late))[0] == 200
    assert (await both.ours.task(TaskKey("new.local", "req-1"))).state is State.DONE
