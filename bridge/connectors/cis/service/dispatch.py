"""Carries out the effects of peers' events, from rooms and from HTTP alike.

Agent updates and new tasks are written in one transaction with the record that the event was handled.
Answers, progress and cancellations are steps of tasks, which the task service commits itself. They come
first, because a step that is applied twice changes nothing, but a lost step would be missing.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from bridge.agents.routing_table import RoutingTable
from bridge.agents.updates import LimitReached, Registration, UnknownAgent, UpdateOutcome
from bridge.connectors.cis.effects import (
    AgentUpdate,
    CancelTask,
    DeliverMessage,
    Effect,
    FinishTask,
    ReannounceAgent,
    RejectTask,
    ReportProgress,
    SubmitTask,
    UpdateAgent,
)
from bridge.connectors.cis.protocol.events import Message
from bridge.connectors.cis.protocol.request_ids import task_key
from bridge.connectors.cis.service.announcer import NamespacesOf
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.service.rejections import TaskRejections
from bridge.connectors.cis.settings import CisSettings
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.request import TaskKey
from bridge.tasks.service import TaskService
from federation.stream.event_stream import Subscription
from storage.agents.tasks import list_live_of_agents
from storage.database import Connection, Database

MAX_OPEN_TASKS: Final = 1_000
"""The number of an agent's open tasks that are searched."""

Commit = Callable[[Connection], Awaitable[None]]
Listener = Callable[[Message], None]


