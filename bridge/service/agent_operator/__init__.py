"""What an operator asks a running node about agents and tasks, and has it do.

Commands give one answer, streams one object after the other; both take what the command line sends through
the control socket.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from bridge.service.agent_operator.agents import agents_list, agents_show
from bridge.service.agent_operator.parts import Parts
from bridge.service.agent_operator.removing import agents_remove
from bridge.service.agent_operator.replies import PROTOCOL, OperatorReply
from bridge.service.agent_operator.routes import route
from bridge.service.agent_operator.sending import task_send, task_wait
from bridge.service.agent_operator.tail import tail
from bridge.service.agent_operator.tasks import task_cancel, task_list, task_show
from bridge.service.control_socket import Command
from bridge.service.control_stream import Stream

__all__ = ["COMMANDS", "PROTOCOL", "STREAMS", "OperatorReply", "Parts", "commands", "streams"]

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


def commands(parts: Parts) -> Mapping[str, Command]:
    """By the names that the control socket knows them by."""
    return {name: partial(command, parts) for name, command in COMMANDS.items()}


def streams(parts: Parts) -> Mapping[str, Stream]:
    return {name: partial(stream, parts) for name, stream in STREAMS.items()}
