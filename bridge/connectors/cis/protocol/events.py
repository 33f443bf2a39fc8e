"""The seven events of agent federation 1.0.0, "Event types", whatever shape they came in.

An unknown key of an object is kept and passed on. What is absent although it may be null is null.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field

from bridge.agents.address import AgentAddress
from bridge.connectors.cis.protocol import event_fields as timestamps
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
"""The runtimes that published nodes know: they reject an event that names another one."""


class _Object(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    @property
    def unknown(self) -> dict[str, Any]:
        """The keys that the specification does not have."""
        return self.model_extra or {}


class CisEvent(_Object):
    TYPE: ClassVar[str]

    timestamp: Timestamp

    @property
    def sent_at(self) -> int:
        """Milliseconds since 1970, by the clock of the agent's node."""
        return timestamps.milliseconds(self.timestamp)


class AgentEvent(CisEvent):
    """What a node says of one agent to all."""

    agent_id: AgentId
    node_id: NodeId

    @property
    def agent(self) -> AgentAddress:
        return AgentAddress(self.agent_id, self.node_id)


class Registered(AgentEvent):
    """An agent has come."""

    TYPE: ClassVar[str] = "io.cis.agent.registered"

    runtime_type: Runtime
    capabilities: Capabilities


class Unregistered(AgentEvent):
    """An agent has gone."""

    TYPE: ClassVar[str] = "io.cis.agent.unregistered"

    reason: Reason = None


class Heartbeat(AgentEvent):
    """An agent lives."""

    TYPE: ClassVar[str] = "io.cis.agent.heartbeat"

    status: Status


class StatusUpdate(AgentEvent):
    """An agent does something else now."""

    TYPE: ClassVar[str] = "io.cis.agent.status_update"

    status: Status
    current_task: OptionalName = None


class TaskPayload(_Object):
    """What is to be done."""

    task_id: Name
    prompt: Text
    # "`task.context`, `task.metadata` and `result.metadata` are required by published decoding, even when
    # empty": they are always written, and not missed.
    context: Context = ""
    system_prompt: OptionalText = None
    model: OptionalText = None
    metadata: Metadata = Field(default_factory=dict)


class TaskResult(_Object):
    """What has become of it."""

    success: Boolean
    output: Text
    exit_code: ExitCode
    metadata: Metadata = Field(default_factory=dict)


class TaskRequest(CisEvent):
    """One agent gives work to another."""

    TYPE: ClassVar[str] = "io.cis.agent.task.request"

    request_id: Name
    from_agent: Address
    to_agent: Address
    task: TaskPayload
    timeout_secs: TimeoutSecs = None


class TaskResponse(CisEvent):
    """The answer to it."""

    TYPE: ClassVar[str] = "io.cis.agent.task.response"

    request_id: Name
    from_agent: Address
    to_agent: Address
    result: TaskResult


class Message(CisEvent):
    """One agent says something to another, or to all: then `to_agent` is null."""

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
"""The fields without which there is no event, by type."""
