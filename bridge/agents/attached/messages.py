"""What programs that attach themselves say, and what they are answered. The description of the interface is
made from these models.

What a program can do in the interface: names, places, and what goes in and out of each.
"""

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
"""Characters of an answer. What is kept of it the node decides."""
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
        description="A name that the program has chosen at random when it started, and says every time. The"
        " newest session of an agent is the one that counts.",
        examples=["7f3b1c0e9a5d4d21"],
    ),
]
WorkId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=32,
        pattern=r"^[0-9]+$",
        description="The node's own name for a task that it has given.",
        examples=["1042"],
    ),
]
Attempt = Annotated[int, Field(ge=1, le=2**31 - 1, description="Which time it was given: as in the task.")]


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WorkRef(Message):
    """A task at one attempt."""

    work_id: WorkId
    attempt: Attempt


# -- attaching --


class Register(Message):
    """Begin to be an agent, or go on after a break."""

    session: SessionName
    runtime: Annotated[str, AfterValidator(runtime_type)] = Field(
        default="command",
        pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$",
        description="What it is: `claude`, `open_code`, `kimi`, `aider`, or another name.",
    )
    capabilities: Annotated[list[str], AfterValidator(_capabilities)] = Field(
        default=["task_execution", "messaging"], max_length=64, description="What it says it can do."
    )
    parallel: int = Field(
        default=1, ge=1, le=MAX_PARALLEL, description="How many tasks it works on at the same time."
    )
    queue: int = Field(
        default=100,
        ge=0,
        le=MAX_QUEUED,
        description="How many more may wait for it. With none it refuses tasks while it is busy.",
    )
    working: list[WorkRef] = Field(
        default=[], max_length=MAX_PARALLEL, description="What it had begun before the break and still does."
    )


class RegisterResponse(Message):
    address: str = Field(
        description="By which every other agent knows it.", examples=["worker-1@kitchen.local"]
    )
    heartbeat_seconds: float = Field(description="How often to give a sign of life, at least.")
    silence_seconds: float = Field(description="After how much silence the agent counts as gone.")
    begin_seconds: float = Field(description="How soon a task that was taken must be begun.")
    working: list[WorkRef] = Field(description="Of what it had begun, what is still wanted.")


class Unregister(Message):
    """Be no agent any more. What was begun is answered with an error."""

    session: SessionName
    reason: Annotated[str, AfterValidator(_printable)] = Field(
        default="shutdown", min_length=1, max_length=200, description="Why, for whoever looks for it."
    )


class Heartbeat(Message):
    """A sign of life. Every other message is one too."""

    session: SessionName
    working: list[WorkId] | None = Field(
        default=None,
        max_length=MAX_PARALLEL,
        description="What it works on. A task that is missing here too long is lost. Left out: all that it"
        " has begun.",
    )


class HeartbeatResponse(Message):
    cancelled: list[WorkId] = Field(
        default=[], description="Of what it said that it works on: what nobody wants any more."
    )


class SetStatus(Message):
    """Say that no task can be done now, or that they can again. Whether it is busy the node knows itself."""

    session: SessionName
    status: Literal["idle", "error"]


class AgentView(Message):
    """The agent as the node knows it."""

    address: str
    runtime: str
    capabilities: list[str]
    status: str = Field(description="`running`, `idle`, `busy`, `error` or `shutdown`.")
    current_task: str | None
    is_attached: bool = Field(description="Whether a program is attached as this agent, to this process.")


class EmptyResponse(Message):
    """There is nothing more to say."""


# -- tasks --


class Take(Message):
    """Ask for the next task, and wait for one."""

    session: SessionName
    wait_seconds: float = Field(
        default=30.0,
        ge=0,
        le=MAX_WAIT,
        description="The node waits for `heartbeat_seconds` at most.",
    )
    working: list[WorkId] = Field(
        default=[],
        max_length=MAX_PARALLEL,
        description="What it works on; the answer comes early when some of it is cancelled.",
    )


class Task(Message):
    work_id: WorkId
    attempt: Attempt
    task_id: str = Field(description="As whoever asked for it calls it.")
    request_id: str
    from_agent: str = Field(description="The address of whoever asked for it.")
    to_agent: str
    prompt: str
    context: str
    system_prompt: str | None
    model: str | None
    metadata: dict[str, Any]
    deadline_ms: int = Field(description="Milliseconds since 1970, by the node's clock.")
    seconds_left: float = Field(description="The same, for a program whose clock is another one.")

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
        """As the program sees it, by its own clock."""
        deadline_ms = now_ms + round(self.seconds_left * 1000)
        return TaskAssignment(
            **self.model_dump(exclude={"seconds_left", "deadline_ms"}), deadline_ms=deadline_ms
        )


class TakeResponse(Message):
    task: Task | None = Field(description="Null when none came in time.")
    cancelled: list[WorkId] = Field(default=[], description="As in the answer to a heartbeat.")


class Begin(Message):
    """Begin a task. Only when this is wanted may anything be done for it."""

    session: SessionName
    attempt: Attempt


