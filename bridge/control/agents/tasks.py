"""`palaver task list`, `show` and `cancel`."""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from bridge.control.agents.context import PROTOCOL, CommandContext
from bridge.control.agents.lookup import find_task
from bridge.control.server.arguments import Arguments
from bridge.observability.live_event import progress_summary
from bridge.tasks.request import TaskKey, key_text
from bridge.tasks.task import LIVE, State
from bridge.tasks.view import task_details, task_summary
from storage.agents.tasks import ProgressRow, TaskSearch, TaskSummary, search_tasks
from storage.errors import LocalError

PAGE: Final = 50
MAX_PAGE: Final = 1_000
ALL_LIVE: Final = "live"
STATES: Final = (*(state.value for state in State), ALL_LIVE)


async def task_list(context: CommandContext, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """List tasks, the newest first. `next` is the `before` of the next page, None on the last page."""
    arguments = Arguments(given)
    limit = arguments.number("limit", PAGE, MAX_PAGE)
    before = None if given.get("before") is None else arguments.number("before", 1, 2**62)
    wanted = TaskSearch(
        agent=arguments.optional_text("agent") or None,
        requester=arguments.optional_text("requester") or None,
        states=_states(arguments.texts("states")),
        before=before,
    )
    async with context.database.transaction(readonly=True) as connection:
        found = await search_tasks(connection, wanted, limit + 1)
    more = len(found) > limit
    return {"tasks": [_listed(line) for line in found[:limit]], "next": found[limit - 1].id if more else None}


def _states(given: list[str]) -> list[str] | None:
    wrong = [name for name in given if name not in STATES]
    if wrong:
        raise LocalError(f"{wrong[0]} is not a state of a task.", f"Use one of {', '.join(STATES)}.")
    live = sorted(state.value for state in LIVE) if ALL_LIVE in given else []
    return [*live, *(name for name in given if name != ALL_LIVE)] or None


def _listed(line: TaskSummary) -> dict[str, Any]:
    """The same fields as `bridge.tasks.view.line_of`."""
    return {
        "task": key_text(TaskKey(line.requester_node, line.request_id)),
        "task_id": line.task_id,
        "from": line.from_agent,
        "to": line.to_agent,
        "protocol": line.origin,
        "state": line.state,
        "elsewhere": line.elsewhere,
        "received_at": line.received_at,
        "started_at": line.started_at,
        "finished_at": line.finished_at,
        "deadline": line.deadline,
        "error_code": line.error_code,
    }


async def task_show(context: CommandContext, given: Mapping[str, Any]) -> Mapping[str, Any]:
    task = await find_task(context, Arguments(given).text("task"))
    return task_details(task, [progress_of(row) for row in await context.tasks.progress_of(task)])


def progress_of(row: ProgressRow) -> dict[str, Any]:
    """A progress report of an agent. `text` is the part for people."""
    content = orjson.loads(row.content)
    return {"number": row.number, "at": row.at, "text": progress_summary(content), "content": content}


async def task_cancel(context: CommandContext, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Cancel a task. `cancelled` in the answer is true if it is cancelled now or was before; a task that has
    ended otherwise is not changed."""
    arguments = Arguments(given)
    task = await find_task(context, arguments.text("task"))
    reason = arguments.optional_text("reason") or None
    ended = await context.tasks.cancel(task.key, f"{PROTOCOL}@{context.node_id}", reason)
    if ended is None:
        raise LocalError(f"The task {key_text(task.key)} is no longer stored.", "There is nothing to do.")
    return {**task_summary(ended), "cancelled": ended.state is State.CANCELLED}
