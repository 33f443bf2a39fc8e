"""The operations of the API for attached agents, and the models of their messages. The OpenAPI document is
generated from them."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from bridge.agents.agent import InvalidCapabilities, parse_capabilities
from bridge.agents.local.command import runtime_type
from bridge.agents.work import TaskAssignment, WorkOutcome
from bridge.tasks.answer import MAX_EXIT_CODE, Answer
from bridge.tasks.errors import ErrorCode, TaskError

MAX_WAIT: Final = 60.0
"""Seconds."""
MAX_PARALLEL: Final = 64
MAX_QUEUED: Final = 10_000
MAX_OUTPUT: Final = 4 * 1024 * 1024
"""Characters of an answer. The node's configuration may limit stored answers further."""
MAX_BODY: Final = 8 * 1024 * 1024
"""Bytes of one message."""


def _printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("is not printable")
    return value


def _capabilities(value: list[str]) -> list[str]:
    read = parse_capabilities(value)
    if isinstance(read, InvalidCapabilities):
        raise ValueError(read.reason)
    return list(read)


SessionName = Annotated[
    str,
    Field(
        min_length=8,
        max_length=64,
        pattern=r"^[A-Za-z0-9._-]+$",
        description="A random name that the program chooses when it starts and sends with every message. The"
        " newest session of an agent is the valid one.",
        examples=["7f3b1c0e9a5d4d21"],
    ),
]
WorkId = Annotated[
    str,
    Field(min_length=1, max_length=32, pattern=r"^[0-9]+$", description="The node's id of a task.", examples=["1042"]),
]
Attempt = Annotated[int, Field(ge=1, le=2**31 - 1, description="The attempt, as in the task.")]


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WorkRef(Message):
    """A task at one attempt."""

    work_id: WorkId
    attempt: Attempt


# -- attaching --


class Register(Message):
    """Attach as an agent, or attach again after a disconnection."""

    session: SessionName
    runtime: Annotated[str, AfterValidator(runtime_type)] = Field(
        default="command",
        pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$",
        description="The kind of agent: `claude`, `open_code`, `kimi`, `aider`, or another name.",
    )
    capabilities: Annotated[list[str], AfterValidator(_capabilities)] = Field(
        default=["task_execution", "messaging"], max_length=64, description="The agent's capabilities."
    )
    parallel: int = Field(
        default=1, ge=1, le=MAX_PARALLEL, description="Tasks that the agent works on at the same time."
    )
    queue: int = Field(
        default=100,
        ge=0,
        le=MAX_QUEUED,
        description="Tasks that may be queued for the agent. With 0 tasks are refused while it is busy.",
    )
    working: list[WorkRef] = Field(
        default=[],
        max_length=MAX_PARALLEL,
        description="Tasks that it began before the disconnection and still works on.",
    )


class RegisterResponse(Message):
    address: str = Field(description="The agent's address.", examples=["worker-1@kitchen.local"])
    heartbeat_seconds: float = Field(description="The longest time between two messages of the program.")
    silence_seconds: float = Field(description="The time without a message after which the agent goes offline.")
    begin_seconds: float = Field(description="The time within which a task that was taken must be begun.")
    working: list[WorkRef] = Field(description="Those tasks of the request that the program may continue.")


class Unregister(Message):
    """Detach the agent. Tasks that it has begun are answered with an error."""

    session: SessionName
    reason: Annotated[str, AfterValidator(_printable)] = Field(
        default="shutdown", min_length=1, max_length=200, description="The reason, for people."
    )


class Heartbeat(Message):
    """Show that the agent is alive. Every other message counts as a heartbeat too."""

    session: SessionName
    working: list[WorkId] | None = Field(
        default=None,
        max_length=MAX_PARALLEL,
        description="The tasks that it works on. A task that is missing here for too long is lost. Omitted:"
        " all begun tasks.",
    )


class HeartbeatResponse(Message):
    cancelled: list[WorkId] = Field(default=[], description="Those of the tasks that it works on that were cancelled.")


