"""Waking commands that wait for a task."""

from bridge.control.agents.context import OperatorReply
from bridge.tasks.request import TaskKey
from bridge.tasks.task import Task
from tests.support.agents import NOW
from tests.support.tasks import request

TASK = Task(request(), NOW, NOW + 1)


async def test_only_commands_that_wait_for_the_task_are_woken() -> None:
    """All of them, by progress and by the answer. Without waiting commands an answer has no effect."""
    reply = OperatorReply()
    await reply.answer(TASK)
    with reply.listening(TASK.key) as one, reply.listening(TASK.key) as other:
        with reply.listening(TaskKey("living", "req-2")) as unrelated:
            await reply.progress(TASK, {})
            assert (one.is_set(), other.is_set(), unrelated.is_set()) == (True, True, False)
        one.clear()
        await reply.answer(TASK)
        assert one.is_set()
    assert reply._waiting == {}
