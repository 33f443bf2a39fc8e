"""Reading agent events and memberships from the stream."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from bridge.connectors.cis.event_record import EventRecord, Verdict
from bridge.connectors.cis.service.own_rooms import OwnRooms
from bridge.connectors.cis.settings import CisSettings
from bridge.peers.peer import Peer, PeerAccess
from bridge.tasks.errors import ErrorCode
from bridge.tasks.request import TaskKey
from federation.events.room_event import RoomEvent, StreamedEvent
from federation.matrix.errors import MatrixError
from tests.bridge.connectors.cis.cis_nodes import QUICK, CisNode, CisNodes, RecordingObserver, peers_of
from tests.federation.nodes import Node

HERE = "kitchen.test"
ROOM, BROADCAST = f"!agent-federation-default:{HERE}", f"!agent-broadcast:{HERE}"
TASK = {"task_id": "t", "prompt": "do it", "context": "", "metadata": {}}
TIME = "2026-02-08T10:30:00.123456789Z"
REQUEST = {
    "event_type": "io.cis.agent.task.request",
    "request_id": "req-1",
    "from_agent": "boss@living.test",
    "to_agent": f"worker@{HERE}",
    "task": TASK,
    "timeout_secs": 60,
    "timestamp": TIME,
}


class ReaderFixture:
    """A node, and a homeserver whose users send what a test needs."""

    def __init__(self, kitchen: CisNode, living: Node) -> None:
        self.kitchen, self.living = kitchen, living

    async def say(
        self, type_: str, content: Mapping[str, Any], localpart: str = "boss", room_id: str = ROOM
    ) -> EventRecord:
        """Send an event, and return what the node records of it."""
        user = f"@{localpart}:{self.living.name}"
        await self.living.rooms.ensure_user(user)
        await self.living.rooms.join(room_id, user, via=[HERE])
        known = len(self.kitchen.observer.records)
        await self.living.rooms.send(room_id, user, type_, content)

        def found() -> list[EventRecord]:
            return [act for act in self.kitchen.observer.records[known:] if not act.is_outgoing and act.type == type_]

        await self.kitchen.observer.until(lambda _: found())
        return found()[0]

    async def answer_in_our_room(self) -> RoomEvent:
        """Return what the node has answered in its peer's room."""
        room_id = "!agent-federation-default:living.test"
        position = 0
        while True:
            for entry in await self.living.graph.stream.reader(position).next():
                position = entry.position
                if entry.event.room_id == room_id and entry.event.type == "io.cis.agent.task.response":
                    event = await self.living.rooms.event(room_id, entry.event.event_id)
                    assert event is not None
                    return event


@pytest.fixture
async def fixture(nodes: CisNodes) -> ReaderFixture:
    settings = replace(QUICK, node_id=HERE, peers=peers_of("living.test"), namespaces=("default", "alpha"))
    [living], [kitchen] = await nodes.start_beside(["living.test"], settings)
    await kitchen.local_agents.register("worker")
    return ReaderFixture(kitchen, living)


async def make_own_room(living: Node) -> None:
    """Create the room as a node would that implements only the specification."""
    await OwnRooms(living.rooms, CisSettings("living.test"), RecordingObserver()).create_all()


@pytest.mark.parametrize("is_nested", [False, True])
async def test_a_request_in_either_shape(fixture: ReaderFixture, is_nested: bool) -> None:
    """Flat as specified, nested as published nodes write it; timestamps with nine digits."""
    content: dict[str, Any] = dict(REQUEST)
    if is_nested:
        kind = content.pop("event_type")
        content = {"event_type": kind, "payload": content}
    act = await fixture.say("io.cis.agent.task.request", content)
    assert (act.verdict, act.peer, act.subject) == (Verdict.TAKEN, "living.test", "req-1")
    task = await fixture.kitchen.given()
    assert task.key == TaskKey("living.test", "req-1")
    assert task.deadline - task.received_at == 60_000


@pytest.mark.parametrize(
    ("type_", "changed", "sender", "verdict"),
    [
        ("io.cis.agent.task.request", {"from_agent": "boss@elsewhere"}, "boss", Verdict.FORBIDDEN),
        ("io.cis.agent.task.request", {}, "mallory", Verdict.FORBIDDEN),
        ("io.cis.agent.task.request", {"event_type": "io.cis.agent.message"}, "boss", Verdict.INVALID),
        ("io.cis.agent.task.request", {"payload": {**REQUEST}}, "boss", Verdict.INVALID),
        ("io.cis.agent.task.request", {"timeout_secs": 0}, "boss", Verdict.INVALID),
        ("io.cis.agent.task.request", {"request_id": ""}, "boss", Verdict.INVALID),
        ("io.cis.agent.heartbeat", {"agent_id": "w", "node_id": HERE, "status": "idle"}, "w", Verdict.FORBIDDEN),
        (
            "io.cis.agent.heartbeat",
            {"agent_id": "w", "node_id": "living.test", "status": "initial"},
            "w",
            Verdict.INVALID,
        ),
        (
            "io.cis.agent.status_update",
            {"agent_id": "w", "node_id": "third.test", "status": "idle"},
            "w",
            Verdict.FORBIDDEN,
        ),
        ("io.cis.agent.unheard_of", {"anything": [1]}, "boss", Verdict.KEPT),
    ],
)
async def test_invalid_events_are_refused(
    fixture: ReaderFixture, type_: str, changed: dict[str, Any], sender: str, verdict: Verdict
) -> None:
    """Events in the name of others, malformed events and unknown types; each is recorded."""
    base = REQUEST if type_ == REQUEST["event_type"] else {"event_type": type_, "timestamp": TIME}
    act = await fixture.say(type_, {**base, **changed}, sender)
    assert act.verdict is verdict
    assert fixture.kitchen.local_agents.delivered.empty()
    assert fixture.kitchen.table.agents_of("third.test") == {}


