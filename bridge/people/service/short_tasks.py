"""Shows people tasks that have ended before any of it was shown: many at once, and each as the others are.

That is what becomes of most tasks. What is said of them in one room shares its commits, and what was shown is
written down for all of them together. All of it may be done twice, as when they are shown one by one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from bridge.address import AgentAddress
from bridge.people.service.showing import Showing
from bridge.people.service.shown_tasks import Ended, ShownTasks
from bridge.people.service.voice import Voice, beside
from bridge.people.settings import NAME, PeopleSettings
from bridge.people.task_texts import Outcome, outcome
from bridge.people.thread import NO_ANSWER, sign_of
from bridge.task import Task


@dataclass(slots=True)
class _Short:
    task: Task
    came: Outcome
    room_id: str
    root: str = ""
    answer: str = NO_ANSWER


class ShortTasks:
    def __init__(
        self,
        settings: PeopleSettings,
        showing: Showing,
        *,
        tasks: ShownTasks,
        voice: Voice,
        now_ms: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._showing = showing
        self._tasks = tasks
        self._voice = voice
        self._now_ms = now_ms

    async def show(self, tasks: Sequence[Task]) -> list[Task]:
        """Gives those that are not as simple as that, and have to be shown one by one."""
        shown = [task for task in tasks if self._showing.is_shown(task)]
        known = await self._tasks.known([task.id for task in shown]) if shown else set()
        left: list[Task] = []
        short: list[_Short] = []
        for task in shown:
            came = outcome(task) if task.state.is_final and task.id not in known else None
            is_of_person = task.request.origin.protocol == NAME or self._showing.is_asked_in_a_name(task)
            if came is None or came.file is not None or is_of_person:
                left.append(task)
                continue
            room_id = await self._showing.room_for(task)
            if room_id is not None:
                short.append(_Short(task, came, room_id))
        if short:
            short = await self._ask(short)
            await self._answer(short)
            left += await self._write_down(short)
        return left

    async def _ask(self, short: Sequence[_Short]) -> list[_Short]:
        """Those whose room has taken the message that asks."""
        roots = await _all(
            self._voice.say(
                one.room_id,
                self._settings.node_user,
                self._showing.request(one.task, sign_of(one.task.state)),
                f"task/{one.task.id}",
            )
            for one in short
        )
        for one, root in zip(short, roots, strict=True):
            one.root = root or ""
        return [one for one in short if one.root]

    async def _answer(self, short: Sequence[_Short]) -> None:
        speakers: dict[tuple[str, AgentAddress, bool], str | None] = {}
        answered, saying = [], []
        for one in short:
            agent, as_agent = one.task.request.to_address, one.came.is_of_agent
            who = one.room_id, agent, as_agent
            if who not in speakers:
                speakers[who] = await self._showing.speaker(one.room_id, agent, as_agent=as_agent)
            speaker = speakers[who]
            if speaker is not None:
                words = self._showing.words(one.task, one.came, speaker)
                content = beside(words, request=one.root, root=one.root)
                answered.append(one)
                saying.append(self._voice.say(one.room_id, speaker, content, f"task/{one.task.id}/answer"))
        for one, event_id in zip(answered, await _all(saying), strict=True):
            one.answer = event_id or NO_ANSWER

    async def _write_down(self, short: Sequence[_Short]) -> list[Task]:
        """Those of which somebody else has shown something meanwhile: perhaps not as much."""
        now_ms = self._now_ms()
        new = await self._tasks.add_ended(
            Ended(
                task=one.task.id,
                key=one.task.key,
                agent=one.task.request.to_address,
                room_id=one.room_id,
                root=one.root,
                sign=sign_of(one.task.state),
                answer=one.answer,
                made_at=now_ms,
            )
            for one in short
        )
        return [one.task for one in short if one.task.id not in new]


async def _all(saying: Iterable[Awaitable[str | None]]) -> list[str | None]:
    """What is said at the same time in one room is one commit, in this order. Nothing of it is still being
    said when this fails."""
    said = await asyncio.gather(*saying, return_exceptions=True)
    for one in said:
        if isinstance(one, BaseException):
            raise one
    return [one for one in said if not isinstance(one, BaseException)]
