"""Models of the seven events of agent federation 1.0.0, "Event types", independent of the content's shape.

Unknown keys of an object are kept and passed on. A missing field that may be null is null.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field

from bridge.agents.address import AgentAddress
from bridge.connectors.cis.protocol import event_fields
from bridge.connectors.cis.protocol.event_fields import (
    Address,
    AgentId,
    Boolean,
    Capabilities,
    Context,
    ExitCode,
    Metadata,
    Name,
    NodeId,
    OptionalAddress,
    OptionalName,
    OptionalText,
    Reason,
    Runtime,
    Status,
    Text,
    TimeoutSecs,
    Timestamp,
)

NAMESPACE: Final = "io.cis.agent."

PUBLISHED_RUNTIMES: Final = frozenset({"claude", "open_code", "kimi", "aider"})
"""The runtimes that published nodes know: they reject a registration with any other one."""


class _Object(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    @property
    def unknown(self) -> dict[str, Any]:
        """The keys that the specification does not define."""
        return self.model_extra or {}


class CisEvent(_Object):
    TYPE: ClassVar[str]

    timestamp: Timestamp

    @property
    def sent_at(self) -> int:
        """Milliseconds since 1970, by the clock of the agent's node."""
        return event_fields.to_milliseconds(self.timestamp)


class AgentEvent(CisEvent):
    """A node's report on one of its agents to all nodes."""

    agent_id: AgentId
    node_id: NodeId

    @property
    def agent(self) -> AgentAddress:
        return AgentAddress(self.agent_id, self.node_id)


class Registered(AgentEvent):
    """An agent has come online, or its description has changed."""

    TYPE: ClassVar[str] = "io.cis.agent.registered"

    runtime_type: Runtime
    capabilities: Capabilities


class Unregistered(AgentEvent):
    """An agent has gone offline."""

    TYPE: ClassVar[str] = "io.cis.agent.unregistered"

    reason: Reason = None


class Heartbeat(AgentEvent):
    """An agent is still online."""

    TYPE: ClassVar[str] = "io.cis.agent.heartbeat"

    status: Status


class StatusUpdate(AgentEvent):
    """An agent's status or current task has changed."""

    TYPE: ClassVar[str] = "io.cis.agent.status_update"

    status: Status
    current_task: OptionalName = None


class TaskPayload(_Object):
    """The task of a request."""

    task_id: Name
    prompt: Text
    # "`task.context`, `task.metadata` and `result.metadata` are required by published decoding, even when
    # empty": they are always written, but not required when an event is read.
    context: Context = ""
    system_prompt: OptionalText = None
    model: OptionalText = None
    metadata: Metadata = Field(default_factory=dict)


class TaskResult(_Object):
    """The result in a response."""

    success: Boolean
    output: Text
    exit_code: ExitCode
    metadata: Metadata = Field(default_factory=dict)


class TaskRequest(CisEvent):
    """One agent requests a task from another."""

    TYPE: ClassVar[str] = "io.cis.agent.task.request"

    request_id: Name
    from_agent: Address
    to_agent: Address
    task: TaskPayload
    timeout_secs: TimeoutSecs = None


class TaskResponse(CisEvent):
    """The answer to a task request."""

    TYPE: ClassVar[str] = "io.cis.agent.task.response"

    request_id: Name
    from_agent: Address
    to_agent: Address
    result: TaskResult


class Message(CisEvent):
    """A message from one agent to another, or to all agents if `to_agent` is null."""

    TYPE: ClassVar[str] = "io.cis.agent.message"

    message_id: Name
    from_agent: Address
    to_agent: OptionalAddress = None
    message_type: Name
    payload: Any


AnyAgentEvent = Registered | Unregistered | Heartbeat | StatusUpdate
AnyEvent = Registered | Unregistered | Heartbeat | StatusUpdate | TaskRequest | TaskResponse | Message

EVENTS: Final[Mapping[str, type[AnyEvent]]] = MappingProxyType(
    {
        event.TYPE: event
        for event in (Registered, Unregistered, Heartbeat, StatusUpdate, TaskRequest, TaskResponse, Message)
    }
)


def _required(event: type[AnyEvent]) -> tuple[str, ...]:
    return tuple(name for name, field in event.model_fields.items() if field.is_required())


REQUIRED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        type_: (*(name for name in _required(event) if name != "timestamp"), "timestamp")
        for type_, event in EVENTS.items()
    }
)
"""The required fields of each event type, with `timestamp` last."""
