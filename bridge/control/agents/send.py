"""`palaver task send` and `wait`: streams that end with the result of a task.

A stream reads the task from the database whenever it may have changed. So it works for tasks of any requester
and process, and for slow clients. Gaps in the numbers of progress reports show how many were deleted before
the client read them.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from typing import Any, Final

from bridge.agents.address import AgentAddress
from bridge.agents.routing import Unknown
from bridge.control.agents.context import PROTOCOL, CommandContext, address_of
from bridge.control.agents.lookup import find_task
from bridge.control.agents.tasks import progress_of
from bridge.control.server.arguments import Arguments
from bridge.control.stream import Items
from bridge.tasks.errors import TaskError
from bridge.tasks.request import Origin, TaskKey, TaskRequest, key_text
from bridge.tasks.task import State, Task
from bridge.tasks.view import answer_json, refusal_json, task_summary
from storage.agents.tasks import ProgressRow
from storage.connect import ConnectionLost
from storage.errors import LocalError

POLL_INTERVAL: Final = 1.0
"""Seconds after which the task is read again without a notification: changes in another process and of tasks
of other protocols send none."""


async def follow(context: CommandContext, key: TaskKey) -> Items:
    """Stream the task's states and progress, and finally its result."""
    after = 0
    state: State | None = None
    with context.replies.listening(key) as changed:
        while True:
            changed.clear()
            current = await _fetch(context, key, after)
            if current is not None:
                task, reports = current
                if task.state is not state and not task.state.is_final:
                    state = task.state
                    yield {"type": "state", **task_summary(task)}
                for row in reports:
                    if row.number > after + 1:
                        yield {"type": "left_out", "count": row.number - after - 1}
                    after = row.number
                    yield {"type": "progress", "task": key_text(key), **progress_of(row)}
                if task.state.is_final:
                    assert task.answer is not None, "a task ends with its answer"
                    yield {"type": "result", **task_summary(task), **answer_json(task.state, task.answer)}
                    return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_INTERVAL):
                    await changed.wait()


async def _fetch(context: CommandContext, key: TaskKey, after: int) -> tuple[Task, list[ProgressRow]] | None:
    """Fetch the task and its progress after the report `after`, or None while the database is unavailable.
    The task is fetched first: no progress is added after its end, so none is missed."""
    try:
        task = await context.tasks.task(key)
        if task is None:
            raise LocalError(f"The task {key_text(key)} is no longer stored.", "It ended more than a week ago.")
        return task, await context.tasks.progress_of(task, after)
    except ConnectionLost:
        return None


LONGEST: Final = 1_048_576
"""Maximum characters of a prompt or a context. The task service has a lower limit and its own error."""
LONGEST_TIMEOUT_MS: Final = 366 * 24 * 3_600_000
MAX_METADATA: Final = 100


async def task_send(context: CommandContext, given: Mapping[str, Any]) -> Items:
    """Submit a task and stream it. Without `wait` the stream ends when the task is accepted. A refused
    request creates no task, so it can be repeated with the same id. Repeating an accepted request returns its
    task."""
    request = await _request(context, given)
    return _send(context, request, is_awaited=Arguments(given).flag("wait"))


async def task_wait(context: CommandContext, given: Mapping[str, Any]) -> Items:
    """Stream an existing task of any requester."""
    task = await find_task(context, Arguments(given).text("task"))
    return _wait(context, task)


async def _send(context: CommandContext, request: TaskRequest | TaskError, *, is_awaited: bool) -> Items:
    if isinstance(request, TaskError):
        yield {"type": "refused", **refusal_json(request)}
        return
    submitted = await context.tasks.submit(request)
    if submitted.task is None:
        assert submitted.refusal is not None, "without a task there is a refusal"
        yield {"type": "refused", **refusal_json(submitted.refusal)}
        return
    yield {"type": "accepted", **task_summary(submitted.task), "again": not submitted.is_new}
    if is_awaited or submitted.task.state.is_final:
        async with contextlib.aclosing(follow(context, request.key)) as items:
            async for item in items:
                yield item


async def _wait(context: CommandContext, task: Task) -> Items:
    yield {"type": "accepted", **task_summary(task), "again": True}
    async with contextlib.aclosing(follow(context, task.key)) as items:
        async for item in items:
            yield item


async def _request(context: CommandContext, given: Mapping[str, Any]) -> TaskRequest | TaskError:
    arguments = Arguments(given)
    from_address = AgentAddress(PROTOCOL, context.node_id)
    person = arguments.optional_text("as")
    if person is not None:
        from_address = await address_of(person, context.for_people, context.node_id)
    to_text = arguments.text("to")
    to = AgentAddress.parse(to_text)
    if not isinstance(to, AgentAddress):
        # The routing table accepts a unique id without its node, and explains any other text.
        decision = context.routes.route(to_text)
        if isinstance(decision, Unknown):
            return decision.error()
        to = decision.address
    request_id = arguments.optional_text("id") or f"{PROTOCOL}-{secrets.token_hex(8)}"
    timeout_ms = arguments.number("timeout_ms", 1, LONGEST_TIMEOUT_MS) if "timeout_ms" in given else None
    return TaskRequest(
        key=TaskKey(context.node_id, request_id),
        task_id=request_id,
        from_address=from_address,
        to_address=to,
        prompt=arguments.text("prompt", LONGEST),
        origin=Origin(PROTOCOL),
        context=arguments.optional_text("context", LONGEST) or "",
        system_prompt=arguments.optional_text("system_prompt", LONGEST),
        model=arguments.optional_text("model"),
        metadata=_metadata(given.get("metadata")),
        timeout_ms=timeout_ms,
    )


def _metadata(value: Any) -> Mapping[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > MAX_METADATA:
        raise LocalError(f"A task has at most {MAX_METADATA} metadata entries.", "Send fewer metadata entries.")
    texts = {name: Arguments(value).optional_text(name, LONGEST) for name in value}
    return {name: text for name, text in texts.items() if text is not None}
