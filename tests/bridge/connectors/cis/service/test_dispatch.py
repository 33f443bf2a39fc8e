"""Carrying out effects, in one transaction with the record that their event was handled."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from bridge.agents.updates import Registration, Unregistration
from bridge.connectors.cis.effects import (
    CancelTask,
    DeliverMessage,
    FinishTask,
    ReannounceAgent,
    RejectTask,
    ReportProgress,
    SubmitTask,
    UpdateAgent,
    effect_of,
)
from bridge.connectors.cis.examination import AgentSender, ValidEvent
from bridge.connectors.cis.protocol.events import Message
from bridge.connectors.cis.protocol.rooms import FederationRoom
from bridge.connectors.cis.service.dispatch import EffectDispatcher
from bridge.connectors.cis.settings import CisSettings
from bridge.peers.peer import Peer, PeerAccess
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode
from bridge.tasks.limits import TaskLimits
from bridge.tasks.request import TaskKey
from bridge.tasks.task import State
from federation.peers.limits import Rate
from federation.stream.event_stream import Subscription
from storage.database import Connection, Database
from storage.rooms import stream as consumers
from tests.bridge.connectors.cis.cis_nodes import RecordingObserver, peers_of
from tests.bridge.connectors.cis.event_builders import COORDINATOR, message, request
from tests.support.agents import address, registered
from tests.support.tasks import Process, process
from tests.support.tasks import request as task

PEERS = {**peers_of("kitchen", "living.local"), "bad": PeerAccess(Peer("bad", trusted=False))}
SETTINGS = CisSettings("here", PEERS, namespaces=("default", "alpha"))


class RecordingRejections:
    def __init__(self) -> None:
        self.rejected: list[RejectTask] = []

    def reject(self, refused: RejectTask) -> None:
        self.rejected.append(refused)


@dataclass
class DispatcherFixture:
    dispatcher: EffectDispatcher
    tasks: Process
    rejections: RecordingRejections
    observer: RecordingObserver
    committed: int = 0
    events: list[Any] = field(default_factory=list)

    async def dispatch(self, *effects: Any) -> None:
        async def commit(connection: Connection) -> None:
            self.committed += 1

        await self.dispatcher.dispatch(effects, commit)


def dispatcher_fixture(tasks: Process) -> DispatcherFixture:
    rejections, observer = RecordingRejections(), RecordingObserver()
    dispatcher = EffectDispatcher(
        tasks.database,
        tasks.routes,
        SETTINGS,
        rejections,  # type: ignore[arg-type]
        observer,
        namespaces_of=lambda agent: ("alpha",) if agent.agent_id == "secret" else ("default",),
    )
    dispatcher.use_task_service(tasks.tasks)
    return DispatcherFixture(dispatcher, tasks, rejections, observer)


@pytest.fixture
async def fixture(database: Database) -> AsyncIterator[DispatcherFixture]:
    async with process(database) as tasks:
        one = dispatcher_fixture(tasks)
        one.dispatcher.on_missed = one.events.append
        one.dispatcher.on_unknown = lambda *said: one.events.append(said)
        one.dispatcher.on_registered = one.events.append
        await tasks.routes.update([registered("worker@here"), registered("secret@here")])
        yield one


def submit_effect(to: str = "worker@here", namespace: str = "default", request_id: str = "req-1") -> SubmitTask:
    event = request(to_agent=address(to)).model_copy(update={"request_id": request_id})
    room = FederationRoom(namespace, "here")
    effect = effect_of(ValidEvent(event, AgentSender(COORDINATOR), room), Peer(COORDINATOR.node_id), SETTINGS)
    assert isinstance(effect, SubmitTask)
    return effect


async def test_a_task_is_committed_with_its_event(fixture: DispatcherFixture) -> None:
    """It is delivered after the commit."""
    await fixture.dispatch(submit_effect())
    assert fixture.committed == 1
    assert (await fixture.tasks.delivery.delivered.get()).key == TaskKey("living.local", "req-1")


async def test_nothing_is_stored_if_the_commit_fails(fixture: DispatcherFixture) -> None:
    """The reader reads the event again."""

    async def fail(connection: Connection) -> None:
        raise KeyError

    news = UpdateAgent(Registration(address("new@kitchen"), "cis", "claude", (), 5))
    with pytest.raises(KeyError):
        await fixture.dispatcher.dispatch([submit_effect(), news], fail)
    assert await fixture.tasks.tasks.task(TaskKey("living.local", "req-1")) is None
    assert fixture.tasks.routes.agent(address("new@kitchen")) is None
    assert fixture.events == []
    await fixture.dispatch(submit_effect(), news)
    assert fixture.events == ["kitchen"]
    assert fixture.tasks.routes.agent(address("new@kitchen")) is not None


@pytest.fixture
async def reader(database: Database) -> Subscription:
    async with database.transaction() as connection:
        term = await consumers.begin_term(connection, "reader", 0)
    stream: Any = None  # nothing is read here: only the position is stored
    return Subscription(stream, database, "reader", term)


async def test_effects_are_committed_with_the_readers_position(
    fixture: DispatcherFixture, reader: Subscription, database: Database
) -> None:
    """An accepted request, a repeated one, one for a busy agent, an answer, and no effect at all: each is
    handled once."""
    await fixture.tasks.routes.update([registered("worker@kitchen")])
    key, by = TaskKey("here", "a"), address("worker@kitchen")
    await fixture.tasks.tasks.submit(task("a", "worker@kitchen", key=key, from_address=address("boss@here")))
    assert (await fixture.tasks.delivery.delivered.get()).key == key
    await fixture.dispatcher.dispatch_read([submit_effect()], reader, 1)
    assert (await fixture.tasks.delivery.delivered.get()).key == TaskKey("living.local", "req-1")
    await fixture.dispatcher.dispatch_read([submit_effect()], reader, 2)
    await fixture.dispatcher.dispatch_read([submit_effect(request_id="req-2")], reader, 3)
    busy = await fixture.tasks.tasks.task(TaskKey("living.local", "req-2"))
    assert busy is not None
    assert busy.state is State.FAILED
    await fixture.dispatcher.dispatch_read([FinishTask(key, Answer(True, "ok", 0), by)], reader, 4)
    answered = await fixture.tasks.tasks.task(key)
    assert answered is not None
    assert answered.state is State.DONE
    await fixture.dispatcher.dispatch_read([FinishTask(key, Answer(True, "late", 0), by)], reader, 5)
    await fixture.dispatcher.dispatch_read([], reader, 6)
    async with database.transaction() as connection:
        assert await consumers.list_cursors(connection) == {"reader": 6}
    again = await fixture.tasks.tasks.task(TaskKey("living.local", "req-1"))
    assert again is not None
    assert (again.asked, again.state) == (2, State.ACCEPTED)
    assert fixture.rejections.rejected == []


async def test_a_replaced_reader_stores_nothing(
    fixture: DispatcherFixture, reader: Subscription, database: Database
) -> None:
    """Its successor reads the event again."""
    async with database.transaction() as connection:
        await consumers.begin_term(connection, "reader", 0)
    with pytest.raises(consumers.ReaderReplaced):
        await fixture.dispatcher.dispatch_read([submit_effect()], reader, 1)
    assert await fixture.tasks.tasks.task(TaskKey("living.local", "req-1")) is None


async def test_a_request_above_the_limits_is_rejected_once(database: Database, reader: Subscription) -> None:
    """It is not read again."""
    limits = TaskLimits(agent_rate=Rate(1, 1))
    async with process(database, limits=limits, monotonic=lambda: 50.0) as tasks:
        fixture = dispatcher_fixture(tasks)
        await tasks.routes.update([registered("worker@here")])
        for number in range(1, 3):
            await fixture.dispatcher.dispatch_read([submit_effect(request_id=f"req-{number}")], reader, number)
        [refused] = fixture.rejections.rejected
        assert (refused.event.request_id, refused.error.code) == ("req-2", ErrorCode.AGENT_BUSY)
        async with database.transaction() as connection:
            assert await consumers.list_cursors(connection) == {"reader": 2}


async def test_effects_of_an_untrusted_peer_are_dropped(fixture: DispatcherFixture) -> None:
    """Even if the peer was trusted when its event was read; the position still advances."""
    await fixture.tasks.routes.update([registered("worker@kitchen")])
    key = TaskKey("here", "a")
    made = task(key.request_id, "worker@kitchen", key=key, from_address=address("boss@here"))
    await fixture.tasks.tasks.submit(made)
    request = replace(submit_effect().request, key=TaskKey("bad", "req-1"))
    by = address("worker@bad")
    await fixture.dispatch(
        replace(submit_effect(), request=request),
        UpdateAgent(Registration(address("new@bad"), "cis", "claude", (), 5)),
        FinishTask(key, Answer(True, "ok", 0), by),
        ReportProgress("a", {"n": 1}, by, address("boss@here")),
    )
    assert fixture.committed == 1
    assert await fixture.tasks.tasks.task(request.key) is None
    assert fixture.tasks.routes.agent(address("new@bad")) is None
    assert fixture.events == []


async def test_a_task_for_an_agent_outside_the_namespace_is_rejected(fixture: DispatcherFixture) -> None:
    """Also if the peer may use the agent's namespace but named another one."""
    await fixture.dispatch(submit_effect("secret@here"), submit_effect("worker@here", "alpha", "req-2"))
    codes = [refused.error.code for refused in fixture.rejections.rejected]
    assert codes == [ErrorCode.AGENT_NOT_FOUND, ErrorCode.AGENT_NOT_FOUND]
    await fixture.dispatch(submit_effect("secret@here", "alpha", "req-3"))
    assert (await fixture.tasks.delivery.delivered.get()).request.key.request_id == "req-3"


