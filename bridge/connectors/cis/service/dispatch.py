"""Does what follows from events of peers, whichever way they came.

What is said of agents and what is asked for is written in one transaction with the word that it was taken.
Answers, progress and cancellations are steps of tasks that the desk takes by itself; they come first, since
taken twice they change nothing, and forgotten they would.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from bridge.agents.routing_table import RoutingTable
from bridge.agents.updates import LimitReached, Registration, UnknownAgent, UpdateOutcome
from bridge.connectors.cis.effects import (
    Answered,
    Asked,
    Cancelled,
    Effect,
    Heard,
    Missed,
    News,
    NotAsked,
    Progressed,
    Said,
)
from bridge.connectors.cis.protocol.events import Message
from bridge.connectors.cis.protocol.request_ids import key_of
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.service.registrations import NamespacesOf
from bridge.connectors.cis.service.rejections import Refusing
from bridge.connectors.cis.settings import CisSettings
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.request import TaskKey
from bridge.tasks.service import TaskService
from federation.stream.event_stream import Subscription
from storage.agents.tasks import list_live_of_agents
from storage.database import Connection, Database

MOST_LIVE: Final = 1_000
"""Tasks of an agent that are looked through."""

Commit = Callable[[Connection], Awaitable[None]]
Listener = Callable[[Message], None]


class Taking:
    """`missed` is called with agents of ours that others believe to be gone, `unknown` with a node and agents
    of it of which nothing is known but that they do something, `registered` with a node that has an agent to
    tell of."""

    def __init__(
        self,
        database: Database,
        routes: RoutingTable,
        settings: CisSettings,
        refusing: Refusing,
        observer: CisObserver,
        *,
        namespaces_of: NamespacesOf,
    ) -> None:
        self._database = database
        self._routes = routes
        self._tasks: TaskService
        self._settings = settings
        self._refusing = refusing
        self._observer = observer
        self._namespaces_of = namespaces_of
        self._listeners: list[Listener] = []
        self.missed: Callable[[Missed], None] = lambda missed: None
        self.unknown: Callable[[str, tuple[str, ...]], None] = lambda node_id, agent_ids: None
        self.registered: Callable[[str], None] = lambda node_id: None

    def use_task_service(self, tasks: TaskService) -> None:
        """Before anything is taken."""
        self._tasks = tasks

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Be told of messages between agents, once each unless the process is killed; gives what ends it."""
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end

    async def take(self, effects: Sequence[Effect], commit: Commit) -> None:
        """All of it, and `commit` in the transaction in which it is kept."""
        await self._take([self._held_to_namespaces(one) for one in effects if self._is_heard(one)], commit)

    async def take_read(self, effects: Sequence[Effect], reader: Subscription, position: int) -> None:
        """All of it, and that the reader has come there: by one statement where that is enough."""
        effects = [self._held_to_namespaces(one) for one in effects if self._is_heard(one)]
        match effects:
            case [Asked() as asked]:
                submitted = await self._tasks.submit(asked.request, reader.cursor(position))
                if submitted.refusal is None:
                    reader.set_position(position)
                    return
                effects = [_refused(asked, submitted.refusal)]

        async def commit(connection: Connection) -> None:
            await reader.advance(connection, position)

        await self._take(effects, commit, is_one=True)

    async def _take(self, effects: Sequence[Effect], commit: Commit, *, is_one: bool = False) -> None:
        """`is_one`: `commit` is a single statement, for which alone no transaction has to be begun."""
        await self._take_steps(effects)
        asked = [one for one in effects if isinstance(one, Asked)]
        news = [one.said for one in effects if isinstance(one, News)]
        if is_one and not asked and not news:
            async with self._database.autocommit() as connection:
                await commit(connection)
        else:
            async with self._database.transaction() as connection:
                applied = await self._routes.apply(connection, news) if news else None
                submitted = [await self._tasks.accept(connection, one.request) for one in asked]
                await commit(connection)
            if applied is not None:
                await self._routes.committed(applied)
                self._look_at(news, applied.outcomes)
            for one, result in zip(asked, submitted, strict=True):
                self._tasks.committed(result)
                if result.refusal is not None:
                    self._refusing.refuse(_refused(one, result.refusal))
        self._tell(effects)

    def _is_heard(self, effect: Effect) -> bool:
        """Who spoke may be trusted no more since it was read what they have said."""
        match effect:
            case News(said):
                node_id = said.address.node_id
            case Asked(request):
                node_id = request.key.node_id
            case Answered(_, _, by) | Progressed(_, _, by):
                node_id = by.node_id
            case _:
                return True
        return self._settings.access(node_id) is not None

    def _held_to_namespaces(self, effect: Effect) -> Effect:
        """Who may use a namespace reaches the agents that are in it."""
        if not isinstance(effect, Asked):
            return effect
        agent = self._routes.agent(effect.request.to_address)
        if agent is None or effect.namespace in self._settings.known_namespaces(self._namespaces_of(agent)):
            return effect
        reason = f"There is no agent {agent.address} in the namespace {effect.namespace}."
        return _refused(effect, TaskError(ErrorCode.AGENT_NOT_FOUND, reason))

    # -- steps of tasks --

    async def _take_steps(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answered | Cancelled):
                await self._take_step(effect.key, effect)
            elif isinstance(effect, Progressed):
                key = await self._task_of(effect)
                if key is not None:
                    await self._take_step(key, effect)

    async def _take_step(self, key: TaskKey, step: Answered | Progressed | Cancelled) -> None:
        match step:
            case Answered():
                await self._tasks.finish(key, step.answer, by=step.by)
            case Progressed():
                await self._tasks.progress(key, step.content, by=step.by)
            case Cancelled():
                await self._tasks.cancel(key, step.by, step.reason)

    async def _task_of(self, step: Progressed) -> TaskKey | None:
        """Nodes that take the specification at its word do not say of which task they speak."""
        if step.request_id is not None:
            return key_of(step.request_id, self._settings.node_id)
        async with self._database.transaction(readonly=True) as connection:
            rows = await list_live_of_agents(connection, [str(step.by)], 0, MOST_LIVE)
        found = [row for row in rows if step.to is None or row.from_agent == str(step.to)]
        return TaskKey(found[0].requester_node, found[0].request_id) if len(found) == 1 else None

    # -- afterwards --

    def _look_at(self, news: Sequence[Said], verdicts: Sequence[UpdateOutcome]) -> None:
        for said, verdict in zip(news, verdicts, strict=True):
            if isinstance(verdict, UnknownAgent):
                self.unknown(said.address.node_id, (said.address.agent_id,))
            elif isinstance(verdict, LimitReached):
                self._observer.problem(f"{said.address} is not taken in: there are too many.", None)
            elif isinstance(said, Registration):
                self.registered(said.address.node_id)

    def _tell(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case NotAsked():
                    self._refusing.refuse(effect)
                case Missed():
                    self.missed(effect)
                case Heard(message):
                    self._tell_listeners(message)

    def _tell_listeners(self, message: Message) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(message)
            except Exception as error:
                self._observer.problem("A message between agents was not worked on.", error)


def _refused(asked: Asked, error: TaskError) -> NotAsked:
    return NotAsked(asked.event, error, asked.namespace, asked.request.key.node_id)
