"""Accepts task requests: decides on new ones, and finds the task of repeated ones."""

from collections.abc import Callable
from dataclasses import dataclass

from bridge.agents.routing import Local, Remote, Unknown
from bridge.agents.routing_table import RoutingTable
from bridge.tasks.errors import TaskError
from bridge.tasks.lease import TaskLease
from bridge.tasks.limits import TaskLimiter
from bridge.tasks.messages import Accept, Error, Message, Resubmit
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
class Submission:
    """A task, or the reason for which the request was refused. A refusal is not stored: the requester may
    send the request again under the same id."""

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
        self, connection: Connection, request: TaskRequest, position: ReaderPosition | None = None
    ) -> Submission | None:
        """Accept a new request; None if its request id is known, so that `resubmit` is to be called.

        This takes one statement, unless the agent's load differs from the one that was assumed. `position` is
        the stream position of a reader; it is stored in the same transaction unless the request is refused.
        """
        refusal = self._refusal(request)
        if refusal is not None:
            return Submission(None, refusal)
        load = Load()
        while True:
            task, message, room = self._decide(request, load)
            step = receive(task, message, task.received_at)
            new, found = await self._store.accept(connection, step.task, self._lease.number, room, position)
            if new is not None:
                return Submission(new, is_new=True, step=step._replace(task=new))
            if found is None or self._decide(request, found)[1] == message:
                return None
            load = found

    def _refusal(self, request: TaskRequest) -> TaskError | None:
        node_id = request.key.node_id
        return self._limiter.check(request, self._monotonic()) or self._limiter.check_live_tasks(
            node_id, self._timers.live(node_id), self._timers.live_total()
        )

    def _decide(self, request: TaskRequest, load: Load) -> tuple[Task, Message, AgentCapacity | None]:
        """The new task, the message that decides its first step if its agent has this load, and the room that
        the agent must have for it."""
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

    async def resubmit(self, connection: Connection, request: TaskRequest) -> Submission:
        """Handle a request whose id is known, in the caller's transaction."""
        while True:
            task = await self._store.fetch(connection, request.key)
            if task is None:
                # The old task was pruned between the two statements.
                return Submission(None, invalid("request_id", "The request id was used before."))
            if not same_work(task.request, request):
                return Submission(None, invalid("request_id", "The request id belongs to another task."))
            step = receive(task, Resubmit(request.origin), self._now_ms())
            if await self._steps.store(connection, task, step):
                return Submission(step.task, before=task, step=step)
