"""`palaver task send` and `wait`: streams that end with the result of a task.

Follows a task to its end, as somebody does who waits for it at the command line.

What there is to say is read from the database whenever something may be new: so it makes no difference
whether the task was asked for in this process, by whom, and how slow the reader is. Of reports that were
forgotten before they were read, their numbers tell how many they were.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from typing import Any, Final

from bridge.agents.address import AgentAddress
from bridge.agents.routing import Unknown
from bridge.control.agents.context import PROTOCOL, Parts, address_of
from bridge.control.agents.lookup import find_task
from bridge.control.agents.tasks import progress_of
from bridge.control.server.arguments import Arguments
from bridge.control.stream import Items
from bridge.tasks.errors import TaskError
from bridge.tasks.request import Origin, TaskKey, TaskRequest, key_text
from bridge.tasks.task import State, Task
from bridge.tasks.view import answer_of, line_of, refusal_of
from storage.agents.tasks import ProgressRow
from storage.connect import ConnectionLost
from storage.errors import LocalError

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


LONGEST: Final = 1_048_576
"""Characters of a prompt or a context: what the desk takes is less, and it says so itself."""
LONGEST_TIMEOUT_MS: Final = 366 * 24 * 3_600_000
MOST_METADATA: Final = 100


async def task_send(parts: Parts, given: Mapping[str, Any]) -> Items:
    """Without `wait` it ends once the task is on its way, or has ended already. What is refused became no
    task, and may be asked for again under the same id; what is asked for a second time is the same task."""
    request = await _request(parts, given)
    return _send(parts, request, is_awaited=Arguments(given).flag("wait"))


async def task_wait(parts: Parts, given: Mapping[str, Any]) -> Items:
    """Of a task that there is, whoever has asked for it."""
    task = await find_task(parts, Arguments(given).text("task"))
    return _wait(parts, task)


async def _send(parts: Parts, request: TaskRequest | TaskError, *, is_awaited: bool) -> Items:
    if isinstance(request, TaskError):
        yield {"type": "refused", **refusal_of(request)}
        return
    submitted = await parts.desk.submit(request)
    if submitted.task is None:
        assert submitted.refusal is not None, "there is a task, or why there is none"
        yield {"type": "refused", **refusal_of(submitted.refusal)}
        return
    yield {"type": "accepted", **line_of(submitted.task), "again": not submitted.is_new}
    if is_awaited or submitted.task.state.is_final:
        async with contextlib.aclosing(follow(parts, request.key)) as items:
            async for item in items:
                yield item


async def _wait(parts: Parts, task: Task) -> Items:
    yield {"type": "accepted", **line_of(task), "again": True}
    async with contextlib.aclosing(follow(parts, task.key)) as items:
        async for item in items:
            yield item


async def _request(parts: Parts, given: Mapping[str, Any]) -> TaskRequest | TaskError:
    arguments = Arguments(given)
    asker = AgentAddress(PROTOCOL, parts.node_id)
    person = arguments.optional_text("as")
    if person is not None:
        asker = await address_of(person, parts.for_people, parts.node_id)
    to_text = arguments.text("to")
    to = AgentAddress.parse(to_text)
    if not isinstance(to, AgentAddress):
        # An id alone is enough where there is one such agent; otherwise the routing table says what is wrong.
        decision = parts.routes.route(to_text)
        if isinstance(decision, Unknown):
            return decision.error()
        to = decision.address
    request_id = arguments.optional_text("id") or f"{PROTOCOL}-{secrets.token_hex(8)}"
    timeout_ms = arguments.number("timeout_ms", 1, LONGEST_TIMEOUT_MS) if "timeout_ms" in given else None
    return TaskRequest(
        key=TaskKey(parts.node_id, request_id),
        task_id=request_id,
        from_address=asker,
        to_address=to,
        prompt=arguments.text("prompt", LONGEST),
        origin=Origin(PROTOCOL),
        context=arguments.optional_text("context", LONGEST) or "",
        system_prompt=arguments.optional_text("system_prompt", LONGEST),
        model=arguments.optional_text("model"),
        metadata=_metadata(given.get("metadata")),
        timeout_ms=timeout_ms,
    )


def _metadata(said: Any) -> Mapping[str, str]:
    if said is None:
        return {}
    if not isinstance(said, dict) or len(said) > MOST_METADATA:
        raise LocalError(f"There are at most {MOST_METADATA} pieces of metadata.", "Give fewer of them.")
    read = {name: Arguments(said).optional_text(name, LONGEST) for name in said}
    return {name: value for name, value in read.items() if value is not None}
