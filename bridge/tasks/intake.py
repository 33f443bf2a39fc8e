"""Accepts tasks: what is new is decided upon, what is asked for again is found."""

from collections.abc import Callable
from dataclasses import dataclass

from bridge.agents.routing import Local, Remote, Unknown
from bridge.agents.routing_table import RoutingTable
from bridge.tasks.errors import TaskError
from bridge.tasks.lease import TaskLease
from bridge.tasks.limits import TaskLimiter
from bridge.tasks.messages import Accept, AskAgain, Error, Message
from bridge.tasks.queue_settings import Load
from bridge.tasks.queues import AgentQueues
from bridge.tasks.request import TaskRequest, invalid
from bridge.tasks.steps import TaskSteps
from bridge.tasks.store import TaskStore, same_work
from bridge.tasks.task import Step, Task, receive
from bridge.tasks.timers import TaskTimers
from storage.agents.tasks import AgentCapacity
from storage.database import Connection
from storage.rooms.stream import ReaderPosition


@dataclass(frozen=True, slots=True)
class Submitted:
    """A task, or why there is none. A refusal is not kept: the request may be made again under its id."""

    task: Task | None
    refusal: TaskError | None = None
    is_new: bool = False
    before: Task | None = None
    step: Step | None = None


class TaskIntake:
    def __init__(
        self,
        *,
        store: TaskStore,
        steps: TaskSteps,
        queues: AgentQueues,
        timers: TaskTimers,
        lease: TaskLease,
        routes: RoutingTable,
        limiter: TaskLimiter,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        self._store = store
        self._steps = steps
        self._queues = queues
        self._timers = timers
        self._lease = lease
        self._routes = routes
        self._limiter = limiter
        self._now_ms = now_ms
        self._monotonic = monotonic

    async def accept(
        self, connection: Connection, request: TaskRequest, place: ReaderPosition | None = None
    ) -> Submitted | None:
        """One statement, unless the agent turns out to have another load than was assumed. With the place of
        a reader that is advanced, if there is no refusal. None: it was asked for before."""
        refusal = self._refusal(request)
        if refusal is not None:
            return Submitted(None, refusal)
        load = Load()
        while True:
            task, message, room = self._decide(request, load)
            step = receive(task, message, task.received_at)
            new, found = await self._store.accept(connection, step.task, self._lease.number, room, place)
            if new is not None:
                return Submitted(new, is_new=True, step=step._replace(task=new))
            if found is None or self._decide(request, found)[1] == message:
                return None
            load = found

    def _refusal(self, request: TaskRequest) -> TaskError | None:
        node_id = request.key.node_id
        return self._limiter.ask(request, self._monotonic()) or self._limiter.too_many(
            node_id, self._timers.live(node_id), self._timers.live_of_all()
        )

    def _decide(self, request: TaskRequest, load: Load) -> tuple[Task, Message, AgentCapacity | None]:
        """What becomes of it if its agent has this load; and for what there has to be room."""
        now_ms = self._now_ms()
        deadline = now_ms + self._limiter.limits.timeout_ms(request.timeout_ms)
        route = self._routes.route(request.to_address)
        task = Task(request, now_ms, deadline, elsewhere=isinstance(route, Remote))
        match route:
            case Unknown():
                return task, Error(route.error()), None
            case Remote():
                return task, Accept(), None
            case Local(address):
                return task, *self._queues.admit(address, load)

    async def ask_again(self, connection: Connection, request: TaskRequest) -> Submitted:
        """What was asked for before, in the transaction of the caller."""
        while True:
            task = await self._store.fetch(connection, request.key)
            if task is None:
                # It was forgotten at this very moment, being very old.
                return Submitted(None, invalid("request_id", "The request id was used before."))
            if not same_work(task.request, request):
                return Submitted(None, invalid("request_id", "The request id is that of another task."))
            step = receive(task, AskAgain(request.origin), self._now_ms())
            if await self._steps.store(connection, task, step):
                return Submitted(step.task, before=task, step=step)
