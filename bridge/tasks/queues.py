"""The queues of this node's agents: starts the next task when an agent has room again.

The queues are stored in the database. A process that gives an agent a task or queues one holds the lock of
that agent's queue, so that two processes together do not exceed its limits. After a queued task is committed,
all processes are notified. Each checks the queue at once, because the agent's last task may have ended in
between, and then after every task of the agent that ends, until it finds the queue empty. A check takes the
lock only if a task is queued. A process that missed the notification finds the task with its next sweep.
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


MAX_CONCURRENT: Final = 20


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
        self._to_check: dict[AgentAddress, None] = {}
        # Agents for which a task may be queued, each with the value of the counter at its last notification.
        self._queued: dict[AgentAddress, int] = {}
        self._marks = 0
        # Agents that were reported busy, and not yet reported idle.
        self._working: set[AgentAddress] = set()
        self._wake = asyncio.Event()
        self._steps: TaskSteps | None = None

    def start(self, steps: "TaskSteps") -> None:
        self._steps = steps
        self._background.supervise("queues of agents", self._run)

    def admit(self, address: AgentAddress, load: Load) -> tuple[Admission, AgentCapacity | None]:
        """Decide on a new task for an agent of this node that has this load. Also return the room that the
        agent must still have when the task is stored."""
        agent = self._routes.agent(address)
        if agent is None or not agent.is_online:
            return Error(TaskError(ErrorCode.AGENT_NOT_FOUND, f"The agent {address} has just gone offline.")), None
        settings = self._settings_of(agent)
        admission = admit(load, settings, agent.status)
        if settings.parallel is None or isinstance(admission, Error):
            return admission, None
        return admission, (settings.parallel, settings.max_queue_length)

    def slot_freed(self, address: AgentAddress) -> None:
        """Check the agent's queue: the agent may have room for a task."""
        self._to_check[address] = None
        self._wake.set()

    def task_ended(self, address: AgentAddress, was_running: bool) -> None:
        """A task of the agent has ended in this process. The queue is checked only if a task may be queued,
        or the agent was reported busy."""
        if was_running:
            self._working.add(address)
        if address in self._queued or address in self._working:
            self.slot_freed(address)

    def task_queued(self, address: AgentAddress) -> None:
        """A task was queued in this process. All processes are notified, because the one that ends a task of
        the agent starts the next one."""
        self.mark_queued(address)
        self._database.session.notify(TOPIC, notice_of(address))

    def mark_queued(self, address: AgentAddress) -> None:
        """A task was queued for the agent, in this or in another process."""
        self._marks += 1
        self._queued[address] = self._marks
        self.slot_freed(address)

    async def sweep(self) -> None:
        """Check every queue that is not empty: the process that should have done it may have been killed."""
        async with self._database.transaction(readonly=True) as connection:
            for text in await tasks.list_agents_with_queues(connection):
                address = AgentAddress.parse(text)
                if isinstance(address, AgentAddress):
                    self.mark_queued(address)
        # A task that started here may have been followed by one that ended in another process.
        for address in (*self._queued, *self._working):
            self.slot_freed(address)

    async def _run(self) -> None:
        await self._wake.wait()
        self._wake.clear()
        waiting, self._to_check = list(self._to_check), {}
        for begin in range(0, len(waiting), MAX_CONCURRENT):
            await asyncio.gather(*map(self._try, waiting[begin : begin + MAX_CONCURRENT]))

    async def _try(self, address: AgentAddress) -> None:
        try:
            await self._advance(address)
        except ConnectionLost:
            return  # the next sweep finds it
        except Exception as error:
            self._observer.problem(f"The queue of the agent {address} could not be checked.", error)

    async def _advance(self, address: AgentAddress) -> None:
        agent = self._routes.agent(address)
        settings = AgentSettings() if agent is None else self._settings_of(agent)
        if settings.parallel is None and not settings.queue_length:
            self._queued.pop(address, None)
            self._working.discard(address)
            return
        mark = self._queued.get(address)
        load = await self._database.read(lambda connection: tasks.fetch_load(connection, str(address)))
        if load.waiting:
            self._queued.setdefault(address, self._marks)
            active = await self._start_queued(address, settings)
        else:
            active = load.active
            if self._queued.get(address) == mark:
                self._queued.pop(
                    address, None
                )  # otherwise a task was queued in between, and the queue is checked again
        if not active:
            self._working.discard(address)
            if self._statuses is not None:
                self._statuses.apply(address, StatusInput.COMPLETE)

    async def _start_queued(self, address: AgentAddress, settings: AgentSettings) -> int:
        """Start queued tasks while the agent has room. Return how many tasks it has then."""
        assert self._steps is not None, "it was started"
        started: list[tuple[Task, Step]] = []
        async with self._database.transaction() as connection:
            load = await tasks.lock_load(connection, str(address))
            active = load.active
            agent = self._routes.agent(address)
            may_start = agent is not None and agent.is_online and agent.status is not AgentStatus.ERROR
            while may_start and len(started) < load.waiting:
                row = await tasks.fetch_first_queued(connection, str(address))
                if row is None or not has_room(Load(active), settings):
                    break
                task = self._store.read(row)
                step = receive(task, Accept(), self._now_ms())
                if await self._steps.store(connection, task, step):
                    started.append((task, step))
                    active += 1
        for task, step in started:
            self._steps.committed(task, step)
        return active