async def test_a_refusal_of_the_task_service_is_reported(fixture: DispatcherFixture) -> None:
    """A known request id with other content."""
    await fixture.dispatch(submit_effect())
    await fixture.dispatch(submit_effect("secret@here", "alpha"))
    [refused] = fixture.rejections.rejected
    assert (refused.error.code, refused.node_id) == (ErrorCode.INVALID_PAYLOAD, "living.local")


async def test_answers_progress_and_cancellations_are_steps_of_tasks(fixture: DispatcherFixture) -> None:
    """Applied in order, if they come from the agent that has the task."""
    await fixture.tasks.routes.update([registered("worker@kitchen")])
    keys = [TaskKey("here", name) for name in ("a", "b", "c")]
    for key in keys:
        made = task(key.request_id, "worker@kitchen", key=key, from_address=address("boss@here"))
        await fixture.tasks.tasks.submit(made)
    by, boss = address("worker@kitchen"), address("boss@here")
    await fixture.dispatch(
        ReportProgress("a", {"n": 1}, by, boss),
        ReportProgress("a", {"n": 2}, by, boss),
        FinishTask(keys[0], Answer(True, "ok", 0), by),
        FinishTask(keys[1], Answer(True, "ok", 0), address("other@kitchen")),
        CancelTask(keys[2], "boss@here", None),
        FinishTask(TaskKey("here", "unheard of"), Answer(True, "ok", 0), by),
    )
    states = [(await fixture.tasks.tasks.task(key)) for key in keys]
    assert [one.state for one in states if one] == [State.DONE, State.ACCEPTED, State.CANCELLED]
    said = [await fixture.tasks.requester.heard.get() for _ in range(2)]
    assert [content for _, content in said] == [{"n": 1}, {"n": 2}]


