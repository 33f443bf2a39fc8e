"""Shows tasks in rooms: the request with its thread, the status reaction, progress and the answer.

Each step reads from the database which messages exist, sends the missing ones and stores their ids. Steps can
be repeated: a message has a transaction id, so sending it again results in the same event.
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
from bridge.people.message import MESSAGE, NO_ANSWER, StatusReaction, TaskMessages, needs_reaction, reaction_of
from bridge.people.requester import requesting_person
from bridge.people.service.identities import Identities
from bridge.people.service.messenger import Messenger, relate_to_request
from bridge.people.service.rooms import AgentsRooms
from bridge.people.service.work_indicator import WorkIndicator
from bridge.people.settings import NAME, PeopleSettings
from bridge.people.texts.agent_output import OutputFile
from bridge.people.texts.task_texts import (
    Outcome,
    name_of,
    outcome,
    own_request_text,
    pause,
    progress_text,
    request_text,
)
from bridge.people.texts.text import MARK, MAX_BYTES_EDITABLE, Kind, Text, content_of
from bridge.tasks.request import TaskKey
from bridge.tasks.task import State, Task
from federation.matrix.errors import MatrixError
from federation.matrix.message_content import Content, MsgType
from federation.matrix.message_content import text as plain_text
from federation.peers.limits import Buckets
from storage.concurrency import BackgroundTasks, KeyedLock
from storage.database import Connection, Database
from storage.people import people
from storage.people.people import TaskMessagesRow

MAX_OF_THREAD = 50
"""Maximum number of tasks of one thread that are fetched, the newest first."""


def row_of(messages: TaskMessages) -> TaskMessagesRow:
    return TaskMessagesRow(
        task=messages.task,
        requester_node=messages.key.node_id,
        request_id=messages.key.request_id,
        agent=str(messages.agent),
        room_id=messages.room_id,
        root=messages.root,
        request=messages.request,
        asked_by=messages.asked_by,
        is_threaded=messages.is_threaded,
        reaction=None if messages.reaction is None else messages.reaction.value,
        reaction_event=messages.reaction_event,
        progress=messages.progress,
        answer=messages.answer,
        withdrawn_by=messages.withdrawn_by,
        made_at=messages.made_at,
    )


def messages_of(row: TaskMessagesRow) -> TaskMessages:
    agent = AgentAddress.parse(row.agent)
    assert isinstance(agent, AgentAddress), "only valid addresses are stored"
    return TaskMessages(
        task=row.task,
        key=TaskKey(row.requester_node, row.request_id),
        agent=agent,
        room_id=row.room_id,
        root=row.root,
        request=row.request,
        asked_by=row.asked_by,
        is_threaded=row.is_threaded,
        made_at=row.made_at,
        reaction=None if row.reaction is None else StatusReaction(row.reaction),
        reaction_event=row.reaction_event,
        progress=row.progress,
        answer=row.answer,
        withdrawn_by=row.withdrawn_by,
    )


class TaskMessagesStore:
    """The messages of tasks in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def insert(self, connection: Connection, messages: TaskMessages) -> None:
        """Insert the messages in the caller's transaction."""
        await people.insert_task_messages(connection, row_of(messages))

    async def fetch(self, task: int) -> TaskMessages | None:
        row = await self._database.read(lambda connection: people.fetch_task_messages(connection, task))
        return None if row is None else messages_of(row)

    async def is_answered(self, task: int) -> bool:
        messages = await self.fetch(task)
        return messages is None or messages.answer is not None

    async def find(self, room_id: str, event_id: str) -> list[TaskMessages]:
        """Find the tasks to which a message belongs, the newest first."""
        async with self._database.transaction(readonly=True) as connection:
            rows = await people.find_task_messages(connection, room_id, event_id, MAX_OF_THREAD)
        return [messages_of(row) for row in rows]

    async def add(self, messages: TaskMessages) -> TaskMessages:
        """Insert the messages of a task, or return those that are stored already."""
        async with self._database.autocommit() as connection:
            return messages_of(await people.insert_or_fetch_task_messages(connection, row_of(messages)))

    async def set_reaction(self, task: int, reaction: StatusReaction | None, event_id: str | None) -> None:
        async with self._database.autocommit() as connection:
            await people.set_reaction(connection, task, None if reaction is None else reaction.value, event_id)

    async def set_progress(self, task: int, event_id: str) -> None:
        async with self._database.autocommit() as connection:
            await people.set_progress(connection, task, event_id)

    async def set_answer(self, task: int, event_id: str) -> None:
        async with self._database.autocommit() as connection:
            await people.set_answer(connection, task, event_id)

    async def withdraw(self, task: int, event_id: str) -> bool:
        """Store that an event withdraws the task, and return whether it is the first that does."""
        async with self._database.transaction() as connection:
            return await people.set_withdrawn(connection, task, event_id) == event_id

    async def set_cancelled(self, task: int, event_id: str) -> None:
        async with self._database.autocommit() as connection:
            await people.set_cancelled(connection, task, event_id)

    async def is_cancelled_by(self, task: int, event_id: str) -> bool:
        """Whether this event was the last that cancelled the task."""
        return await self._database.read(lambda connection: people.is_cancelled_by(connection, task, event_id))

    async def prune(self, made_before: int, limit: int) -> int:
        async with self._database.transaction() as connection:
            return await people.prune_task_messages(connection, made_before, limit)


