"""Takes tasks in: what is asked for again is found, what is new is decided upon, all in one transaction or
one statement."""

from collections.abc import Callable
from dataclasses import dataclass

from bridge.routing import Local, Remote, Unknown
from bridge.service.agent_queues import AgentQueues
from bridge.service.task_lease import TaskLease
from bridge.service.task_steps import FORESEEN_MS, TaskSteps
from bridge.service.task_store import Keep, TaskStore, same_work
from bridge.service.task_timers import TaskTimers
from bridge.task import Step, Task, receive
from bridge.task_error import TaskError
from bridge.task_limits import TaskLimiter
from bridge.task_messages import Accept, AskAgain, Error, Message
from bridge.task_ports import Routes
from bridge.task_request import TaskRequest, check, invalid
from storage.database import Connection, Database


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
        database: Database,
        *,
        store: TaskStore,
        steps: TaskSteps,
        queues: AgentQueues,
        timers: TaskTimers,
        lease: TaskLease,
        routes: Routes,
        limiter: TaskLimiter,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        self._database = database
        self._store = store
        self._steps = steps
        self._queues = queues
        self._timers = timers
        self._lease = lease
        self._routes = routes
        self._limiter = limiter
        self._now_ms = now_ms
        self._monotonic = monotonic
        # What was asked for, perhaps, and will be read next.
        self._foreseen: tuple[TaskRequest, Step] | None = None

    async def take_in(
        self, connection: Connection, request: TaskRequest, *, is_allowed: bool = False
    ) -> Submitted:
        """In the transaction of the caller. `is_allowed`: it has been found to be within the limits."""
        refusal = None if is_allowed else self._refusal(request)
        if refusal is not None:
            return Submitted(None, refusal)
        task, message = await self._decide(connection, request)
        step = receive(task, message, task.received_at)
        self._steps.make_ready(step.task)
        new = await self._store.insert(connection, step.task, self._lease.number)
        if new is not None:
            return Submitted(new, is_new=True, step=step._replace(task=new))
        return await self._ask_again(connection, request)

    async def take_at_once(self, request: TaskRequest, keep: Keep) -> Submitted | None:
        """Together with what else `keep` writes, by one statement: if its agent is here and may have it at
        once, and it was not asked for before. None: it is not that simple. Then, and with a refusal, nothing
        was written, and it was found to be within the limits, or beyond them."""
        refusal = self._refusal(request)
        if refusal is not None:
            return Submitted(None, refusal)
        address = request.to_address
        settings = self._queues.would_accept(address)
        if settings is None or not isinstance(self._routes.route(address), Local):
            return None
        now_ms = self._now_ms()
        foreseen, self._foreseen = self._foreseen, None
        if (
            foreseen is not None
            and foreseen[0] is request
            and 0 <= now_ms - foreseen[1].task.received_at <= FORESEEN_MS
        ):
            step = foreseen[1]
        else:
            step = self._accepted(request, now_ms)
        async with self._database.statements() as connection:
            desk = self._lease.number
            new = await self._store.accept(connection, step.task, desk, settings.at_once, keep)
        return None if new is None else Submitted(new, is_new=True, step=step._replace(task=new))

    def foresee(self, request: TaskRequest) -> None:
        """It may be read in a moment, this very object: what becomes of it alone, if it is that simple, is
        found out already. It counts for nobody, and all that may change is asked again."""
        address = request.to_address
        if (
            check(request, self._limiter.limits.most_bytes) is None
            and self._queues.would_accept(address) is not None
            and isinstance(self._routes.route(address), Local)
        ):
            step = self._accepted(request, self._now_ms())
            self._store.foresee_new(step.task, self._lease.number)
            self._foreseen = request, step

    def _accepted(self, request: TaskRequest, now_ms: int) -> Step:
        task = Task(request, now_ms, now_ms + self._limiter.limits.timeout_ms(request.timeout_ms))
        return receive(task, Accept(), now_ms)

    def _refusal(self, request: TaskRequest) -> TaskError | None:
        node_id = request.key.node_id
        return self._limiter.ask(request, self._monotonic()) or self._limiter.too_many(
            node_id, self._timers.live(node_id), self._timers.live_of_all()
        )

    async def _decide(self, connection: Connection, request: TaskRequest) -> tuple[Task, Message]:
        now_ms = self._now_ms()
        deadline = now_ms + self._limiter.limits.timeout_ms(request.timeout_ms)
        route = self._routes.route(request.to_address)
        task = Task(request, now_ms, deadline, elsewhere=isinstance(route, Remote))
        match route:
            case Unknown():
                return task, Error(route.error())
            case Remote():
                return task, Accept()
            case Local(address):
                return task, await self._queues.admit(connection, address)

    async def _ask_again(self, connection: Connection, request: TaskRequest) -> Submitted:
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