class SetStatus(Message):
    """Report that the agent cannot do tasks at the moment, or that it can again. The node knows by itself
    whether the agent is busy."""

    session: SessionName
    status: Literal["idle", "error"]


class AgentView(Message):
    """The agent as the node knows it."""

    address: str
    runtime: str
    capabilities: list[str]
    status: str = Field(description="`running`, `idle`, `busy`, `error` or `shutdown`.")
    current_task: str | None
    is_attached: bool = Field(description="Whether a program is attached as this agent to this process of the node.")


class EmptyResponse(Message):
    """The operation has succeeded."""


# -- tasks --


class Take(Message):
    """Request the next task, and wait for it."""

    session: SessionName
    wait_seconds: float = Field(
        default=30.0, ge=0, le=MAX_WAIT, description="The node waits for `heartbeat_seconds` at most."
    )
    working: list[WorkId] = Field(
        default=[],
        max_length=MAX_PARALLEL,
        description="The tasks that it works on. The response is sent at once if one of them is cancelled.",
    )


class Task(Message):
    work_id: WorkId
    attempt: Attempt
    task_id: str = Field(description="The requester's id of the task.")
    request_id: str
    from_agent: str = Field(description="The requester's address.")
    to_agent: str
    prompt: str
    context: str
    system_prompt: str | None
    model: str | None
    metadata: dict[str, Any]
    deadline_ms: int = Field(description="Milliseconds since 1970, by the node's clock.")
    seconds_left: float = Field(description="Seconds until the deadline, independent of the program's clock.")

    @classmethod
    def of(cls, task: TaskAssignment, now_ms: int) -> Self:
        return cls(
            work_id=task.work_id,
            attempt=task.attempt,
            task_id=task.task_id,
            request_id=task.request_id,
            from_agent=task.from_agent,
            to_agent=task.to_agent,
            prompt=task.prompt,
            context=task.context,
            system_prompt=task.system_prompt,
            model=task.model,
            metadata=dict(task.metadata),
            deadline_ms=task.deadline_ms,
            seconds_left=max(0, task.deadline_ms - now_ms) / 1000,
        )

    def to_do(self, now_ms: int) -> TaskAssignment:
        """The task with a deadline by the program's clock."""
        deadline_ms = now_ms + round(self.seconds_left * 1000)
        return TaskAssignment(**self.model_dump(exclude={"seconds_left", "deadline_ms"}), deadline_ms=deadline_ms)


class TakeResponse(Message):
    task: Task | None = Field(description="Null on timeout.")
    cancelled: list[WorkId] = Field(default=[], description="As in the response to a heartbeat.")


class Begin(Message):
    """Begin a task. The program may work on it only if the response says that it is wanted."""

    session: SessionName
    attempt: Attempt


class Progress(Message):
    """Report progress. This also begins the task."""

    session: SessionName
    attempt: Attempt
    text: str = Field(min_length=1, max_length=4_000, description="A line of text for the requester.")


class Result(Message):
    """Answer a task. Repeating it changes nothing."""

    session: SessionName
    attempt: Attempt
    success: bool = True
    output: str = Field(default="", max_length=MAX_OUTPUT)
    exit_code: int = Field(default=0, ge=-MAX_EXIT_CODE, le=MAX_EXIT_CODE)
    metadata: dict[str, Any] = {}

    def outcome(self) -> WorkOutcome:
        return Answer(self.success, self.output, self.exit_code, self.metadata)


class Failure(Message):
    """Report that a task has no answer. The task need not have been begun."""

    session: SessionName
    attempt: Attempt
    code: Literal["AGENT_BUSY", "TIMEOUT", "INVALID_PAYLOAD", "NODE_UNREACHABLE"]
    reason: str = Field(min_length=1, max_length=4_000)
    metadata: dict[str, Any] = {}

    def outcome(self) -> WorkOutcome:
        return TaskError(ErrorCode(self.code), self.reason, self.metadata)


class TaskCallResponse(Message):
    wanted: bool = Field(
        description="False: the task has ended, was offered again, or was never offered. Stop working on it;"
        " further messages about it are ignored."
    )


