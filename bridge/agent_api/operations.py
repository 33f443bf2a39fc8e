"""What a program can do in the interface: names, places, and what goes in and out of each."""

from dataclasses import dataclass
from typing import Final

from bridge.agent_api import messages
from bridge.agent_api.messages import Message

BASE: Final = "/_palaver/v1"
AGENT: Final = f"{BASE}/agents/{{agent_id}}"
SOCKET: Final = f"{AGENT}/socket"
DOCUMENT: Final = f"{BASE}/openapi.json"
MOST_AGENT_ID: Final = 255


@dataclass(frozen=True, slots=True)
class Operation:
    """`takes` None: there is nothing to say. `in_query`: what there is to say stands in the address."""

    name: str
    method: str
    path: str
    takes: type[Message] | None
    gives: type[Message]
    summary: str
    in_query: bool = False

    @property
    def of_task(self) -> bool:
        return "{work_id}" in self.path


OPERATIONS: Final = (
    Operation(
        "register", "PUT", AGENT, messages.Register, messages.Registered,
        "Attach a program as this agent. A new session takes the place of the one before.",
    ),
    Operation(
        "unregister", "DELETE", AGENT, messages.Unregister, messages.Done,
        "Take the agent away. Tasks that wait for it, and those that it has begun, fail.",
        in_query=True,
    ),
    Operation("show", "GET", AGENT, None, messages.AgentView, "The agent as the node knows it."),
    Operation(
        "heartbeat", "POST", f"{AGENT}/heartbeat", messages.Heartbeat, messages.Alive, "Give a sign of life."
    ),
    Operation(
        "set_status", "PUT", f"{AGENT}/status", messages.SetStatus, messages.Done,
        "Say that the agent has failed, or that it has recovered.",
    ),
    Operation(
        "take", "POST", f"{AGENT}/tasks/take", messages.Take, messages.Taken,
        "Wait for the next task. One that is taken and not begun in time is given again.",
    ),
    Operation(
        "begin", "POST", f"{AGENT}/tasks/{{work_id}}/begin", messages.Begin, messages.Said,
        "Begin a task: from now on nobody else gets it. If it is lost it fails.",
    ),
    Operation(
        "progress", "POST", f"{AGENT}/tasks/{{work_id}}/progress", messages.Progress, messages.Said,
        "Report on a task.",
    ),
    Operation(
        "finish", "POST", f"{AGENT}/tasks/{{work_id}}/result", messages.Result, messages.Said,
        "Answer a task. Said again it changes nothing.",
    ),
    Operation(
        "fail", "POST", f"{AGENT}/tasks/{{work_id}}/failure", messages.Failure, messages.Said,
        "Say why a task has no answer. Said again it changes nothing.",
    ),
)  # fmt: skip
BY_NAME: Final = {operation.name: operation for operation in OPERATIONS}
