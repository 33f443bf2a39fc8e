"""Supervised background tasks, locks by key, and work shared by concurrent callers.

Every task that outlives the call that starts it belongs to a `BackgroundTasks`: asyncio alone does not report
a task that fails while nothing awaits it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable
from typing import Any, Final, Generic, ParamSpec, TypeVar
from weakref import WeakValueDictionary

import structlog
from prometheus_client import Counter

from storage.errors import LocalError

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
P = ParamSpec("P")

MIN_PAUSE: Final = 0.1
MAX_PAUSE: Final = 10.0
"""Seconds before a failed loop is restarted. The pause doubles with each consecutive failure."""
RECOVERED_AFTER: Final = 60.0
"""Seconds of running after which a loop that never returns counts as recovered."""
CLOSE_TIMEOUT: Final = 5.0

RESTARTS: Final = Counter(
    "palaver_background_restarts", "How often a background loop failed and was restarted.", ["task"], registry=None
)
"""Counts for the whole process; each node's registry includes it."""

log = structlog.get_logger("palaver.background")


class BackgroundTasks:
    """The background tasks of one component, which closes them.

    Names of tasks are constants: they become labels of a metric.
    """

    def __init__(self, limit: int | None = None) -> None:
        """`limit`: maximum number of spawned tasks at the same time. Set it where external requests spawn
        tasks."""
        self._limit = limit
        self._loops: set[asyncio.Task[None]] = set()
        self._spawned: set[asyncio.Task[Any]] = set()
        self._is_closed = False
        self._refuses = False

    @property
    def running(self) -> int:
        """The number of spawned tasks that have not ended. A task that has just ended does not count, even
        before its done callback has run, so that a caller it has woken can spawn the next one."""
        return sum(not task.done() for task in self._spawned)

    @property
    def is_full(self) -> bool:
        return self._limit is not None and self.running >= self._limit

    def supervise(self, name: str, function: Callable[[], Awaitable[object]], *, every: float = 0.0) -> None:
        """Call the function repeatedly until `close`: `every` seconds after it returned, and after a growing
        pause when it raised. It may be a loop that never returns."""
        task = asyncio.create_task(self._keep_calling(name, function, every), name=name)
        self._add(task, self._loops)

    def spawn(self, name: str, work: Coroutine[Any, Any, T], *, reports: bool = True) -> asyncio.Task[T]:
        """Run the coroutine as a task. A failure is logged; pass `reports=False` if the caller awaits the
        task and handles it. Beyond the limit, and after `close`, the task is cancelled before it begins."""
        refused = self._is_closed or self.is_full
        task = asyncio.create_task(work, name=name)
        if refused:
            task.cancel()
            if not self._is_closed and not self._refuses:
                log.warning("Too many background tasks; further ones are dropped.", task=name, limit=self._limit)
        self._refuses = refused
        self._add(task, self._spawned)
        task.add_done_callback(_report_failure if reports else _ignore_failure)
        return task

    async def drain(self, within: float) -> None:
        """Wait at most `within` seconds until the spawned tasks have ended."""
        tasks = self._spawned - {asyncio.current_task()}
        if tasks:
            await asyncio.wait(tasks, timeout=within)

    async def close(self, within: float = CLOSE_TIMEOUT) -> None:
        """Cancel all tasks and wait at most `within` seconds until they have ended. Errors of tasks are not
        raised here."""
        self._is_closed = True
        tasks = (self._loops | self._spawned) - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            _, pending = await asyncio.wait(tasks, timeout=within)
            for task in pending:
                log.error("A background task did not end in time.", task=task.get_name(), seconds=within)

    def _add(self, task: asyncio.Task[Any], tasks: set[asyncio.Task[Any]]) -> None:
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        if self._is_closed:
            task.cancel()

    async def _keep_calling(self, name: str, function: Callable[[], Awaitable[object]], every: float) -> None:
        loop = asyncio.get_running_loop()
        pause = 0.0
        while not self._is_closed:
            began = loop.time()
            try:
                await function()
                pause = 0.0
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
                    raise
                if loop.time() - began >= RECOVERED_AFTER:
                    pause = 0.0
                pause = min(max(2 * pause, MIN_PAUSE), MAX_PAUSE)
                RESTARTS.labels(name).inc()
                _report(error, "A background loop failed and is restarted.", task=name, seconds=pause)
            await asyncio.sleep(pause or every)


def _is_being_cancelled() -> bool:
    """Whether this task itself is being cancelled, rather than a task that it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _report_failure(task: asyncio.Task[Any]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _report(error, "A background task failed.", task=task.get_name())


def _ignore_failure(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception: asyncio would log it if the caller was cancelled."""
    if not task.cancelled():
        task.exception()


def _report(error: BaseException, sentence: str, **fields: object) -> None:
    if isinstance(error, LocalError):
        log.warning(sentence, problem=error.problem, advice=error.advice, **fields)
    else:
        log.error(sentence, exc_info=error, **fields)


class KeyedLock(Generic[K]):
    """One lock for each key, granted in the order of requests. Unused keys take no memory."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[K, asyncio.Lock] = WeakValueDictionary()

    @contextlib.asynccontextmanager
    async def hold(self, key: K) -> AsyncIterator[None]:
        # The weak dictionary keeps the lock while a task holds it or waits for it.
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            yield

    def __len__(self) -> int:
        """The number of keys in use."""
        return len(self._locks)


class SingleFlight(Generic[K, T]):
    """Concurrent calls with the same key share one execution and its result."""

    def __init__(self) -> None:
        self._tasks: dict[K, asyncio.Task[T]] = {}

    async def run(self, key: K, function: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `function`. Cancelling a caller does not cancel the execution."""
        task = self._tasks.get(key)
        if task is None:
            task = asyncio.create_task(_awaited(function))
            self._tasks[key] = task
            task.add_done_callback(lambda done: self._ended(key, done))
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Cancel all running executions."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT)

    def _ended(self, key: K, done: asyncio.Task[T]) -> None:
        if self._tasks.get(key) is done:
            del self._tasks[key]
        if not done.cancelled():
            # The callers get the error; asyncio would log it as well if all of them were cancelled.
            done.exception()


async def _awaited(function: Callable[[], Awaitable[T]]) -> T:
    return await function()


async def uninterrupted(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Like `asyncio.to_thread`, but a cancelled caller still waits until the thread has ended.

    Otherwise the caller could close a file to which the thread still writes, and the descriptor could already
    belong to another file.
    """
    running = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not running.cancelled():
            running.exception()  # otherwise asyncio would log that it was never retrieved
        raise cancelled
    return running.result()
