"""The connector between people and agents: creates the parts of this package and connects them."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from appservice.people.send_as_person import PersonSender
from bridge.agents.address import AgentAddress
from bridge.agents.routing_table import RoutingTable
from bridge.connectors.interface import Connector
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghosts import Ghosts
from bridge.observability.report import Report
from bridge.people.interpret import InterpreterContext
from bridge.people.invite_policy import InvitePolicy
from bridge.people.service.commands import CommandService
from bridge.people.service.event_inbox import EventInbox
from bridge.people.service.identities import Identities
from bridge.people.service.invites import NAME as INVITES
from bridge.people.service.invites import InviteHandler
from bridge.people.service.listener import IsHandledElsewhere, Listener, never_handled_elsewhere
from bridge.people.service.messenger import Messenger, Responder
from bridge.people.service.requests import RequestHandler, WithdrawalHandler
from bridge.people.service.rooms import AgentsRooms, NamespacesOf, RoomContextCache
from bridge.people.service.task_threads import ProgressReporter, TaskMessagesStore, TaskThreads
from bridge.people.service.work_indicator import WorkIndicator
from bridge.people.settings import NAME, PeopleSettings
from bridge.tasks.ports import Reply, Watcher
from bridge.tasks.service import TaskService
from bridge.tasks.task import Task
from federation.matrix.errors import MatrixError, PeerError
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.database import Database

RETENTION_MS: Final = 90 * 24 * 3_600_000
"""Age up to which a thread can be continued."""
PRUNE_INTERVAL: Final = 3_600.0
PRUNE_BATCH: Final = 1_000
MAX_INVITES: Final = 100
"""Maximum number of people who are invited at the same time."""


class People(Connector):
    """The connector between people and agents. The task service needs its `watcher` and `reply`, and is then
    passed to `use_task_service`."""

    name = NAME
    """The protocol of tasks that people request in rooms."""

    def __init__(
        self,
        backend: MatrixBackend,
        database: Database,
        routes: RoutingTable,
        settings: PeopleSettings,
        ghosts: Ghosts,
        *,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
        namespaces_of: NamespacesOf | None = None,
        is_foreign: Callable[[str], bool] = lambda room_id: False,
        speaks: PersonSender | None = None,
        is_handled_elsewhere: IsHandledElsewhere = never_handled_elsewhere,
        report: Report = lambda sentence, error: None,
    ) -> None:
        """`namespaces_of` returns the namespaces of an agent; by default the first one of the settings.
        `is_foreign` is true for rooms whose invites a connector answers. `speaks` is given if this node can
        act for people. `is_handled_elsewhere` is true for messages that a connector answers."""
        self._backend = backend
        self._database = database
        self._routes = routes
        self._settings = settings
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._is_handled_elsewhere = is_handled_elsewhere
        self._report = report
        self._identities = Identities(settings.names, routes)
        self.rooms = AgentsRooms(
            backend, settings, self._identities, ghosts, namespaces_of or self._main_namespace, report
        )
        self._messenger = Messenger(backend, database, settings.node_user, report)
        self._tasks = TaskMessagesStore(database)
        self._contexts = RoomContextCache(backend, self._identities, self.rooms)
        self._indicator = WorkIndicator(backend, self._tasks.is_answered)
        threads = TaskThreads(
            backend,
            settings,
            tasks=self._tasks,
            rooms=self.rooms,
            identities=self._identities,
            messenger=self._messenger,
            now_ms=now_ms,
            monotonic=monotonic,
            indicator=self._indicator,
            speaks=speaks,
            report=report,
        )
        self._progress_reporter = ProgressReporter(threads, report)
        self._is_ready = asyncio.Event()
        self.watcher: Watcher = _ThreadWatcher(threads, self._progress_reporter, self._is_ready)
        self.reply: Reply = _ThreadReply(self.watcher)
        self._invite_policy = InvitePolicy(
            settings.node_user,
            self._identities.is_local,
            self._identities.agent_of,
            lambda room_id: self.rooms.namespace(room_id) is not None,
            is_foreign,
            settings.rights,
        )
        self._task_service: TaskService | None = None
        self._inboxes: list[EventInbox] = []
        self._end_listening: Callable[[], None] = lambda: None
        self._background = BackgroundTasks(limit=MAX_INVITES)

    def use_task_service(self, task_service: TaskService) -> None:
        """Set the service to which tasks are submitted."""
        self._task_service = task_service

    async def start(self) -> None:
        """Create the agents' rooms and begin to read events. The task service must have been started."""
        assert self._task_service is not None, "use_task_service must be called before"
        await self.rooms.start(list(self._routes.table.agents_of(self._settings.node_id).values()))
        self._end_listening = self._routes.subscribe(self.rooms.agents_changed)
        self._is_ready.set()
        invite_handler = InviteHandler(
            self._backend, self._invite_policy, self._messenger, self._contexts, self._report
        )
        listener = self._listener(self._task_service)
        for name, part in ((NAME, listener), (INVITES, invite_handler)):
            inbox = EventInbox(
                self._backend,
                self._database,
                name,
                part.handle,
                self._report,
                wanted=part.concerns,
                queue_of=part.queue_of,
            )
            inbox.start()
            self._inboxes.append(inbox)
        self._background.supervise("prune old threads", self._prune, every=PRUNE_INTERVAL)

    async def stop(self) -> None:
        """Stop reading events. Later events are read after the next start."""
        inboxes, self._inboxes = self._inboxes, []
        for inbox in inboxes:
            await inbox.close()

    async def close(self) -> None:
        """Stop at once. Messages that were not sent are sent after the next start."""
        self._end_listening()
        await self.stop()
        await self._background.close()
        await self._progress_reporter.close()
        await self._indicator.close()
        await self.rooms.close()

    # -- inside --

    def _main_namespace(self, address: AgentAddress) -> Sequence[str]:
        return self._settings.namespaces[:1]

    def _listener(self, task_service: TaskService) -> Listener:
        identities = self._identities
        context = InterpreterContext(
            self._settings.node_user,
            identities.is_local,
            identities.agent_of,
            identities.ghost_of,
            self._routes.route,
            self._settings.prefix,
        )
        commands = CommandService(
            self._database,
            task_service,
            self._routes,
            self.rooms,
            self._settings,
            now_ms=self._now_ms,
            invite=self._invite,
        )
        responder = Responder(self._settings, self._messenger, self._monotonic)
        request_handler = RequestHandler(
            self._backend,
            self._database,
            task_service,
            self._settings.node_id,
            tasks=self._tasks,
            responder=responder,
            now_ms=self._now_ms,
        )
        return Listener(
            context,
            contexts=self._contexts,
            tasks=self._tasks,
            messenger=self._messenger,
            responder=responder,
            request_handler=request_handler,
            withdrawal_handler=WithdrawalHandler(
                self._backend, task_service, tasks=self._tasks, responder=responder, request_handler=request_handler
            ),
            commands=commands,
            is_handled_elsewhere=self._is_handled_elsewhere,
            now_ms=self._now_ms,
        )

    def _invite(self, user: str) -> None:
        """Invite the user to all agents' rooms in the background, because the user's server may be slow."""
        self._background.spawn("invite a person", self._invite_to_rooms(user))

    async def _invite_to_rooms(self, user: str) -> None:
        for room_id in list(self.rooms.all().values()):
            try:
                await self._backend.invite(room_id, self._settings.node_user, user)
            except (MatrixError, PeerError, ConnectionLost) as problem:
                self._report(f"{user} could not be invited to the room {room_id}.", problem)

    async def _prune(self) -> None:
        before = self._now_ms() - RETENTION_MS
        while await self._tasks.prune(before, PRUNE_BATCH) == PRUNE_BATCH:
            pass


class _ThreadWatcher:
    """Shows the changes of tasks in rooms, as soon as the rooms are ready."""

    def __init__(self, threads: TaskThreads, progress_reporter: ProgressReporter, is_ready: asyncio.Event) -> None:
        self._threads = threads
        self._progress_reporter = progress_reporter
        self._is_ready = is_ready

    async def show(self, task: Task) -> None:
        await self._is_ready.wait()
        if task.state.is_final:
            self._progress_reporter.ended(task)
        await self._threads.show(task)

    def progress(self, task: Task, content: Mapping[str, Any]) -> None:
        if self._is_ready.is_set():
            self._progress_reporter.progress(task, content)


class _ThreadReply:
    """Answers requests from rooms: the thread with the answer is the reply."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    async def progress(self, task: Task, content: Mapping[str, Any]) -> None:
        """The watcher receives the progress too, and shows it."""

    async def answer(self, task: Task) -> None:
        await self._watcher.show(task)
