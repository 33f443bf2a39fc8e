"""Shows people what becomes of tasks: the thread, the sign, the answer.

Each step looks at what has been shown, shows what is missing, and writes down that it did. All of it may be
done twice: what is said bears a name, under which it is the same event.

Tasks as people see them, in the database.

Lets people see the progress of tasks: the newest of it, and not more often than they can read.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cachetools import LRUCache

from appservice.people.send_as_person import PersonSender
from bridge.agents.address import AgentAddress
from bridge.matrix.backend import MatrixBackend
from bridge.observability.report import Report
from bridge.people.message import MESSAGE, NO_ANSWER, Shown, Sign, needs_sign, sign_of
from bridge.people.requester import in_name_of
from bridge.people.service.identities import Identities
from bridge.people.service.messenger import Voice, beside
from bridge.people.service.rooms import AgentsRooms
from bridge.people.settings import NAME, PeopleSettings
from bridge.people.texts.agent_output import File
from bridge.people.texts.task_texts import (
    Outcome,
    name_of,
    outcome,
    own_request_text,
    pause,
    progress_text,
    request_text,
)
from bridge.people.texts.text import MARK, MOST_BYTES_EDITABLE, Kind, Text, content_of
from bridge.tasks.request import TaskKey
from bridge.tasks.task import Task
from federation.matrix.errors import MatrixError
from federation.matrix.message_content import Content, MsgType, text
from federation.peers.limits import Buckets
from storage.concurrency import BackgroundTasks, KeyedLock
from storage.database import Connection, Database
from storage.people import people
from storage.people.people import TaskMessagesRow

MOST_OF_THREAD = 50
"""Tasks of one thread that are looked at, the newest."""


def row_of(shown: Shown) -> TaskMessagesRow:
    return TaskMessagesRow(
        task=shown.task,
        requester_node=shown.key.node_id,
        request_id=shown.key.request_id,
        agent=str(shown.agent),
        room_id=shown.room_id,
        root=shown.root,
        request=shown.request,
        asked_by=shown.asked_by,
        is_threaded=shown.is_threaded,
        reaction=None if shown.sign is None else shown.sign.value,
        reaction_event=shown.sign_event,
        progress=shown.progress,
        answer=shown.answer,
        withdrawn_by=shown.withdrawn_by,
        made_at=shown.made_at,
    )


def shown_of(row: TaskMessagesRow) -> Shown:
    agent = AgentAddress.parse(row.agent)
    assert isinstance(agent, AgentAddress), "it was one when it was written"
    return Shown(
        task=row.task,
        key=TaskKey(row.requester_node, row.request_id),
        agent=agent,
        room_id=row.room_id,
        root=row.root,
        request=row.request,
        asked_by=row.asked_by,
        is_threaded=row.is_threaded,
        made_at=row.made_at,
        sign=None if row.reaction is None else Sign(row.reaction),
        sign_event=row.reaction_event,
        progress=row.progress,
        answer=row.answer,
        withdrawn_by=row.withdrawn_by,
    )


class ShownTasks:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def insert(self, connection: Connection, shown: Shown) -> None:
        """In the transaction of the caller."""
        await people.insert_task_messages(connection, row_of(shown))

    async def fetch(self, task: int) -> Shown | None:
        row = await self._database.read(lambda connection: people.fetch_task_messages(connection, task))
        return None if row is None else shown_of(row)

    async def find(self, room_id: str, event_id: str) -> list[Shown]:
        """Those to which a message belongs, the newest first."""
        async with self._database.transaction(readonly=True) as connection:
            rows = await people.find_task_messages(connection, room_id, event_id, MOST_OF_THREAD)
        return [shown_of(row) for row in rows]

    async def add(self, shown: Shown) -> Shown:
        """One of which no task hangs; what is known already stays."""
        async with self._database.autocommit() as connection:
            return shown_of(await people.insert_or_fetch_task_messages(connection, row_of(shown)))

    async def set_sign(self, task: int, sign: Sign | None, event_id: str | None) -> None:
        async with self._database.autocommit() as connection:
            await people.set_reaction(connection, task, None if sign is None else sign.value, event_id)

    async def set_progress(self, task: int, event_id: str) -> None:
        async with self._database.autocommit() as connection:
            await people.set_progress(connection, task, event_id)

    async def set_answer(self, task: int, event_id: str) -> None:
        async with self._database.autocommit() as connection:
            await people.set_answer(connection, task, event_id)

    async def withdraw(self, task: int, event_id: str) -> bool:
        """Whether it is this event by which it is withdrawn."""
        async with self._database.transaction() as connection:
            return await people.set_withdrawn(connection, task, event_id) == event_id

    async def set_cancelled(self, task: int, event_id: str) -> None:
        async with self._database.autocommit() as connection:
            await people.set_cancelled(connection, task, event_id)

    async def is_cancelled_by(self, task: int, event_id: str) -> bool:
        """Whether this is the event that has taken it back last."""
        return await self._database.read(
            lambda connection: people.is_cancelled_by(connection, task, event_id)
        )

    async def prune(self, made_before: int, limit: int) -> int:
        async with self._database.transaction() as connection:
            return await people.prune_task_messages(connection, made_before, limit)


MOST_ROOMS = 1_000
MOST_TASKS = 1_000


class Showing:
    def __init__(
        self,
        side: MatrixBackend,
        settings: PeopleSettings,
        *,
        tasks: ShownTasks,
        rooms: AgentsRooms,
        identities: Identities,
        voice: Voice,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float],
        speaks: PersonSender | None = None,
        report: Report = lambda sentence, error: None,
    ) -> None:
        self._side = side
        self._settings = settings
        self._tasks = tasks
        self._rooms = rooms
        self._identities = identities
        self._voice = voice
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._speaks = speaks
        self._report = report
        self._shown: Buckets[str] = Buckets(MOST_ROOMS)
        self._left_out: dict[str, int] = {}
        # Tasks that are not looked up anew before they end: they were left out a moment ago.
        self._not_shown: LRUCache[int, bool] = LRUCache(MOST_TASKS)
        # One thing of a task after the other.
        self._turns: KeyedLock[int] = KeyedLock()

    async def show(self, task: Task) -> None:
        """It has got into this state, or was in it before."""
        if not self.is_shown(task):
            return
        async with self._turns.hold(task.id):
            shown = await self._fetch(task) or await self._begin(task)
            if shown is None:
                return
            if shown.withdrawn_by is not None:
                await self._take_sign_back(shown)
                return
            answer = shown.answer
            if task.state.is_final and answer is None:
                answer = await self._answer(task, shown)
            sign = sign_of(task.state)
            # What another process shows later may be what was before.
            if shown.sign in {None, Sign.WAITING} and needs_sign(shown.sign, sign, answer):
                await self._sign(task, shown, sign)

    async def report(self, task: Task, said: Text) -> bool:
        """What is known of its progress. Whether people see it."""
        if not self.is_shown(task):
            return False
        async with self._turns.hold(task.id):
            shown = await self._fetch(task) or await self._begin(task)
            if shown is None or shown.withdrawn_by is not None or shown.answer is not None:
                return False
            content = content_of(
                said, Kind.PROGRESS, task_id=task.request.task_id, most_bytes=MOST_BYTES_EDITABLE
            )
            if shown.progress is not None:
                return await self._voice.edit(shown.room_id, shown.progress, content) is not None
            speaker = await self.speaker(shown.room_id, shown.agent, as_agent=True)
            if speaker is None:
                return False
            event_id = await self._say(shown, speaker, content, f"task/{task.id}/progress")
            if event_id is not None:
                await self._tasks.set_progress(task.id, event_id)
            return event_id is not None

    # -- the beginning --

    def is_shown(self, task: Task) -> bool:
        """By the settings."""
        return in_name_of(task.request, self._settings.node_id) is not None or self._settings.show == "all"

    def is_asked_in_a_name(self, task: Task) -> bool:
        """Whether an operator has asked for it in the name of a person."""
        return (
            task.request.origin.protocol != NAME
            and in_name_of(task.request, self._settings.node_id) is not None
        )

    async def _fetch(self, task: Task) -> Shown | None:
        if not task.state.is_final and self._not_shown.get(task.id) is not None:
            return None
        return await self._tasks.fetch(task.id)

    async def room_for(self, task: Task) -> str | None:
        """Where one that no person has asked for begins to be shown; None if it is not."""
        request = task.request
        room_id = self._rooms.room(request.to_address, request.from_address)
        # What people ask for is shown however much there is.
        if room_id is None or self.is_asked_in_a_name(task):
            return room_id
        if self._shown.take(room_id, self._settings.shown, self._monotonic()) is not None:
            self._not_shown[task.id] = True
            if task.state.is_final:
                self._left_out[room_id] = self._left_out.get(room_id, 0) + 1
            return None
        await self._tell_left_out(room_id)
        return room_id

    async def _begin(self, task: Task) -> Shown | None:
        """The message that asks, where no person has written one."""
        request = task.request
        if request.origin.protocol == NAME:
            return None
        room_id = await self.room_for(task)
        if room_id is None:
            return None
        person = in_name_of(request, self._settings.node_id)
        root = await self._ask_as(person, room_id, task) if person is not None else None
        asked_by, sign = person, None
        if root is None:
            asked_by, sign = None, sign_of(task.state)
            content = self.request(task, sign)
            root = await self._voice.say(room_id, self._settings.node_user, content, f"task/{task.id}")
        if root is None:
            return None
        return await self._tasks.add(
            Shown(
                task=task.id,
                key=task.key,
                agent=request.to_address,
                room_id=room_id,
                root=root,
                request=root,
                asked_by=asked_by,
                is_threaded=True,
                made_at=self._now_ms(),
                sign=sign,
            )
        )

    async def _ask_as(self, person: str, room_id: str, task: Task) -> str | None:
        """The person's own message; None if this node cannot say it, or the person is not in the room."""
        if self._speaks is None or not await self._speaks.can_send_as(person):
            return None
        ghost = self._identities.ghost_of(task.request.to_address)
        content = content_of(
            own_request_text(task, ghost),
            Kind.REQUEST,
            task_id=task.request.task_id,
            msgtype="m.text",
            mentions=() if ghost is None else (ghost,),
        )
        try:
            return await self._speaks.send_as(
                room_id, person, MESSAGE, content, transaction_id=f"task/{task.id}"
            )
        except MatrixError as refused:
            if refused.status >= 500:
                raise
            self._report(f"A task could not be asked for as {person} in the room {room_id}.", refused)
            return None

    def request(self, task: Task, sign: Sign) -> Content:
        """The message that asks, as it looks when the task stands like this."""
        said = request_text(task, sign, self._settings.node_id)
        return content_of(said, Kind.REQUEST, task_id=task.request.task_id, most_bytes=MOST_BYTES_EDITABLE)

    async def _tell_left_out(self, room_id: str) -> None:
        count = self._left_out.pop(room_id, 0)
        if count:
            said = Text.of(f"Too many at once to be shown: {count} other tasks have ended meanwhile.")
            await self._voice.say(room_id, self._settings.node_user, content_of(said, Kind.WORD))

    # -- how it stands --

    async def _sign(self, task: Task, shown: Shown, sign: Sign) -> None:
        if shown.asked_by is None:
            content = self.request(task, sign)
            await self._voice.edit(shown.room_id, shown.root, content, f"task/{task.id}/{sign}")
            await self._tasks.set_sign(task.id, sign, None)
            return
        # "status by reaction": the message is a person's, and stays what it is.
        await self._take_sign_back(shown)
        speaker = await self.speaker(shown.room_id, shown.agent, as_agent=True)
        event_id = None
        if speaker is not None:
            event_id = await self._voice.react(
                shown.room_id, speaker, shown.request, sign.emoji, f"task/{task.id}/{sign}"
            )
        await self._tasks.set_sign(task.id, sign, event_id)

    async def _take_sign_back(self, shown: Shown) -> None:
        if shown.sign_event is not None:
            await self._voice.take_back(shown.room_id, shown.sign_event, f"task/{shown.task}/-{shown.sign}")
            await self._tasks.set_sign(shown.task, shown.sign, None)

    # -- what it came to --

    async def _answer(self, task: Task, shown: Shown) -> str:
        came = outcome(task)
        speaker = await self.speaker(shown.room_id, shown.agent, as_agent=came.is_of_agent)
        event_id = None
        if speaker is not None:
            content = self.words(task, came, speaker)
            event_id = await self._say(shown, speaker, content, f"task/{task.id}/answer")
            if came.file is not None:
                await self._send_file(task, shown, speaker, came.file)
        answer = event_id or NO_ANSWER
        await self._tasks.set_answer(task.id, answer)
        return answer

    def words(self, task: Task, came: Outcome, speaker: str) -> Content:
        """Nobody is called by it, whatever is in it."""
        said = came.text
        agent = task.request.to_address
        if came.is_of_agent and speaker != self._identities.ghost_of(agent):
            # Its user is another node's, and is spoken for.
            said = name_of(agent) + Text.of(" answers:\n") + said
        msgtype: MsgType = "m.text" if came.is_of_agent else "m.notice"
        return content_of(said, Kind.ANSWER, task_id=task.request.task_id, msgtype=msgtype)

    async def _send_file(self, task: Task, shown: Shown, speaker: str, file: File) -> None:
        info = await self._side.upload(speaker, file.content, file.content_type, file.name)
        content: Mapping[str, Any] = {
            **text(file.name),
            "msgtype": "m.file",
            "filename": file.name,
            "url": str(info.mxc),
            "info": {"size": info.size, "mimetype": file.content_type},
            MARK: {"kind": Kind.ANSWER.value, "task_id": task.request.task_id},
        }
        await self._say(shown, speaker, content, f"task/{task.id}/file")

    # -- saying it --

    async def _say(self, shown: Shown, speaker: str, content: Mapping[str, Any], name: str) -> str | None:
        related = beside(content, request=shown.request, root=shown.root if shown.is_threaded else None)
        return await self._voice.say(shown.room_id, speaker, related, name)

    async def speaker(self, room_id: str, agent: AgentAddress, *, as_agent: bool) -> str | None:
        """The agent for its own words, the node for what it has to say itself; each for the other one where
        only one of them is."""
        ghost, node_user = self._identities.ghost_of(agent), self._settings.node_user
        is_of_agents = as_agent and ghost is not None and self._rooms.namespace(room_id) is not None
        if ghost is not None and is_of_agents and await self._rooms.let_in(room_id, ghost):
            return ghost
        wanted = (ghost, node_user) if as_agent else (node_user, ghost)
        return await self._voice.speaker(room_id, wanted)


