"""Bringing tasks to other nodes, and answers back."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from bridge.address import AgentAddress
from bridge.connectors.cis import task_events
from bridge.connectors.cis.events import AnyEvent, Message, TaskRequest, TaskResponse
from bridge.connectors.cis.peer import Peer
from bridge.connectors.cis.service.channels import Letter
from bridge.connectors.cis.service.speech import NotSaid, Said
from bridge.connectors.cis.service.tasks import MOST_READY, READY_FOR_MS, TaskDelivery, TaskReply
from bridge.connectors.cis.settings import CisSettings, PeerAccess
from bridge.task import Task
from bridge.task_answer import Answer
from bridge.task_error import ErrorCode
from bridge.task_ports import Delivered, NotNow, Rejected
from bridge.task_request import Origin, TaskKey
from bridge.task_request import TaskRequest as Request
from federation.errors import PeerError
from storage.connecting import ConnectionLost
from tests.bridge.connectors.cis.cis_nodes import PATIENCE, CisNode, CisNodes, Eyes
from tests.bridge.connectors.cis.made import COORDINATOR, WORKER
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
class Letters:
    outcome: Said | NotSaid = field(default_factory=lambda: Said("$1"))
    namespace: str | None = "default"
    sent: list[Letter] = field(default_factory=list)
    made: list[Mapping[str, Any] | None] = field(default_factory=list)
    can_make: bool = True

    async def send(self, access: PeerAccess, letter: Letter) -> Said | NotSaid:
        self.sent.append(letter)
        return self.outcome

    async def namespace_of(self, peer: Peer, agent: AgentAddress) -> str | None:
        return self.namespace

    def only_namespace(self, peer: Peer) -> str | None:
        return self.namespace

    def make_ready(
        self, access: PeerAccess, event: AnyEvent, namespace: str, speaker: AgentAddress
    ) -> Mapping[str, Any] | None:
        made = {"type": event.TYPE, "namespace": namespace, "speaker": speaker} if self.can_make else None
        self.made.append(made)
        return made


def delivery(
    letters: Letters, settings: CisSettings = SETTINGS, now_ms: Callable[[], int] = lambda: NOW
) -> TaskDelivery:
    return TaskDelivery(settings, letters, now_ms=now_ms)  # type: ignore[arg-type]


def reply(letters: Letters, eyes: Eyes) -> TaskReply:
    return TaskReply(SETTINGS, letters, eyes, now_ms=lambda: NOW)  # type: ignore[arg-type]


async def test_a_task_lies_in_a_durable_queue_once_it_is_delivered() -> None:
    """Under a name by which it is the same one when it is delivered again, until its deadline."""
    letters = Letters()
    assert await delivery(letters).deliver(OURS) == Delivered()
    assert await delivery(letters).deliver(OURS) == Delivered()
    first, second = letters.sent
    assert first == second
    assert isinstance(first.event, TaskRequest)
    assert (first.speaker, first.namespace, first.deadline, first.task) == (
        COORDINATOR,
        "default",
        OURS.deadline,
        OURS.key,
    )


async def test_why_a_task_is_not_delivered() -> None:
    """For good, or for now."""
    closed = CisSettings("living.local")
    rejected = await delivery(Letters(), closed).deliver(OURS)
    assert isinstance(rejected, Rejected)
    assert rejected.error.code is ErrorCode.NODE_UNREACHABLE
    rejected = await delivery(Letters(namespace=None)).deliver(OURS)
    assert isinstance(rejected, Rejected)
    assert rejected.error.code is ErrorCode.AGENT_NOT_FOUND
    rejected = await delivery(Letters(NotSaid("too large", is_final=True))).deliver(OURS)
    assert isinstance(rejected, Rejected)
    assert rejected.error.code is ErrorCode.INVALID_PAYLOAD
    assert await delivery(Letters(NotSaid("away"))).deliver(OURS) == NotNow("away")


async def test_a_cancellation_goes_the_same_way() -> None:
    """Under a name of its own, and for a while after the deadline; if it cannot be said it is tried again."""
    letters = Letters()
    assert await delivery(letters).cancel(OURS)
    [letter] = letters.sent
    assert isinstance(letter.event, Message)
    assert letter.event.message_type == "cancel"
    assert letter.deadline > OURS.deadline
    assert letter.task is None
    with pytest.raises(PeerError):
        await delivery(Letters(NotSaid("away"))).cancel(OURS)
    assert await delivery(Letters(NotSaid("no", is_final=True))).cancel(OURS)
    assert await delivery(Letters(), CisSettings("living.local")).cancel(OURS)


async def test_an_answer_goes_to_whoever_asked() -> None:
    """In the namespace in which it was asked for; asked for again it is another event."""
    letters, eyes = Letters(), Eyes()
    await reply(letters, eyes).answer(THEIRS)
    await reply(letters, eyes).answer(THEIRS)
    await reply(letters, eyes).answer(replace(THEIRS, asked=2))
    first, second, third = letters.sent
    assert isinstance(first.event, TaskResponse)
    assert (first.namespace, first.speaker) == ("alpha", COORDINATOR)
    assert first.name == second.name != third.name
    await reply(letters, eyes).progress(THEIRS, {"n": 1})
    await reply(letters, eyes).progress(THEIRS, {"n": 1})
    assert letters.sent[3].name != letters.sent[4].name


async def test_an_answer_that_cannot_be_said() -> None:
    """It is tried again, unless it would be the same; and not at all when the node is no peer any more."""
    eyes = Eyes()
    with pytest.raises(PeerError):
        await reply(Letters(NotSaid("away")), eyes).answer(THEIRS)
    await reply(Letters(NotSaid("no", is_final=True)), eyes).answer(THEIRS)
    assert len(eyes.problems) == 1
    letters = Letters()
    elsewhere = replace(
        THEIRS, request=replace(THEIRS.request, origin=Origin("cis", {**BACK, "node": "gone.local"}))
    )
    await reply(letters, eyes).answer(elsewhere)
    assert letters.sent == []


async def test_as_whom_an_address_of_somebody_else_is_answered() -> None:
    """A proxy names its target, which is ours; anything else the node says itself."""
    letters = Letters()
    strange = replace(
        THEIRS, request=replace(THEIRS.request, origin=Origin("cis", {**BACK, "to": "x@third.local"}))
    )
    await reply(letters, Eyes()).answer(strange)
    assert letters.sent[0].speaker == SETTINGS.node_address


# ---- made before it is stored ------------------------------------------------------------------------


async def test_what_was_made_ready_is_what_is_sent() -> None:
    """Of a task that had no number yet; once, and after that it is made as ever, the same."""
    letters = Letters()
    one = delivery(letters)
    one.make_ready(replace(OURS, id=0))
    assert letters.sent == []
    for _ in range(2):
        assert await one.deliver(OURS) == Delivered()
    await delivery(letters).deliver(OURS)
    first, second, third = letters.sent
    assert first.ready is letters.made[0] is not None
    assert second.ready is third.ready is None
    assert first == second == third


async def test_an_answer_that_was_made_ready_is_what_is_sent() -> None:
    """With the time at which it was made."""
    letters, eyes, now = Letters(), Eyes(), [NOW]
    one = TaskReply(SETTINGS, letters, eyes, now_ms=lambda: now[0])  # type: ignore[arg-type]
    one.make_ready(THEIRS)
    now[0] += 1_000
    for _ in range(2):
        await one.answer(THEIRS)
    first, second = letters.sent
    assert first.ready is letters.made[0] is not None
    assert (first.event, second.ready) == (task_events.response_event(THEIRS, NOW), None)
    assert second.event == task_events.response_event(THEIRS, NOW + 1_000)
    assert (first.name, first.speaker, first.deadline) == (second.name, second.speaker, second.deadline)


@pytest.mark.parametrize(
    "stored",
    [
        replace(OURS, request=replace(OURS.request)),
        replace(OURS, version=OURS.version + 1),
        replace(OURS, deadline=OURS.deadline + 1),
        replace(OURS, received_at=OURS.received_at + 1),
        replace(OURS, answer=Answer(True, "ok", 0)),
    ],
    ids=["a request of the same id", "a later step", "another deadline", "at another time", "answered"],
)
async def test_what_was_made_for_another_step_is_not_sent(stored: Task) -> None:
    """Another process may have stored one in its place."""
    letters = Letters()
    one = delivery(letters)
    one.make_ready(OURS)
    await one.deliver(stored)
    await one.deliver(OURS)
    assert [letter.ready for letter in letters.sent] == [None, None]


async def test_what_was_made_ready_is_not_kept_for_long() -> None:
    """A second, and of a few tasks: nearly always one of them is next."""
    letters, now = Letters(), [NOW]
    one = delivery(letters, now_ms=lambda: now[0])
    one.make_ready(OURS)
    now[0] += READY_FOR_MS + 1
    await one.deliver(OURS)
    tasks = [
        replace(OURS, request=replace(OURS.request, key=TaskKey("living.local", f"r{number}")))
        for number in range(MOST_READY + 1)
    ]
    for task in tasks:
        one.make_ready(task)
    for task in tasks:
        await one.deliver(task)
    assert [letter.ready is None for letter in letters.sent] == [True, True] + [False] * MOST_READY


async def test_what_cannot_be_made_ready_is_made_as_ever() -> None:
    """Its node is no peer, has no room, or it is not known in which namespace."""
    for letters, settings in [
        (Letters(namespace=None), SETTINGS),
        (Letters(), CisSettings("living.local")),
        (Letters(can_make=False), SETTINGS),
    ]:
        one = delivery(letters, settings)
        one.make_ready(OURS)
        await one.deliver(OURS)
        assert all(letter.ready is None for letter in letters.sent)
    letters = Letters()
    gone = replace(
        THEIRS, request=replace(THEIRS.request, origin=Origin("cis", {**BACK, "node": "gone.local"}))
    )
    reply(letters, Eyes()).make_ready(gone)
    assert letters.made == []


async def made_for(one: CisNode) -> list[dict[str, Any]]:
    """Contents of messages that the node has made and that were not said."""
    ready = one.node.graph._own_events._plain._ready
    known = [ready.get(room_id) for room_id in ready]
    return [found.event.pdu.content for found in known if found is not None]


async def test_a_task_that_is_not_stored_is_told_to_nobody(nodes: CisNodes) -> None:
    """Its request lies ready, hashed and signed, while Postgres writes; the connection breaks, and no other
    node hears of it. The next one goes out as it was made."""
    living, kitchen = await nodes.begin("living.test", "kitchen.test")
    kitchen.hands.answers_by_itself = Answer(True, "ok", 0)
    await kitchen.hands.come("worker-1")
    await living.sees("worker-1@kitchen.test")
    await living.until_in_touch("kitchen.test")
    for number in range(2):
        await living.ask("worker-1@kitchen.test", f"before-{number}")
        await living.answered()
    database = living.node.database
    async with database.transaction() as connection:
        await connection.execute("LOCK TABLE tasks IN SHARE MODE")
        asking = asyncio.create_task(living.ask("worker-1@kitchen.test", "lost"))
        async with asyncio.timeout(PATIENCE):
            while not any(one.get("request_id") == "lost" for one in await made_for(living)):
                await asyncio.sleep(0.01)
            while not await connection.fetchval(
                "SELECT bool_or(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE datname = current_database() AND query LIKE 'INSERT INTO tasks%'"
                " AND wait_event_type = 'Lock'"
            ):
                await asyncio.sleep(0.01)
        with pytest.raises(ConnectionLost):
            await asking
    key = await living.ask("worker-1@kitchen.test", "after")
    assert (await living.answered()).key == key
    asked = []
    while not kitchen.hands.given.empty():
        asked.append(kitchen.hands.given.get_nowait().key.request_id)
    assert asked == ["before-0", "before-1", "after"]
    page = await living.node.rooms.messages("!agent-federation-default:kitchen.test")
    assert not any(event.content.get("request_id") == "lost" for event in page.events)
    assert await living.centre.desk.task(TaskKey("living.test", "lost")) is None
