"""The operator's commands about agents and tasks, served on the control socket. Commands return one object,
streams a sequence of objects."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from bridge.control.agents.agents import agents_list, agents_remove, agents_show, route
from bridge.control.agents.context import PROTOCOL, CommandContext, OperatorReply
from bridge.control.agents.send import task_send, task_wait
from bridge.control.agents.tasks import task_cancel, task_list, task_show
from bridge.control.server.arguments import Arguments
from bridge.control.socket import Command
from bridge.control.stream import Items, Stream
from bridge.observability.live_event import LiveFilter
from bridge.observability.live_event_text import TYPES
from storage.errors import LocalError


async def tail(context: CommandContext, given: Mapping[str, Any]) -> Items:
    """Stream live events until the client disconnects."""
    return _tail(context, _filter(Arguments(given)))


async def _tail(context: CommandContext, wanted: LiveFilter) -> Items:
    with context.feed.listening(wanted) as listener:
        # Tells the client that it receives all events from now on.
        yield {"type": "listening"}
        while True:
            yield await listener.next()


def _filter(arguments: Arguments) -> LiveFilter:
    return LiveFilter(
        types=frozenset(map(_type, arguments.texts("types"))),
        agents=frozenset(arguments.texts("agents")),
        nodes=frozenset(arguments.texts("nodes")),
        tasks=frozenset(arguments.texts("tasks")),
    )


def _type(text: str) -> str:
    if text not in TYPES:
        raise LocalError(f"{text} is not a type of events.", f"Use one of {', '.join(TYPES)}.")
    return text


__all__ = ["COMMANDS", "PROTOCOL", "STREAMS", "CommandContext", "OperatorReply", "commands", "streams"]

COMMANDS: Final = {
    "agents-list": agents_list,
    "agents-show": agents_show,
    "agents-remove": agents_remove,
    "route": route,
    "task-list": task_list,
    "task-show": task_show,
    "task-cancel": task_cancel,
}
STREAMS: Final = {"task-send": task_send, "task-wait": task_wait, "tail": tail}


def commands(context: CommandContext) -> Mapping[str, Command]:
    """Return the commands by their names on the control socket."""
    return {name: partial(command, context) for name, command in COMMANDS.items()}


def streams(context: CommandContext) -> Mapping[str, Stream]:
    return {name: partial(stream, context) for name, stream in STREAMS.items()}
