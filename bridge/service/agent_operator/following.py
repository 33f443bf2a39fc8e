"""Follows a task to its end, as somebody does who waits for it at the command line.

What there is to say is read from the database whenever something may be new: so it makes no difference
whether the task was asked for in this process, by whom, and how slow the reader is. Of reports that were
forgotten before they were read, their numbers tell how many they were.
"""

import asyncio
import contextlib
from typing import Final

from bridge.service.agent_operator.parts import Parts
from bridge.service.agent_operator.tasks import progress_of
from bridge.service.control_stream import Items
from bridge.task import State, Task
from bridge.task_key_text import key_text
from bridge.task_request import TaskKey
from bridge.task_view import answer_of, line_of
from storage.connecting import ConnectionLost
from storage.errors import LocalError
from storage.tasks import ProgressRow

LOOK_AGAIN: Final = 1.0
"""Seconds after which it is looked at anyway: another process may have worked on it, or another protocol have
asked for it."""


async def follow(parts: Parts, key: TaskKey) -> Items:
    """Its states, what is reported of it, and in the end the result."""
    after = 0
    state: State | None = None
    with parts.replies.listening(key) as woken:
        while True:
            woken.clear()
            looked = await _look(parts, key, after)
            if looked is not None:
                task, reports = looked
                if task.state is not state and not task.state.is_final:
                    state = task.state
                    yield {"type": "state", **line_of(task)}
                for row in reports:
                    if row.number > after + 1:
                        yield {"type": "left_out", "count": row.number - after - 1}
                    after = row.number
                    yield {"type": "progress", "task": key_text(key), **progress_of(row)}
                if task.state.is_final:
                    assert task.answer is not None, "a task ends with its answer"
                    yield {"type": "result", **line_of(task), **answer_of(task.state, task.answer)}
                    return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN):
                    await woken.wait()


async def _look(parts: Parts, key: TaskKey, after: int) -> tuple[Task, list[ProgressRow]] | None:
    """The task first: nothing is reported of one that has ended. None while the database is away."""
    try:
        task = await parts.desk.task(key)
        if task is None:
            raise LocalError(f"The task {key_text(key)} is not known any more.", "It ended long ago.")
        return task, await parts.desk.progress_of(task, after)
    except ConnectionLost:
        return None