class EffectDispatcher:
    """Three callbacks can be set. `on_missed` is called with agents of this node that a peer believes to be
    offline, `on_unknown` with a node and those of its agents that report a status but were never registered,
    and `on_registered` with a node that has registered an agent."""

    def __init__(
        self,
        database: Database,
        routes: RoutingTable,
        settings: CisSettings,
        rejections: TaskRejections,
        observer: CisObserver,
        *,
        namespaces_of: NamespacesOf,
    ) -> None:
        self._database = database
        self._routes = routes
        self._tasks: TaskService
        self._settings = settings
        self._rejections = rejections
        self._observer = observer
        self._namespaces_of = namespaces_of
        self._listeners: list[Listener] = []
        self.on_missed: Callable[[ReannounceAgent], None] = lambda effect: None
        self.on_unknown: Callable[[str, tuple[str, ...]], None] = lambda node_id, agent_ids: None
        self.on_registered: Callable[[str], None] = lambda node_id: None

    def use_task_service(self, tasks: TaskService) -> None:
        """Must be called before anything is dispatched."""
        self._tasks = tasks

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call the listener with messages between agents, once each unless the process is killed. Return a
        function that unsubscribes it."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    async def dispatch(self, effects: Sequence[Effect], commit: Commit) -> None:
        """Carry out the effects, and call `commit` in the transaction that stores them."""
        await self._dispatch(self._permitted(effects), commit)

    async def dispatch_read(self, effects: Sequence[Effect], reader: Subscription, position: int) -> None:
        """Carry out the effects of an event that the reader has read, and advance the reader to its position:
        in one statement if possible."""
        effects = self._permitted(effects)
        match effects:
            case [SubmitTask() as effect]:
                submitted = await self._tasks.submit(effect.request, reader.cursor(position))
                if submitted.refusal is None:
                    reader.set_position(position)
                    return
                effects = [_rejected(effect, submitted.refusal)]

        async def commit(connection: Connection) -> None:
            await reader.advance(connection, position)

        await self._dispatch(effects, commit, is_single_statement=True)

    async def _dispatch(self, effects: Sequence[Effect], commit: Commit, *, is_single_statement: bool = False) -> None:
        """`is_single_statement`: `commit` runs one statement, which needs no transaction if nothing else is
        written."""
        await self._apply_steps(effects)
        new_tasks = [effect for effect in effects if isinstance(effect, SubmitTask)]
        updates = [effect.update for effect in effects if isinstance(effect, UpdateAgent)]
        if is_single_statement and not new_tasks and not updates:
            async with self._database.autocommit() as connection:
                await commit(connection)
        else:
            async with self._database.transaction() as connection:
                applied = await self._routes.apply(connection, updates) if updates else None
                submitted = [await self._tasks.accept(connection, effect.request) for effect in new_tasks]
                await commit(connection)
            if applied is not None:
                await self._routes.committed(applied)
                self._handle_verdicts(updates, applied.outcomes)
            for effect, result in zip(new_tasks, submitted, strict=True):
                self._tasks.committed(result)
                if result.refusal is not None:
                    self._rejections.reject(_rejected(effect, result.refusal))
        self._notify(effects)

    def _permitted(self, effects: Sequence[Effect]) -> Sequence[Effect]:
        return [self._checked_namespace(effect) for effect in effects if self._is_from_trusted_peer(effect)]

    def _is_from_trusted_peer(self, effect: Effect) -> bool:
        """Return whether the sender is still trusted: this may have changed since its event was read."""
        match effect:
            case UpdateAgent(update):
                node_id = update.address.node_id
            case SubmitTask(request):
                node_id = request.key.node_id
            case FinishTask(_, _, by) | ReportProgress(_, _, by):
                node_id = by.node_id
            case _:
                return True
        return self._settings.access(node_id) is not None

    def _checked_namespace(self, effect: Effect) -> Effect:
        """Reject a task for an agent that is not in the namespace of the request."""
        if not isinstance(effect, SubmitTask):
            return effect
        agent = self._routes.agent(effect.request.to_address)
        if agent is None or effect.namespace in self._settings.known_namespaces(self._namespaces_of(agent)):
            return effect
        reason = f"There is no agent {agent.address} in the namespace {effect.namespace}."
        return _rejected(effect, TaskError(ErrorCode.AGENT_NOT_FOUND, reason))

    # -- steps of tasks --

    async def _apply_steps(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, FinishTask | CancelTask):
                await self._apply_step(effect.key, effect)
            elif isinstance(effect, ReportProgress):
                key = await self._task_of(effect)
                if key is not None:
                    await self._apply_step(key, effect)

    async def _apply_step(self, key: TaskKey, step: FinishTask | ReportProgress | CancelTask) -> None:
        match step:
            case FinishTask():
                await self._tasks.finish(key, step.answer, by=step.by)
            case ReportProgress():
                await self._tasks.progress(key, step.content, by=step.by)
            case CancelTask():
                await self._tasks.cancel(key, step.by, step.reason)

    async def _task_of(self, step: ReportProgress) -> TaskKey | None:
        """Return the task of a progress message. The specification does not require a message to name its
        task, so it may have to be found by its agent and requester."""
        if step.request_id is not None:
            return task_key(step.request_id, self._settings.node_id)
        async with self._database.transaction(readonly=True) as connection:
            rows = await list_live_of_agents(connection, [str(step.by)], 0, MAX_OPEN_TASKS)
        found = [row for row in rows if step.to is None or row.from_agent == str(step.to)]
        return TaskKey(found[0].requester_node, found[0].request_id) if len(found) == 1 else None

    # -- after the commit --

    def _handle_verdicts(self, updates: Sequence[AgentUpdate], verdicts: Sequence[UpdateOutcome]) -> None:
        for update, verdict in zip(updates, verdicts, strict=True):
            if isinstance(verdict, UnknownAgent):
                self.on_unknown(update.address.node_id, (update.address.agent_id,))
            elif isinstance(verdict, LimitReached):
                self._observer.report_problem(
                    f"The agent {update.address} was not added: the limit of agents or nodes is reached.", None
                )
            elif isinstance(update, Registration):
                self.on_registered(update.address.node_id)

    def _notify(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case RejectTask():
                    self._rejections.reject(effect)
                case ReannounceAgent():
                    self.on_missed(effect)
                case DeliverMessage(message):
                    self._notify_listeners(message)

    def _notify_listeners(self, message: Message) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(message)
            except Exception as error:
                self._observer.report_problem("A listener failed to handle a message between agents.", error)


def _rejected(effect: SubmitTask, error: TaskError) -> RejectTask:
    return RejectTask(effect.event, error, effect.namespace, effect.request.key.node_id)