async def test_progress_without_a_task_belongs_to_the_only_open_task(fixture: DispatcherFixture) -> None:
    """With two open tasks it is dropped."""
    await fixture.tasks.routes.update([registered("worker@kitchen")])
    by, boss = address("worker@kitchen"), address("boss@here")
    for number in range(2):
        key = TaskKey("here", str(number))
        await fixture.tasks.tasks.submit(task(str(number), "worker@kitchen", key=key, from_address=boss))
        await fixture.dispatch(ReportProgress(None, {"n": number}, by, boss), ReportProgress(None, {"x": 1}, by, by))
    assert (await fixture.tasks.requester.heard.get())[1] == {"n": 0}
    assert fixture.tasks.requester.heard.empty()


async def test_callbacks_and_listeners_are_notified(fixture: DispatcherFixture) -> None:
    """Of messages, lost agents and unknown agents. An exception in a listener is reported and does no
    harm."""
    heard: list[Message] = []

    def fall_over(said: Message) -> None:
        raise ZeroDivisionError

    fixture.dispatcher.subscribe(fall_over)
    end = fixture.dispatcher.subscribe(heard.append)
    said, missed = message("hello"), ReannounceAgent(address("worker@here"))
    unknown = UpdateAgent(registered("x@kitchen")).update
    await fixture.dispatch(DeliverMessage(said), missed, UpdateAgent(Unregistration(unknown.address, "x", 5)))
    assert heard == [said]
    assert fixture.events == [("kitchen", ("x",)), missed]
    assert len(fixture.observer.problems) == 1
    end()
    await fixture.dispatch(DeliverMessage(said))
    assert len(heard) == 1