class Progress(Message):
    """How far it is. It begins the task if that has not been done."""

    session: SessionName
    attempt: Attempt
    text: str = Field(min_length=1, max_length=4_000, description="A line for whoever waits.")


class Result(Message):
    """The answer. It begins the task if that has not been done."""

    session: SessionName
    attempt: Attempt
    success: bool = True
    output: str = Field(default="", max_length=MAX_OUTPUT)
    exit_code: int = Field(default=0, ge=-MAX_EXIT_CODE, le=MAX_EXIT_CODE)
    metadata: dict[str, Any] = {}

    def outcome(self) -> WorkOutcome:
        return Answer(self.success, self.output, self.exit_code, self.metadata)


class Failure(Message):
    """Why there is no answer. A task that was not begun may be refused like this too."""

    session: SessionName
    attempt: Attempt
    code: Literal["AGENT_BUSY", "TIMEOUT", "INVALID_PAYLOAD", "NODE_UNREACHABLE"]
    reason: str = Field(min_length=1, max_length=4_000)
    metadata: dict[str, Any] = {}

    def outcome(self) -> WorkOutcome:
        return TaskError(ErrorCode(self.code), self.reason, self.metadata)


class TaskCallResponse(Message):
    wanted: bool = Field(
        description="False: the task is over, was given to somebody else, or was never given. Stop working on"
        " it; nothing that is said of it counts."
    )


# -- the same through a WebSocket --


class Call(Message):
    """What a program says through a WebSocket, as one text message."""

    id: int = Field(ge=0, le=2**53 - 1, description="Chosen by the program; the answer bears it too.")
    do: str = Field(max_length=32, description="The name of an operation, its `operationId`.")
    work_id: WorkId | None = Field(default=None, description="For operations on a task.")
    body: dict[str, Any] = Field(default={}, description="As over HTTP.")


class CallAnswer(Message):
    """To a call: `answer` as over HTTP, or `problem` with the status that it would have had there."""

    id: int | None = Field(description="Null for a call that could not be read.")
    answer: dict[str, Any] | None = None
    problem: "Problem | None" = None
    status: int = 200


class Push(Message):
    """What the node says unasked."""

    task: Task | None = Field(default=None, description="A task, as if it had been taken.")
    cancelled: list[WorkId] = Field(default=[], description="Tasks that nobody wants any more.")
    closing: str | None = Field(default=None, description="Why the connection will be closed.")
    errcode: str | None = Field(
        default=None,
        description="With `closing`: `PALAVER_SESSION_REPLACED` when another program is this agent now, and"
        " this one has to stop.",
    )


class Problem(BaseModel):
    """Why something was refused: the same form everywhere on this node."""

    errcode: str = Field(examples=["M_UNKNOWN_TOKEN"])
    error: str = Field(description="A sentence for people.")
    field: str | None = Field(default=None, description="What in the message is wrong.")
    retry_after_ms: int | None = Field(default=None, description="When to try again.")


BASE: Final = "/_palaver/v1"
AGENT: Final = f"{BASE}/agents/{{agent_id}}"
SOCKET: Final = f"{AGENT}/socket"
DOCUMENT: Final = f"{BASE}/openapi.json"
MAX_AGENT_ID: Final = 255


@dataclass(frozen=True, slots=True)
class Operation:
    """`takes` None: there is nothing to say. `in_query`: what there is to say stands in the address."""

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
        "Attach a program as this agent. A new session takes the place of the one before.",
    ),
    Operation(
        "unregister", "DELETE", AGENT, Unregister, EmptyResponse,
        "Take the agent away. Tasks that wait for it, and those that it has begun, fail.",
        in_query=True,
    ),
    Operation("show", "GET", AGENT, None, AgentView, "The agent as the node knows it."),
    Operation(
        "heartbeat", "POST", f"{AGENT}/heartbeat", Heartbeat, HeartbeatResponse, "Give a sign of life."
    ),
    Operation(
        "set_status", "PUT", f"{AGENT}/status", SetStatus, EmptyResponse,
        "Say that the agent has failed, or that it has recovered.",
    ),
    Operation(
        "take", "POST", f"{AGENT}/tasks/take", Take, TakeResponse,
        "Wait for the next task. One that is taken and not begun in time is given again.",
    ),
    Operation(
        "begin", "POST", f"{AGENT}/tasks/{{work_id}}/begin", Begin, TaskCallResponse,
        "Begin a task: from now on nobody else gets it. If it is lost it fails.",
    ),
    Operation(
        "progress", "POST", f"{AGENT}/tasks/{{work_id}}/progress", Progress, TaskCallResponse,
        "Report on a task.",
    ),
    Operation(
        "finish", "POST", f"{AGENT}/tasks/{{work_id}}/result", Result, TaskCallResponse,
        "Answer a task. TaskCallResponse again it changes nothing.",
    ),
    Operation(
        "fail", "POST", f"{AGENT}/tasks/{{work_id}}/failure", Failure, TaskCallResponse,
        "Say why a task has no answer. TaskCallResponse again it changes nothing.",
    ),
)  # fmt: skip
OPERATIONS_BY_NAME: Final = {operation.name: operation for operation in OPERATIONS}