# -- the same through a WebSocket --


class Call(Message):
    """A call through the WebSocket, as one text message."""

    id: int = Field(ge=0, le=2**53 - 1, description="Chosen by the program and repeated in the response.")
    do: str = Field(max_length=32, description="The name of an operation, its `operationId`.")
    work_id: WorkId | None = Field(default=None, description="For operations on a task.")
    body: dict[str, Any] = Field(default={}, description="The body of the operation over HTTP.")


class CallAnswer(Message):
    """The response to a call: `answer` as over HTTP, or `problem` with the HTTP status in `status`."""

    id: int | None = Field(description="Null for an invalid call without an id.")
    answer: dict[str, Any] | None = None
    problem: "Problem | None" = None
    status: int = 200


class Push(Message):
    """A message that the node sends on its own."""

    task: Task | None = Field(default=None, description="A task, offered as by `take`.")
    cancelled: list[WorkId] = Field(default=[], description="Tasks that were cancelled.")
    closing: str | None = Field(default=None, description="Why the node closes the connection.")
    errcode: str | None = Field(
        default=None,
        description="With `closing`: `PALAVER_SESSION_REPLACED` if another program is attached as this agent"
        " now and this one must stop.",
    )


class Problem(BaseModel):
    """An error. All HTTP errors of the node have this form."""

    errcode: str = Field(examples=["M_UNKNOWN_TOKEN"])
    error: str = Field(description="A sentence for people.")
    field: str | None = Field(default=None, description="The wrong field of the message.")
    retry_after_ms: int | None = Field(default=None, description="Milliseconds after which to try again.")


BASE: Final = "/_palaver/v1"
AGENT: Final = f"{BASE}/agents/{{agent_id}}"
SOCKET: Final = f"{AGENT}/socket"
DOCUMENT: Final = f"{BASE}/openapi.json"
MAX_AGENT_ID: Final = 255


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. `request_type` None: it has no parameters. `in_query`: the parameters are in the query
    string."""

    name: str
    method: str
    path: str
    request_type: type[Message] | None
    response_type: type[Message]
    summary: str
    in_query: bool = False

    @property
    def of_task(self) -> bool:
        return "{work_id}" in self.path


OPERATIONS: Final = (
    Operation(
        "register", "PUT", AGENT, Register, RegisterResponse,
        "Attach a program as this agent. A new session replaces the previous one.",
    ),
    Operation(
        "unregister", "DELETE", AGENT, Unregister, EmptyResponse,
        "Detach the agent. Its queued and begun tasks fail.",
        in_query=True,
    ),
    Operation("show", "GET", AGENT, None, AgentView, "Show the agent as the node knows it."),
    Operation(
        "heartbeat", "POST", f"{AGENT}/heartbeat", Heartbeat, HeartbeatResponse, "Send a heartbeat."
    ),
    Operation(
        "set_status", "PUT", f"{AGENT}/status", SetStatus, EmptyResponse,
        "Report that the agent has failed or recovered.",
    ),
    Operation(
        "take", "POST", f"{AGENT}/tasks/take", Take, TakeResponse,
        "Wait for the next task. A task that is not begun in time is offered again.",
    ),
    Operation(
        "begin", "POST", f"{AGENT}/tasks/{{work_id}}/begin", Begin, TaskCallResponse,
        "Begin a task. It is then offered to no other program, and fails if this one is lost.",
    ),
    Operation(
        "progress", "POST", f"{AGENT}/tasks/{{work_id}}/progress", Progress, TaskCallResponse,
        "Report progress on a task.",
    ),
    Operation(
        "finish", "POST", f"{AGENT}/tasks/{{work_id}}/result", Result, TaskCallResponse,
        "Answer a task. Repeating it changes nothing.",
    ),
    Operation(
        "fail", "POST", f"{AGENT}/tasks/{{work_id}}/failure", Failure, TaskCallResponse,
        "Report that a task failed without an answer. Repeating it changes nothing.",
    ),
)  # fmt: skip
OPERATIONS_BY_NAME: Final = {operation.name: operation for operation in OPERATIONS}
