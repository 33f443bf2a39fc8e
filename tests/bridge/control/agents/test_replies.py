"""Who waits is woken."""

from bridge.control.agents.context import OperatorReply
from bridge.tasks.request import TaskKey
from bridge.tasks.task import Task
from tests.support.agents import NOW
from tests.support.desk import request

TASK = Task(request(), NOW, NOW + 1)


async def test_only_those_who_wait_for_it_are_woken() -> None:
    """By reports and by the answer, as many as there are; an answer that nobody waits for is nobody's."""
    reply = OperatorReply()
    await reply.answer(TASK)
    with reply.listening(TASK.key) as one, reply.listening(TASK.key) as other:
        with reply.listening(TaskKey("living", "req-2")) as stranger:
            await reply.progress(TASK, {})
            assert (one.is_set(), other.is_set(), stranger.is_set()) == (True, True, False)
        one.clear()
        await reply.answer(TASK)
        assert one.is_set()
    assert reply._waiting == {}