async def test_events_in_the_wrong_room_are_refused(fixture: ReaderFixture) -> None:
    """In this node's broadcast room, and in the room of a namespace that the peer may not use."""
    act = await fixture.say("io.cis.agent.task.request", REQUEST, room_id=BROADCAST)
    assert act.verdict is Verdict.FORBIDDEN
    with pytest.raises(MatrixError, match="M_FORBIDDEN"):
        await fixture.say("io.cis.agent.task.request", REQUEST, room_id=f"!agent-federation-alpha:{HERE}")
    assert fixture.kitchen.local_agents.delivered.empty()


async def test_a_malformed_request_is_answered_with_the_field_named(fixture: ReaderFixture) -> None:
    """In the requester's room, with its error code."""
    await make_own_room(fixture.living)
    await fixture.say("io.cis.agent.task.request", {**REQUEST, "task": {"task_id": "t"}})
    answer = await fixture.answer_in_our_room()
    assert answer.content["request_id"] == "req-1"
    result = answer.content["result"]
    assert (result["success"], result["exit_code"]) == (False, -1)
    assert result["metadata"] == {"error_code": "INVALID_PAYLOAD", "field": "task.prompt"}
    assert answer.sender == f"@palaver:{HERE}"


async def test_a_request_without_a_local_target_is_answered(fixture: ReaderFixture) -> None:
    """For an agent of a third node or of another namespace: AGENT_NOT_FOUND."""
    await make_own_room(fixture.living)
    await fixture.say("io.cis.agent.task.request", {**REQUEST, "to_agent": "worker@third.test"})
    answer = await fixture.answer_in_our_room()
    assert answer.content["result"]["metadata"]["error_code"] == ErrorCode.AGENT_NOT_FOUND
    assert answer.content["from_agent"] == f"palaver@{HERE}"


async def test_a_request_is_cancelled_by_its_requester(fixture: ReaderFixture) -> None:
    """Also directly after the request."""
    await fixture.say("io.cis.agent.task.request", REQUEST)
    await fixture.kitchen.given()
    cancel = {
        "event_type": "io.cis.agent.message",
        "message_id": "m",
        "from_agent": "boss@living.test",
        "to_agent": f"worker@{HERE}",
        "message_type": "cancel",
        "payload": {"request_id": "req-1", "reason": "too slow"},
        "timestamp": TIME,
    }
    await fixture.say("io.cis.agent.message", cancel)
    stopped = await fixture.kitchen.local_agents.cancelled.get()
    assert stopped.answer is not None
    assert stopped.answer.output == "Cancelled by boss@living.test: too slow"


async def test_an_untrusted_peer_is_refused(nodes: CisNodes) -> None:
    """So is a server that is not configured."""
    refused = {"bad.test": PeerAccess(Peer("bad.test", trusted=False))}
    [strange, bad], [kitchen] = await nodes.start_beside(
        ["living.test", "bad.test"], replace(QUICK, node_id=HERE, peers=refused)
    )
    act = await ReaderFixture(kitchen, strange).say("io.cis.agent.task.request", REQUEST)
    assert (act.verdict, act.detail) == (Verdict.FORBIDDEN, "This server is not configured as a peer of this node.")
    # A peer that is configured as untrusted cannot join.
    with pytest.raises(MatrixError, match="M_FORBIDDEN"):
        await ReaderFixture(kitchen, bad).say("io.cis.agent.task.request", REQUEST)


async def test_only_the_owner_sets_registrations(fixture: ReaderFixture) -> None:
    """Otherwise any member could make others believe that an agent is offline."""
    user = "@boss:living.test"
    await fixture.living.rooms.ensure_user(user)
    await fixture.living.rooms.join(BROADCAST, user, via=[HERE])
    for type_ in ("io.cis.agent.registered", "io.cis.agent.unregistered"):
        with pytest.raises(MatrixError, match="M_FORBIDDEN"):
            await fixture.living.rooms.set_state(BROADCAST, user, type_, {}, "worker")


async def test_an_unexpected_error_does_not_block_later_events(
    fixture: ReaderFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is reported, and the next event is handled."""
    lead = await fixture.kitchen.wait_leader()
    read_effects = lead.reader._effects

    async def fail(entry: StreamedEvent) -> Any:
        if entry.event.content.get("message_id") == "poison":
            raise ZeroDivisionError
        return await read_effects(entry)

    monkeypatch.setattr(lead.reader, "_effects", fail)
    user = "@boss:living.test"
    await fixture.living.rooms.ensure_user(user)
    await fixture.living.rooms.join(ROOM, user, via=[HERE])
    await fixture.living.rooms.send(ROOM, user, "io.cis.agent.message", {"message_id": "poison"})
    await fixture.say("io.cis.agent.task.request", REQUEST)
    await fixture.kitchen.given()
    assert len(fixture.kitchen.observer.problems) == 1


async def test_a_redacted_request_is_not_examined(fixture: ReaderFixture) -> None:
    """Nothing is recorded."""
    incoming = (await fixture.kitchen.wait_leader()).reader
    type_ = "io.cis.agent.task.request"
    event = RoomEvent("$1", ROOM, "@boss:living.test", type_, {}, 1, is_redacted=True)
    assert await incoming._effects(StreamedEvent(1, "timeline", event)) == []
    await fixture.say("io.cis.agent.unheard_of", {"event_type": "io.cis.agent.unheard_of", "timestamp": TIME})
    assert [act for act in fixture.kitchen.observer.records if act.type == type_] == []
