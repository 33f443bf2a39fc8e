"""Does what is due of tasks, and remembers that it was done.

Each thing is done once at a time for each task, some of them at the same time for different ones. What fails
is tried again; what goes on failing stays due, and is found by the desk's next sweep, in whichever process.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bridge.retry import DEFAULT_RETRY_POLICY, RetryPolicy
from bridge.service.task_store import TaskStore
from bridge.service.task_ticks import ONCE, TaskTicks
from bridge.task import Task
from bridge.task_messages import Due, Error, Message, Unreachable
from bridge.task_ports import (
    Delivered,
    Delivery,
    MakesReady,
    NotHere,
    NotNow,
    Rejected,
    Reply,
    Routes,
    TaskObserver,
    Watcher,
    WatchesMany,
)
from bridge.task_request import TaskKey
from storage.connecting import ConnectionLost
from storage.database import Database

PATIENCE: Final = 60.0
"""Seconds that a connector has for one thing."""
AT_ONCE: Final = 100
PAUSE: Final = 0.05
"""Seconds for which is gathered what has been done, after those that people wait to be shown it."""
GATHERED: Final = 0.25
"""Seconds for which tasks are gathered that people are shown together, after those that they wait anyway."""
MOST_TOGETHER: Final = 20
"""Of them at once: what others wait for gets in between."""
MOST_PROGRESS: Final = 100
"""Messages of one task that wait to be passed on. The oldest is left out: the newest tells most."""


@dataclass(slots=True)
class _Lane:
    task: Task
    work: "asyncio.Task[None] | None" = None
    is_late: bool = False

    def end(self) -> None:
        """It has had its time."""
        if self.work is not None:
            self.is_late = True
            self.work.cancel()


@dataclass(slots=True)
class _Talk:
    """What an agent has said of its work and was not passed on yet."""

    waiting: deque[Mapping[str, Any]]
    work: "asyncio.Task[None] | None" = None


@dataclass(frozen=True, slots=True)
class Ports:
    """The connectors, by their names, and the protocols that ask for tasks, by theirs. `shown_after`: seconds
    until people are shown a step, most often with those that follow it."""

    deliveries: Mapping[str, Delivery]
    replies: Mapping[str, Reply]
    routes: Routes
    observer: TaskObserver
    watcher: Watcher | None = None
    retry: RetryPolicy = field(default=DEFAULT_RETRY_POLICY)
    shown_after: float = 0.0


class TaskEffects:
    """`happened` is told when a task cannot be delivered. `not_here` is told of tasks of which another
    process may do what is due."""

    def __init__(
        self,
        database: Database,
        store: TaskStore,
        ports: Ports,
        *,
        happened: Callable[[TaskKey, Message], Awaitable[Any]],
        not_here: Callable[[TaskKey], None],
    ) -> None:
        self._ports = ports
        # Who can make something of a task before it is stored: a head start for who waits elsewhere.
        self._readies = {
            Due.DELIVER: _that_make_ready(ports.deliveries),
            Due.ANSWER: _that_make_ready(ports.replies),
        }
        self._happened = happened
        self._not_here = not_here
        self._lanes: dict[tuple[TaskKey, Due], _Lane] = {}
        self._talking: dict[TaskKey, _Talk] = {}
        # That are to be shown, each with when; and what waits for the first of them.
        self._to_show: deque[tuple[float, _Lane]] = deque()
        self._showing: asyncio.TimerHandle | None = None
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._ticks = TaskTicks(database, store, PAUSE + ports.shown_after, ports.observer.problem)

    def start(self) -> None:
        self._ticks.start()

    async def close(self) -> None:
        """Stop in the middle of things; what was not done stays due."""
        works = [lane.work for lane in self._lanes.values() if lane.work is not None]
        works += [talk.work for talk in self._talking.values() if talk.work is not None]
        if self._showing is not None:
            self._showing.cancel()
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        try:
            await self._ticks.close()
        except ConnectionLost:
            self._ports.observer.problem("What was done of tasks may be done again: Postgres is away.", None)

    def make_ready(self, task: Task) -> None:
        """The task as it is to be; it is stored next. What is said of it is made meanwhile, so that only
        sending it is left for afterwards. If it comes to nothing, nobody hears of it."""
        who: MakesReady | None = None
        if Due.ANSWER in task.due:
            who = self._readies[Due.ANSWER].get(task.request.origin.protocol)
        elif Due.DELIVER in task.due:
            agent = self._ports.routes.agent(task.request.to_address)
            who = None if agent is None else self._readies[Due.DELIVER].get(agent.connector)
        if who is not None:
            # By the next turn of the loop what this one writes has gone out: Postgres has it first.
            asyncio.get_running_loop().call_soon(_make_ready, who, task)

    def do(self, task: Task, only: Collection[Due] = tuple(Due), *, announce: bool = True) -> None:
        """What is due of it. `announce`: other processes are told of what cannot be done in this one."""
        self._ticks.leave_out_older(task)
        key = task.key
        for due in only:
            lane = self._lanes.get((key, due))
            if lane is not None:
                if task.version > lane.task.version:
                    lane.task = task  # perhaps it is no longer due
            elif due in task.due and not self._ticks.was_done(task, due):
                lane = self._lanes[key, due] = _Lane(task)
                if due is Due.SHOW and self._ports.shown_after:
                    self._show_later(lane)
                else:
                    lane.work = asyncio.create_task(self._run(due, lane, announce=announce))

    def say(self, task: Task, content: Mapping[str, Any]) -> None:
        """Pass on what an agent says of its work, in its order."""
        talk = self._talking.get(task.key)
        if talk is not None:
            talk.waiting.append(content)
            return
        talk = self._talking[task.key] = _Talk(deque([content], MOST_PROGRESS))
        talk.work = asyncio.create_task(self._pass_on(task, talk.waiting))

    # -- one thing of one task --

    async def _run(self, due: Due, lane: _Lane, *, announce: bool) -> None:
        key = lane.task.key
        failures = 0
        try:
            while due in lane.task.due:
                task = lane.task
                outcome = await self._try(due, lane)
                if isinstance(outcome, NotNow):
                    failures += 1
                    delay_ms = self._ports.retry.delay_ms(failures)
                    if delay_ms is None:
                        await self._give_up(due, task, outcome)
                        return
                    await asyncio.sleep(delay_ms / 1000)
                elif isinstance(outcome, NotHere):
                    if announce:
                        self._not_here(key)
                    return
                elif isinstance(outcome, Rejected):
                    await self._happened(key, Error(outcome.error))
                    return
                elif due in ONCE or lane.task is task:
                    self._ticks.done(lane.task, due)
                    return
                else:
                    self._ticks.done(task, due)
        except ConnectionLost as error:
            self._ports.observer.problem(f"Something waits to be done of the task {key}.", error)
        finally:
            del self._lanes[key, due]

    async def _try(self, due: Due, lane: _Lane) -> Delivered | Rejected | NotNow | NotHere:
        task = lane.task
        try:
            if due is Due.CANCEL:
                await self._after_delivery(task.key)
            elif due is Due.ANSWER and task.key in self._talking:
                await self._after_talk(task.key)
            await self._turns.acquire()
            # A bare timer: somebody at another node waits for this.
            late = asyncio.get_running_loop().call_later(PATIENCE, lane.end)
            try:
                return await self._perform(due, task)
            finally:
                late.cancel()
                self._turns.release()
        except ConnectionLost:
            return NotNow("The database is away.")
        except asyncio.CancelledError:
            if not lane.is_late or lane.work is None or lane.work.uncancel():
                raise
            lane.is_late = False
            return NotNow("It took too long.")
        except TimeoutError:
            return NotNow("It took too long.")
        except Exception as error:
            self._ports.observer.problem(f"The task {task.key} could not be worked on: {due}.", error)
            return NotNow("It failed.")

    async def _perform(self, due: Due, task: Task) -> Delivered | Rejected | NotNow | NotHere:
        match due:
            case Due.DELIVER:
                delivery = self._delivery(task)
                return NotHere() if delivery is None else await delivery.deliver(task)
            case Due.CANCEL:
                delivery = self._delivery(task)
                return Delivered() if delivery is not None and await delivery.cancel(task) else NotHere()
            case Due.ANSWER:
                reply = self._ports.replies.get(task.request.origin.protocol)
                if reply is None:
                    return NotHere()
                await reply.answer(task)
            case Due.SHOW:
                if self._ports.watcher is not None:
                    await self._ports.watcher.show(task)
        return Delivered()

    def _delivery(self, task: Task) -> Delivery | None:
        agent = self._ports.routes.agent(task.request.to_address)
        return None if agent is None else self._ports.deliveries.get(agent.connector)

    async def _after_delivery(self, key: TaskKey) -> None:
        """An agent is told to stop after it was told to begin."""
        lane = self._lanes.get((key, Due.DELIVER))
        if lane is not None and lane.work is not None:
            await asyncio.wait({lane.work}, timeout=PATIENCE)

    async def _after_talk(self, key: TaskKey) -> None:
        """Nothing is said of a task any more once it is answered: what came before is told before."""
        talk = self._talking.get(key)
        if talk is not None and talk.work is not None:
            await asyncio.wait({talk.work}, timeout=PATIENCE)

    async def _give_up(self, due: Due, task: Task, outcome: NotNow) -> None:
        if due is Due.DELIVER:
            await self._happened(task.key, Unreachable(outcome.reason))
        else:
            self._ports.observer.problem(
                f"The task {task.key} waits: {due} has failed, and will be tried again.", None
            )

    async def _pass_on(self, task: Task, waiting: deque[Mapping[str, Any]]) -> None:
        reply, watcher = self._ports.replies.get(task.request.origin.protocol), self._ports.watcher
        told: list[Reply | Watcher] = [one for one in (reply, watcher) if one is not None]
        try:
            while waiting:
                content = waiting.popleft()
                for one in told:
                    try:
                        async with self._turns, asyncio.timeout(PATIENCE):
                            await one.progress(task, content)
                    except Exception as error:
                        self._ports.observer.problem(f"A report on the task {task.key} is lost.", error)
        finally:
            del self._talking[task.key]

    # -- showing people --

    def _show_later(self, lane: _Lane) -> None:
        """Many together, and most of them with how they have ended."""
        loop = asyncio.get_running_loop()
        after = self._ports.shown_after
        self._to_show.append((loop.time() + after, lane))
        if self._showing is None:
            self._showing = loop.call_later(after + GATHERED, self._show_gathered)

    def _show_gathered(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._showing = None
        lanes: list[_Lane] = []
        while self._to_show and self._to_show[0][0] <= now and len(lanes) < MOST_TOGETHER:
            lanes.append(self._to_show.popleft()[1])
        if self._to_show:
            self._showing = loop.call_at(max(now, self._to_show[0][0] + GATHERED), self._show_gathered)
        work = asyncio.create_task(self._show(lanes))
        for lane in lanes:
            lane.work = work

    async def _show(self, lanes: Sequence[_Lane]) -> None:
        """Together if that can be. What cannot be shown with others is no harm to them."""
        watcher = self._ports.watcher
        tasks = [lane.task for lane in lanes]
        wanted = [task for task in tasks if Due.SHOW in task.due]
        is_shown = watcher is None  # there is nobody to whom it could be shown
        if isinstance(watcher, WatchesMany) and wanted:
            try:
                async with self._turns, asyncio.timeout(PATIENCE):
                    await watcher.show_all(wanted)
                is_shown = True
            except (ConnectionLost, TimeoutError):
                pass  # what is still so then is told of each
            except Exception as error:
                self._ports.observer.problem("Some tasks could not be shown together.", error)
        for lane, task in zip(lanes, tasks, strict=True):
            if is_shown and Due.SHOW in task.due:
                self._ticks.done(task, Due.SHOW)
            if Due.SHOW not in lane.task.due or (is_shown and lane.task is task):
                del self._lanes[task.key, Due.SHOW]
            elif is_shown:
                self._show_later(lane)  # it has gone on meanwhile
            else:
                lane.work = asyncio.create_task(self._run(Due.SHOW, lane, announce=False))


def _that_make_ready(connectors: Mapping[str, object]) -> Mapping[str, MakesReady]:
    return {name: one for name, one in connectors.items() if isinstance(one, MakesReady)}


def _make_ready(who: MakesReady, task: Task) -> None:
    # It goes wrong once more when it is done, and is told then.
    with contextlib.suppress(Exception):
        who.make_ready(task)