MOST: Final = 5_000
"""Tasks whose progress is shown at the same time."""
MOST_REMEMBERED: Final = 10_000


@dataclass(slots=True)
class _Lane:
    task: Task
    newest: Text | None
    work: "asyncio.Task[None] | None" = None


class Reporting:
    """A kill loses what was not shown yet; the next report shows more."""

    def __init__(self, showing: Showing, report: Report) -> None:
        self._showing = showing
        self._report = report
        self._lanes: dict[int, _Lane] = {}
        self._background = BackgroundTasks()
        self._times: LRUCache[int, int] = LRUCache(MOST_REMEMBERED)

    async def close(self) -> None:
        await self._background.close()

    def progress(self, task: Task, content: Mapping[str, Any]) -> None:
        said = progress_text(content)
        if said is None:
            return
        lane = self._lanes.get(task.id)
        if lane is not None:
            lane.task, lane.newest = task, said
        elif len(self._lanes) < MOST:
            lane = self._lanes[task.id] = _Lane(task, said)
            lane.work = self._background.spawn("show progress", self._run(lane))

    def ended(self, task: Task) -> None:
        """Nothing more is said of its progress."""
        lane = self._lanes.pop(task.id, None)
        if lane is not None and lane.work is not None:
            lane.work.cancel()

    async def _run(self, lane: _Lane) -> None:
        task_id = lane.task.id
        try:
            while (said := lane.newest) is not None:
                lane.newest = None
                times = (self._times.get(task_id) or 0) + 1
                self._times[task_id] = times
                await self._showing.report(lane.task, said)
                await asyncio.sleep(pause(times))
        except Exception as error:
            self._report(f"The progress of the task {lane.task.key} is not shown.", error)
        finally:
            self._lanes.pop(task_id, None)