MAX_ROOMS = 1_000
MAX_TASKS = 1_000


class TaskThreads:
    """Shows tasks as threads in agents' rooms."""

    def __init__(
        self,
        backend: MatrixBackend,
        settings: PeopleSettings,
        *,
        tasks: TaskMessagesStore,
        rooms: AgentsRooms,
        identities: Identities,
        messenger: Messenger,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float],
        indicator: WorkIndicator,
        speaks: PersonSender | None = None,
        report: Report = lambda sentence, error: None,
    ) -> None:
        self._backend = backend
        self._settings = settings
        self._indicator = indicator
        self._tasks = tasks
        self._rooms = rooms
        self._identities = identities
        self._messenger = messenger
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._speaks = speaks
        self._report = report
        self._shown_rate: Buckets[str] = Buckets(MAX_ROOMS)
        self._omitted: dict[str, int] = {}
        # Unfinished tasks that were omitted, so that they are not fetched again before they end.
        self._omitted_tasks: LRUCache[int, bool] = LRUCache(MAX_TASKS)
        # The steps of a task are executed one after the other.
        self._locks: KeyedLock[int] = KeyedLock()

    async def show(self, task: Task) -> None:
        """Send the missing messages for the task's state."""
        if not self.is_shown(task):
            return
        async with self._locks.hold(task.id):
            if task.state.is_final:
                self._indicator.ended(task.id)
            messages = await self._fetch(task) or await self._begin(task)
            if messages is None:
                return
            if messages.withdrawn_by is not None:
                self._indicator.ended(task.id)
                await self._remove_reaction(messages)
                return
            answer = messages.answer
            if task.state.is_final and answer is None:
                answer = await self._answer(task, messages)
            reaction = reaction_of(task.state)
            # A final reaction is not replaced: another process may be late and show an earlier state.
            is_replaceable = messages.reaction in {None, StatusReaction.WAITING}
            if is_replaceable and needs_reaction(messages.reaction, reaction, answer):
                await self._set_reaction(task, messages, reaction)
            if task.state is State.RUNNING and messages.asked_by is not None and answer is None:
                await self._indicate_work(messages)

    async def _indicate_work(self, messages: TaskMessages) -> None:
        user = await self.find_sender(messages.room_id, messages.agent, as_agent=True)
        if user is not None and user != self._settings.node_user:
            self._indicator.begun(messages.task, messages.room_id, user, messages.request)

    async def show_progress(self, task: Task, progress: Text) -> bool:
        """Send or edit the progress message of the task, and return whether people can see it."""
        if not self.is_shown(task):
            return False
        async with self._locks.hold(task.id):
            messages = await self._fetch(task) or await self._begin(task)
            if messages is None or messages.withdrawn_by is not None or messages.answer is not None:
                return False
            content = content_of(progress, Kind.PROGRESS, task_id=task.request.task_id, max_bytes=MAX_BYTES_EDITABLE)
            if messages.progress is not None:
                return await self._messenger.edit(messages.room_id, messages.progress, content) is not None
            sender = await self.find_sender(messages.room_id, messages.agent, as_agent=True)
            if sender is None:
                return False
            event_id = await self._send(messages, sender, content, f"task/{task.id}/progress")
            if event_id is not None:
                await self._tasks.set_progress(task.id, event_id)
            return event_id is not None

    # -- request --

    def is_shown(self, task: Task) -> bool:
        """Whether the settings allow to show the task."""
        return requesting_person(task.request, self._settings.node_id) is not None or self._settings.show == "all"

    def is_requested_for_person(self, task: Task) -> bool:
        """Whether an operator has requested the task in the name of a person."""
        return (
            task.request.origin.protocol != NAME and requesting_person(task.request, self._settings.node_id) is not None
        )

    async def _fetch(self, task: Task) -> TaskMessages | None:
        if not task.state.is_final and self._omitted_tasks.get(task.id) is not None:
            return None
        return await self._tasks.fetch(task.id)

    async def room_for(self, task: Task) -> str | None:
        """Return the room in which to show a task that was not requested in a room, or None to omit it."""
        request = task.request
        room_id = self._rooms.room(request.to_address, request.from_address)
        # Requests of people are not limited.
        if room_id is None or self.is_requested_for_person(task):
            return room_id
        if self._shown_rate.take(room_id, self._settings.shown_task_rate, self._monotonic()) is not None:
            self._omitted_tasks[task.id] = True
            if task.state.is_final:
                self._omitted[room_id] = self._omitted.get(room_id, 0) + 1
            return None
        await self._report_omitted(room_id)
        return room_id

    async def _begin(self, task: Task) -> TaskMessages | None:
        """Send the request message of a task that was not requested in a room."""
        request = task.request
        if request.origin.protocol == NAME:
            return None
        room_id = await self.room_for(task)
        if room_id is None:
            return None
        person = requesting_person(request, self._settings.node_id)
        root = await self._send_as_person(person, room_id, task) if person is not None else None
        asked_by, reaction = person, None
        if root is None:
            asked_by, reaction = None, reaction_of(task.state)
            content = self.request_content(task, reaction)
            root = await self._messenger.send(room_id, self._settings.node_user, content, f"task/{task.id}")
        if root is None:
            return None
        return await self._tasks.add(
            TaskMessages(
                task=task.id,
                key=task.key,
                agent=request.to_address,
                room_id=room_id,
                root=root,
                request=root,
                asked_by=asked_by,
                is_threaded=True,
                made_at=self._now_ms(),
                reaction=reaction,
            )
        )

    async def _send_as_person(self, person: str, room_id: str, task: Task) -> str | None:
        """Send the request as the person. Return None if this node cannot act for the person, or the person
        has not joined the room."""
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
            return await self._speaks.send_as(room_id, person, MESSAGE, content, transaction_id=f"task/{task.id}")
        except MatrixError as refused:
            if refused.status >= 500:
                raise
            self._report(f"A task could not be requested as {person} in the room {room_id}.", refused)
            return None

    def request_content(self, task: Task, reaction: StatusReaction) -> Content:
        """The request message that the node sends for a task, with its current status."""
        text = request_text(task, reaction, self._settings.node_id)
        return content_of(text, Kind.REQUEST, task_id=task.request.task_id, max_bytes=MAX_BYTES_EDITABLE)

    async def _report_omitted(self, room_id: str) -> None:
        count = self._omitted.pop(room_id, 0)
        if count:
            notice = Text.of(f"There were too many tasks to show: {count} others have ended in the meantime.")
            await self._messenger.send(room_id, self._settings.node_user, content_of(notice, Kind.NOTICE))

    # -- status --

    async def _set_reaction(self, task: Task, messages: TaskMessages, reaction: StatusReaction) -> None:
        if messages.asked_by is None:
            content = self.request_content(task, reaction)
            await self._messenger.edit(messages.room_id, messages.root, content, f"task/{task.id}/{reaction}")
            await self._tasks.set_reaction(task.id, reaction, None)
            return
        # "status by reaction": a person's message cannot be edited.
        await self._remove_reaction(messages)
        sender = await self.find_sender(messages.room_id, messages.agent, as_agent=True)
        event_id = None
        if sender is not None:
            event_id = await self._messenger.react(
                messages.room_id, sender, messages.request, reaction.emoji, f"task/{task.id}/{reaction}"
            )
        await self._tasks.set_reaction(task.id, reaction, event_id)

    async def _remove_reaction(self, messages: TaskMessages) -> None:
        if messages.reaction_event is not None:
            transaction_id = f"task/{messages.task}/-{messages.reaction}"
            await self._messenger.redact(messages.room_id, messages.reaction_event, transaction_id)
            await self._tasks.set_reaction(messages.task, messages.reaction, None)

    # -- answer --

    async def _answer(self, task: Task, messages: TaskMessages) -> str:
        result = outcome(task)
        sender = await self.find_sender(messages.room_id, messages.agent, as_agent=result.is_of_agent)
        event_id = None
        if sender is not None:
            content = self.answer_content(task, result, sender)
            event_id = await self._send(messages, sender, content, f"task/{task.id}/answer")
            if result.file is not None:
                await self._send_file(task, messages, sender, result.file)
        answer = event_id or NO_ANSWER
        await self._tasks.set_answer(task.id, answer)
        return answer

    def answer_content(self, task: Task, result: Outcome, sender: str) -> Content:
        """The answer message. It mentions no users, whatever names the output contains."""
        answer = result.text
        agent = task.request.to_address
        if result.is_of_agent and sender != self._identities.ghost_of(agent):
            # The agent is a user of another node, so this node sends its answer.
            answer = name_of(agent) + Text.of(" answers:\n") + answer
        msgtype: MsgType = "m.text" if result.is_of_agent else "m.notice"
        return content_of(answer, Kind.ANSWER, task_id=task.request.task_id, msgtype=msgtype)

    async def _send_file(self, task: Task, messages: TaskMessages, sender: str, file: OutputFile) -> None:
        info = await self._backend.upload(sender, file.content, file.content_type, file.name)
        content: Mapping[str, Any] = {
            **plain_text(file.name),
            "msgtype": "m.file",
            "filename": file.name,
            "url": str(info.mxc),
            "info": {"size": info.size, "mimetype": file.content_type},
            MARK: {"kind": Kind.ANSWER.value, "task_id": task.request.task_id},
        }
        await self._send(messages, sender, content, f"task/{task.id}/file")

    # -- sending --

    async def _send(
        self, messages: TaskMessages, sender: str, content: Mapping[str, Any], transaction_id: str
    ) -> str | None:
        root = messages.root if messages.is_threaded else None
        related = relate_to_request(content, request=messages.request, root=root)
        return await self._messenger.send(messages.room_id, sender, related, transaction_id)

    async def find_sender(self, room_id: str, agent: AgentAddress, *, as_agent: bool) -> str | None:
        """Return the agent's user for the agent's own output, and the node's user for notices of the node; or
        the other one if only that has joined the room."""
        ghost, node_user = self._identities.ghost_of(agent), self._settings.node_user
        is_agents_room = as_agent and ghost is not None and self._rooms.namespace(room_id) is not None
        if ghost is not None and is_agents_room and await self._rooms.join(room_id, ghost):
            return ghost
        candidates = (ghost, node_user) if as_agent else (node_user, ghost)
        return await self._messenger.find_sender(room_id, candidates)


