"""The queues of this node's agents: who comes next when one has room again.

A queue lies in the database. Whoever gives an agent a task, or lets one wait, holds its lock meanwhile, so
that two processes do not give it more than it takes. Once a task that waits is committed, every process is
told that somebody waits for the agent. It looks at once, for the last one may have ended meanwhile, and from
then on whenever a task of the agent has ended, until it has seen nobody wait. Who looks takes the lock only
if somebody does. A process that was not told finds it with its next sweep.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from bridge.agents.address import AgentAddress
from bridge.agents.agent import AgentStatus, StatusInput
from bridge.agents.routing_table import RoutingTable
from bridge.agents.statuses import AgentStatuses
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.lease import TOPIC, notice_of
from bridge.tasks.messages import Accept, Error
from bridge.tasks.queue_settings import Admission, AgentSettings, Load, SettingsOf, admit, has_room
from bridge.tasks.store import TaskStore
from bridge.tasks.task import Step, Task, receive
from storage.agents import tasks
from storage.agents.tasks import AgentCapacity
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.database import Database

if TYPE_CHECKING:
    from bridge.observability.agent_observer import AgentObserver
    from bridge.tasks.steps import TaskSteps


AT_ONCE: Final = 20


class AgentQueues:
    def __init__(
        self,
        database: Database,
        *,
        store: TaskStore,
        routes: RoutingTable,
        settings_of: SettingsOf,
        observer: "AgentObserver",
        now_ms: Callable[[], int],
        statuses: AgentStatuses | None,
        background: BackgroundTasks,
    ) -> None:
        self._database = database
        self._store = store
        self._routes = routes
        self._settings_of = settings_of
        self._observer = observer
        self._now_ms = now_ms
        self._statuses = statuses
        self._background = background
        self._waiting: dict[AgentAddress, None] = {}
        # For whom somebody may wait, and how often that was said of all agents until then.
        self._crowded: dict[AgentAddress, int] = {}
        self._told = 0
        # Who was said to be at work, and has not been said to have nothing left.
        self._working: set[AgentAddress] = set()
        self._wanted = asyncio.Event()
        self._steps: TaskSteps | None = None

    def start(self, steps: "TaskSteps") -> None:
        self._steps = steps
        self._background.supervise("queues of agents", self._run)

    def admit(self, address: AgentAddress, load: Load) -> tuple[Admission, AgentCapacity | None]:
        """What becomes of the next task for an agent of this node that has this load; and what room there has
        to be for it."""
        agent = self._routes.agent(address)
        if agent is None or not agent.is_here:
            return Error(TaskError(ErrorCode.AGENT_NOT_FOUND, f"The agent {address} has just gone.")), None
        settings = self._settings_of(agent)
        admission = admit(load, settings, agent.status)
        if settings.at_once is None or isinstance(admission, Error):
            return admission, None
        return admission, (settings.at_once, settings.most_waiting)

    def freed(self, address: AgentAddress) -> None:
        """It may have room for another one."""
        self._waiting[address] = None
        self._wanted.set()

    def ended(self, address: AgentAddress, was_begun: bool) -> None:
        """A task that it had has ended. Most often nobody waits, and nobody was told that it works."""
        if was_begun:
            self._working.add(address)
        if address in self._crowded or address in self._working:
            self.freed(address)

    def added(self, address: AgentAddress) -> None:
        """A task has come to wait for it in this process. The process that ends a task of the agent calls the
        next one, so all of them are notified."""
        self.waits(address)
        self._database.session.notify(TOPIC, notice_of(address))

    def waits(self, address: AgentAddress) -> None:
        """A task has come to wait for it, in this process or in another one."""
        self._told += 1
        self._crowded[address] = self._told
        self.freed(address)

    async def sweep(self) -> None:
        """Look after every queue: whoever was to do so may have been killed."""
        async with self._database.transaction(readonly=True) as connection:
            for text in await tasks.list_agents_with_queues(connection):
                address = AgentAddress.parse(text)
                if isinstance(address, AgentAddress):
                    self.waits(address)
        # A task that was begun here may have been followed by one that another process has ended.
        for address in (*self._crowded, *self._working):
            self.freed(address)

    async def _run(self) -> None:
        await self._wanted.wait()
        self._wanted.clear()
        waiting, self._waiting = list(self._waiting), {}
        for begin in range(0, len(waiting), AT_ONCE):
            await asyncio.gather(*map(self._try, waiting[begin : begin + AT_ONCE]))

    async def _try(self, address: AgentAddress) -> None:
        try:
            await self._advance(address)
        except ConnectionLost:
            return  # the next sweep finds it
        except Exception as error:
            self._observer.problem(f"The queue of {address} does not move.", error)

    async def _advance(self, address: AgentAddress) -> None:
        agent = self._routes.agent(address)
        settings = AgentSettings() if agent is None else self._settings_of(agent)
        if settings.at_once is None and not settings.waiting:
            self._crowded.pop(address, None)
            self._working.discard(address)
            return
        told = self._crowded.get(address)
        load = await self._database.read(lambda connection: tasks.fetch_load(connection, str(address)))
        if load.waiting:
            self._crowded.setdefault(address, self._told)
            active = await self._call(address, settings)
        else:
            active = load.active
            if self._crowded.get(address) == told:
                self._crowded.pop(address, None)  # else somebody has come meanwhile, and is looked for again
        if not active:
            self._working.discard(address)
            if self._statuses is not None:
                self._statuses.take(address, StatusInput.COMPLETE)

    async def _call(self, address: AgentAddress, settings: AgentSettings) -> int:
        """Whoever comes next. How many tasks the agent has then."""
        assert self._steps is not None, "it was started"
        taken: list[tuple[Task, Step]] = []
        async with self._database.transaction() as connection:
            load = await tasks.lock_load(connection, str(address))
            active = load.active
            agent = self._routes.agent(address)
            moves = agent is not None and agent.is_here and agent.status is not AgentStatus.ERROR
            while moves and len(taken) < load.waiting:
                row = await tasks.fetch_first_queued(connection, str(address))
                if row is None or not has_room(Load(active), settings):
                    break
                task = self._store.read(row)
                step = receive(task, Accept(), self._now_ms())
                if await self._steps.store(connection, task, step):
                    taken.append((task, step))
                    active += 1
        for task, step in taken:
            self._steps.went(task, step)
        return active
