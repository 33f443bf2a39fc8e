"""Delivering tasks to other nodes, and returning answers."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from bridge.agents.address import AgentAddress
from bridge.connectors.cis.protocol.events import Message, TaskRequest, TaskResponse
from bridge.connectors.cis.service.sender import NotSent, OutgoingEvent, Sent
from bridge.connectors.cis.service.tasks import TaskDelivery, TaskReply
from bridge.connectors.cis.settings import CisSettings
from bridge.peers.peer import Peer, PeerAccess
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode
from bridge.tasks.ports import Delivered, Rejected, RetryLater
from bridge.tasks.request import Origin, TaskKey
from bridge.tasks.request import TaskRequest as Request
from bridge.tasks.task import Task
from federation.matrix.errors import PeerError
from storage.connect import ConnectionLost
from tests.bridge.connectors.cis.cis_nodes import TIMEOUT, CisNodes, RecordingObserver
from tests.bridge.connectors.cis.event_builders import COORDINATOR, WORKER
from tests.support.agents import NOW

SETTINGS = CisSettings("living.local", {"kitchen.local": PeerAccess(Peer("kitchen.local"))})
BACK = {"node": "kitchen.local", "namespace": "alpha", "from": str(WORKER), "to": str(COORDINATOR)}
OURS = Task(
    Request(TaskKey("living.local", "req-1"), "t", COORDINATOR, WORKER, "do it", Origin("test")),
    NOW,
    NOW + 60_000,
    elsewhere=True,
    id=7,
)
THEIRS = Task(
    Request(TaskKey("kitchen.local", "req-2"), "t", WORKER, COORDINATOR, "do it", Origin("cis", BACK)),
    NOW,
    NOW + 60_000,
    id=8,
    answer=Answer(True, "ok", 0),
)


@dataclass
class RecordingMessenger:
    outcome: Sent | NotSent = field(default_factory=lambda: Sent("$1"))
    namespace: str | None = "default"
    sent: list[OutgoingEvent] = field(default_factory=list)

    async def send(self, access: PeerAccess, letter: OutgoingEvent) -> Sent | NotSent:
        self.sent.append(letter)
        return self.outcome

    async def namespace_of(self, peer: Peer, agent: AgentAddress) -> str | None:
        return self.namespace


def delivery(messenger: RecordingMessenger, settings: CisSettings = SETTINGS) -> TaskDelivery:
    return TaskDelivery(settings, messenger, now_ms=lambda: NOW)  # type: ignore[arg-type]


def reply(messenger: RecordingMessenger, observer: RecordingObserver) -> TaskReply:
    return TaskReply(SETTINGS, messenger, observer, now_ms=lambda: NOW)  # type: ignore[arg-type]


async def test_a_delivered_task_is_in_a_durable_queue() -> None:
    """Under a key that is the same when it is delivered again, until its deadline."""
    messenger = RecordingMessenger()
    assert await delivery(messenger).deliver(OURS) == Delivered()
    assert await delivery(messenger).deliver(OURS) == Delivered()
    first, second = messenger.sent
    assert first == second
    assert isinstance(first.event, TaskRequest)
    assert (first.sender, first.namespace, first.deadline, first.task) == (
        COORDINATOR,
        "default",
        OURS.deadline,
        OURS.key,
    )


async def test_failures_of_delivery() -> None:
    """Permanent and temporary ones."""
    closed = CisSettings("living.local")
    rejected = await delivery(RecordingMessenger(), closed).deliver(OURS)
    assert isinstance(rejected, Rejected)
    assert rejected.error.code is ErrorCode.NODE_UNREACHABLE
    rejected = await delivery(RecordingMessenger(namespace=None)).deliver(OURS)
    assert isinstance(rejected, Rejected)
    assert rejected.error.code is ErrorCode.AGENT_NOT_FOUND
    rejected = await delivery(RecordingMessenger(NotSent("too large", is_final=True))).deliver(OURS)
    assert isinstance(rejected, Rejected)
    assert rejected.error.code is ErrorCode.INVALID_PAYLOAD
    assert await delivery(RecordingMessenger(NotSent("away"))).deliver(OURS) == RetryLater("away")


async def test_a_cancellation_is_sent_like_the_task() -> None:
    """Under its own key, until some time after the deadline; a temporary failure is retried."""
    messenger = RecordingMessenger()
    assert await delivery(messenger).cancel(OURS)
    [letter] = messenger.sent
    assert isinstance(letter.event, Message)
    assert letter.event.message_type == "cancel"
    assert letter.deadline > OURS.deadline
    assert letter.task is None
    with pytest.raises(PeerError):
        await delivery(RecordingMessenger(NotSent("away"))).cancel(OURS)
    assert await delivery(RecordingMessenger(NotSent("no", is_final=True))).cancel(OURS)
    assert await delivery(RecordingMessenger(), CisSettings("living.local")).cancel(OURS)


async def test_an_answer_goes_to_the_requester() -> None:
    """In the namespace of the request; a repeated request gets a new event."""
    messenger, observer = RecordingMessenger(), RecordingObserver()
    await reply(messenger, observer).answer(THEIRS)
    await reply(messenger, observer).answer(THEIRS)
    await reply(messenger, observer).answer(replace(THEIRS, asked=2))
    first, second, third = messenger.sent
    assert isinstance(first.event, TaskResponse)
    assert (first.namespace, first.sender) == ("alpha", COORDINATOR)
    assert first.key == second.key != third.key
    await reply(messenger, observer).progress(THEIRS, {"n": 1})
    await reply(messenger, observer).progress(THEIRS, {"n": 1})
    assert messenger.sent[3].key != messenger.sent[4].key


async def test_failures_of_an_answer() -> None:
    """A temporary failure is retried and a permanent one is reported. A former peer gets no answer."""
    observer = RecordingObserver()
    with pytest.raises(PeerError):
        await reply(RecordingMessenger(NotSent("away")), observer).answer(THEIRS)
    await reply(RecordingMessenger(NotSent("no", is_final=True)), observer).answer(THEIRS)
    assert len(observer.problems) == 1
    messenger = RecordingMessenger()
    elsewhere = replace(THEIRS, request=replace(THEIRS.request, origin=Origin("cis", {**BACK, "node": "gone.local"})))
    await reply(messenger, observer).answer(elsewhere)
    assert messenger.sent == []


async def test_the_sender_of_an_answer() -> None:
    """A proxy named its target, a local agent, which answers; for any other address the node itself
    answers."""
    messenger = RecordingMessenger()
    strange = replace(THEIRS, request=replace(THEIRS.request, origin=Origin("cis", {**BACK, "to": "x@third.local"})))
    await reply(messenger, RecordingObserver()).answer(strange)
    assert messenger.sent[0].sender == SETTINGS.node_address


async def test_a_task_that_is_not_stored_is_not_sent(nodes: CisNodes) -> None:
    """If the connection breaks while Postgres writes it, no other node gets the request."""
    living, kitchen = await nodes.start_peers("living.test", "kitchen.test")
    kitchen.local_agents.automatic_answer = Answer(True, "ok", 0)
    await kitchen.local_agents.register("worker-1")
    await living.wait_online("worker-1@kitchen.test")
    await living.wait_joined("kitchen.test")
    for number in range(2):
        await living.ask("worker-1@kitchen.test", f"before-{number}")
        await living.answered()
    database = living.node.database
    async with database.transaction() as connection:
        await connection.execute("LOCK TABLE tasks IN SHARE MODE")
        asking = asyncio.create_task(living.ask("worker-1@kitchen.test", "lost"))
        async with asyncio.timeout(TIMEOUT):
            while not await connection.fetchval(
                "SELECT bool_or(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE datname = current_database() AND query LIKE '%INSERT INTO tasks%'"
                " AND wait_event_type = 'Lock'"
            ):
                # Within a transaction Postgres would show the same activity again.
                await connection.execute("SELECT pg_stat_clear_snapshot()")
                await asyncio.sleep(0.01)
        with pytest.raises(ConnectionLost):
            await asking
    key = await living.ask("worker-1@kitchen.test", "after")
    assert (await living.answered()).key == key
    asked = []
    while not kitchen.local_agents.delivered.empty():
        asked.append(kitchen.local_agents.delivered.get_nowait().key.request_id)
    assert asked == ["before-0", "before-1", "after"]
    page = await living.node.rooms.messages("!agent-federation-default:kitchen.test")
    assert not any(event.content.get("request_id") == "lost" for event in page.events)
    assert await living.core.tasks.task(TaskKey("living.test", "lost")) is None