MAX_REPORTED: Final = 5_000
"""Maximum number of tasks whose progress is shown at the same time."""
MAX_CACHED: Final = 10_000


@dataclass(slots=True)
class _TaskProgress:
    task: Task
    newest: Text | None
    worker: "asyncio.Task[None] | None" = None


class ProgressReporter:
    """Shows the newest progress of tasks, in growing intervals. After a kill, progress that was not shown is
    lost until the agent's next report."""

    def __init__(self, threads: TaskThreads, report: Report) -> None:
        self._threads = threads
        self._report = report
        self._tasks: dict[int, _TaskProgress] = {}
        self._background = BackgroundTasks()
        self._times_shown: LRUCache[int, int] = LRUCache(MAX_CACHED)

    async def close(self) -> None:
        await self._background.close()

    def progress(self, task: Task, content: Mapping[str, Any]) -> None:
        """Show the progress now or after the current interval."""
        text = progress_text(content)
        if text is None:
            return
        current = self._tasks.get(task.id)
        if current is not None:
            current.task, current.newest = task, text
        elif len(self._tasks) < MAX_REPORTED:
            current = self._tasks[task.id] = _TaskProgress(task, text)
            current.worker = self._background.spawn("show progress", self._run(current))

    def ended(self, task: Task) -> None:
        """Stop showing progress of a task that has ended."""
        current = self._tasks.pop(task.id, None)
        if current is not None and current.worker is not None:
            current.worker.cancel()

    async def _run(self, current: _TaskProgress) -> None:
        task_id = current.task.id
        try:
            while (newest := current.newest) is not None:
                current.newest = None
                times_shown = (self._times_shown.get(task_id) or 0) + 1
                self._times_shown[task_id] = times_shown
                await self._threads.show_progress(current.task, newest)
                await asyncio.sleep(pause(times_shown))
        except Exception as error:
            self._report(f"The progress of the task {current.task.key} could not be shown.", error)
        finally:
            self._tasks.pop(task_id, None)
