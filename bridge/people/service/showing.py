"""Shows people what becomes of tasks: the thread, the sign, the answer.

Each step looks at what has been shown, shows what is missing, and writes down that it did. All of it may be
done twice: what is said bears a name, under which it is the same event.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from bridge.address import AgentAddress
from bridge.matrix_side import MatrixSide, SpeaksForPeople
from bridge.people.agent_words import File
from bridge.people.in_name_of import in_name_of
from bridge.people.message import MESSAGE
from bridge.people.service.agents_rooms import AgentsRooms
from bridge.people.service.identities import Identities
from bridge.people.service.shown_tasks import ShownTasks
from bridge.people.service.voice import Voice, beside
from bridge.people.settings import NAME, PeopleSettings
from bridge.people.task_texts import Outcome, name_of, outcome, own_request_text, request_text
from bridge.people.text import MARK, MOST_BYTES_EDITABLE, Kind, Text, content_of
from bridge.people.thread import NO_ANSWER, Shown, Sign, needs_sign, sign_of
from bridge.service.session import Report
from bridge.task import Task
from federation.bounded_cache import BoundedCache
from federation.errors import MatrixError
from federation.message_content import Content, MsgType, text
from federation.peer_limits import Buckets

MOST_ROOMS = 1_000
MOST_TASKS = 1_000


class Showing:
    def __init__(
        self,
        side: MatrixSide,
        settings: PeopleSettings,
        *,
        tasks: ShownTasks,
        rooms: AgentsRooms,
        identities: Identities,
        voice: Voice,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float],
        speaks: SpeaksForPeople | None = None,
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
        self._not_shown: BoundedCache[int, bool] = BoundedCache(MOST_TASKS)
        self._turns: dict[int, tuple[asyncio.Lock, int]] = {}

    async def show(self, task: Task) -> None:
        """It has got into this state, or was in it before."""
        if not self.is_shown(task):
            return
        async with self._turn(task.id):
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
        async with self._turn(task.id):
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
            self._not_shown.put(task.id, True)
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
        if self._speaks is None or not await self._speaks.can_speak_for(person):
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
            return await self._speaks.speak(
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

    @contextlib.asynccontextmanager
    async def _turn(self, task: int) -> AsyncIterator[None]:
        """One thing of a task after the other."""
        lock, users = self._turns.get(task, (asyncio.Lock(), 0))
        self._turns[task] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._turns[task]
            if users == 1:
                del self._turns[task]
            else:
                self._turns[task] = lock, users - 1
