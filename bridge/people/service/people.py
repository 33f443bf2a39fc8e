"""People and agents: their rooms, what is said there, and what becomes of it. All parts put together."""

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
from bridge.people.interpret import Ears
from bridge.people.invite_policy import Door
from bridge.people.service.commands import CommandDesk
from bridge.people.service.event_inbox import EventInbox
from bridge.people.service.identities import Identities
from bridge.people.service.invites import NAME as DOORS
from bridge.people.service.invites import Doorkeeper
from bridge.people.service.listener import IsForOthers, Listener, nobody_elses
from bridge.people.service.messenger import Telling, Voice
from bridge.people.service.requests import Asking, Withdrawing
from bridge.people.service.rooms import AgentsRooms, NamespacesOf, RoomMemory
from bridge.people.service.task_threads import Reporting, Showing, ShownTasks
from bridge.people.settings import NAME, PeopleSettings
from bridge.tasks.ports import Reply, Watcher
from bridge.tasks.service import TaskService
from bridge.tasks.task import Task
from federation.matrix.errors import MatrixError, PeerError
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.database import Database

KEPT_MS: Final = 90 * 24 * 3_600_000
"""For which a thread can be gone on with."""
PRUNED_EVERY: Final = 3_600.0
FORGOTTEN_AT_ONCE: Final = 1_000
MOST_INVITED: Final = 100
"""People who are being invited at the same time."""


class People(Connector):
    """A connector to people: a watcher and a reply of the task service, passed to `use_task_service`."""

    name = NAME
    """The protocol in which people ask."""

    def __init__(
        self,
        side: MatrixBackend,
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
        is_for_others: IsForOthers = nobody_elses,
        report: Report = lambda sentence, error: None,
    ) -> None:
        """`namespaces_of` says in which namespaces an agent is: in the first one of the settings if nothing
        does. `is_foreign` is true of rooms that are some connector's business, and into which it answers
        invites itself. `speaks` is there where this node may speak as people. `is_for_others` is true of what
        some connector answers that is said to it."""
        self._side = side
        self._database = database
        self._routes = routes
        self._settings = settings
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._is_for_others = is_for_others
        self._report = report
        self._identities = Identities(settings.names, routes)
        self.rooms = AgentsRooms(
            side, settings, self._identities, ghosts, namespaces_of or self._main_namespace, report
        )
        self._voice = Voice(side, database, settings.node_user, report)
        self._tasks = ShownTasks(database)
        self._memory = RoomMemory(side, self._identities, self.rooms)
        showing = Showing(
            side,
            settings,
            tasks=self._tasks,
            rooms=self.rooms,
            identities=self._identities,
            voice=self._voice,
            now_ms=now_ms,
            monotonic=monotonic,
            speaks=speaks,
            report=report,
        )
        self._reporting = Reporting(showing, report)
        self._is_ready = asyncio.Event()
        self.watcher: Watcher = _Watching(showing, self._reporting, self._is_ready)
        self.reply: Reply = _Answering(self.watcher)
        self._door = Door(
            settings.node_user,
            self._identities.is_ours,
            self._identities.agent_of,
            lambda room_id: self.rooms.namespace(room_id) is not None,
            is_foreign,
            settings.rights,
        )
        self._task_service: TaskService | None = None
        self._inboxes: list[EventInbox] = []
        self._end_listening: Callable[[], None] = lambda: None
        self._background = BackgroundTasks(limit=MOST_INVITED)

    def use_task_service(self, task_service: TaskService) -> None:
        """Where tasks are taken in."""
        self._task_service = task_service

    async def start(self) -> None:
        """The rooms are there when this returns, and people are heard. The desk has been started."""
        assert self._task_service is not None, "somebody has to take the tasks"
        await self.rooms.start(list(self._routes.table.agents_of(self._settings.node_id).values()))
        self._end_listening = self._routes.subscribe(self.rooms.agents_changed)
        self._is_ready.set()
        doorkeeper = Doorkeeper(self._side, self._door, self._voice, self._memory, self._report)
        listener = self._listener(self._task_service)
        for name, part in ((NAME, listener), (DOORS, doorkeeper)):
            inbox = EventInbox(
                self._side,
                self._database,
                name,
                part.handle,
                self._report,
                wanted=part.concerns,
                queue_of=part.queue_of,
            )
            inbox.start()
            self._inboxes.append(inbox)
        self._background.supervise("forget old threads", self._prune, every=PRUNED_EVERY)

    async def stop(self) -> None:
        """What is said from now on is heard the next time."""
        inboxes, self._inboxes = self._inboxes, []
        for inbox in inboxes:
            await inbox.close()

    async def close(self) -> None:
        """Stop in the middle of things; what was not said is said the next time."""
        self._end_listening()
        await self.stop()
        await self._background.close()
        await self._reporting.close()
        await self.rooms.close()

    # -- inside --

    def _main_namespace(self, address: AgentAddress) -> Sequence[str]:
        return self._settings.namespaces[:1]

    def _listener(self, task_service: TaskService) -> Listener:
        identities = self._identities
        ears = Ears(
            self._settings.node_user,
            identities.is_ours,
            identities.agent_of,
            identities.ghost_of,
            self._routes.route,
            self._settings.prefix,
        )
        commands = CommandDesk(
            self._database,
            task_service,
            self._routes,
            self.rooms,
            self._settings,
            now_ms=self._now_ms,
            invite=self._invite,
        )
        telling = Telling(self._settings, self._voice, self._monotonic)
        asking = Asking(
            self._side,
            self._database,
            task_service,
            self._settings.node_id,
            tasks=self._tasks,
            telling=telling,
            now_ms=self._now_ms,
        )
        return Listener(
            ears,
            memory=self._memory,
            tasks=self._tasks,
            voice=self._voice,
            telling=telling,
            asking=asking,
            withdrawing=Withdrawing(
                self._side, task_service, tasks=self._tasks, telling=telling, asking=asking
            ),
            commands=commands,
            is_for_others=self._is_for_others,
            now_ms=self._now_ms,
        )

    def _invite(self, user: str) -> None:
        """Into all rooms of agents. His server is asked meanwhile, and may take its time."""
        self._background.spawn("invite a person", self._invite_to_rooms(user))

    async def _invite_to_rooms(self, user: str) -> None:
        for room_id in list(self.rooms.all().values()):
            try:
                await self._side.invite(room_id, self._settings.node_user, user)
            except (MatrixError, PeerError, ConnectionLost) as problem:
                self._report(f"{user} could not be invited into the room {room_id}.", problem)

    async def _prune(self) -> None:
        before = self._now_ms() - KEPT_MS
        while await self._tasks.prune(before, FORGOTTEN_AT_ONCE) == FORGOTTEN_AT_ONCE:
            pass


class _Watching:
    """What the desk tells of tasks. There is nothing to show before the rooms are there."""

    def __init__(self, showing: Showing, reporting: Reporting, is_ready: asyncio.Event) -> None:
        self._showing = showing
        self._reporting = reporting
        self._is_ready = is_ready

    async def show(self, task: Task) -> None:
        await self._is_ready.wait()
        if task.state.is_final:
            self._reporting.ended(task)
        await self._showing.show(task)

    def progress(self, task: Task, content: Mapping[str, Any]) -> None:
        if self._is_ready.is_set():
            self._reporting.progress(task, content)


class _Answering:
    """Who has asked in a room is answered by what all see there."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    async def progress(self, task: Task, content: Mapping[str, Any]) -> None:
        """The watcher is told of it too."""

    async def answer(self, task: Task) -> None:
        await self._watcher.show(task)
