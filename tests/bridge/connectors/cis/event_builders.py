"""Builders of events."""

from typing import Any

from hypothesis import strategies as st

from bridge.agents.address import AgentAddress
from bridge.agents.agent import WIRE_STATUSES, parse_capabilities
from bridge.connectors.cis.protocol import event_fields
from bridge.connectors.cis.protocol.events import (
    AnyEvent,
    Heartbeat,
    Message,
    Registered,
    StatusUpdate,
    TaskPayload,
    TaskRequest,
    TaskResponse,
    TaskResult,
    Unregistered,
)
from tests.bridge.connectors.cis.samples import HONEST, HONEST_TEXT

WORKER = AgentAddress("worker-1", "kitchen.local")
COORDINATOR = AgentAddress("coordinator", "living.local")
NOON = event_fields.from_milliseconds(1_770_552_000_000)


def registered(runtime: str = "claude", capabilities: tuple[str, ...] = (), **more: Any) -> Registered:
    return Registered(
        agent_id="worker-1", node_id="kitchen.local", runtime_type=runtime, capabilities=capabilities,
        timestamp=NOON, **more,
    )  # fmt: skip


def unregistered(agent_id: str = "worker-1", node_id: str = "kitchen.local", reason: str | None = None) -> Unregistered:
    return Unregistered(agent_id=agent_id, node_id=node_id, reason=reason, timestamp=NOON)


def heartbeat(agent_id: str = "worker-1", node_id: str = "kitchen.local") -> Heartbeat:
    return Heartbeat.model_validate({"agent_id": agent_id, "node_id": node_id, "status": "idle", "timestamp": NOON})


def request(
    from_agent: AgentAddress = COORDINATOR, to_agent: AgentAddress = WORKER, prompt: str = "do it", **more: Any
) -> TaskRequest:
    return TaskRequest(
        request_id="req-1", from_agent=from_agent, to_agent=to_agent, timestamp=NOON,
        task=TaskPayload(task_id="task-1", prompt=prompt, **more),
    )  # fmt: skip


def response(output: str = "done", metadata: dict[str, Any] | None = None) -> TaskResponse:
    return TaskResponse(
        request_id="req-1", from_agent=WORKER, to_agent=COORDINATOR, timestamp=NOON,
        result=TaskResult(success=True, output=output, exit_code=0, metadata=metadata or {}),
    )  # fmt: skip


def message(payload: Any = None, to_agent: AgentAddress | None = COORDINATOR) -> Message:
    return Message(
        message_id="msg-1", from_agent=WORKER, to_agent=to_agent, message_type="progress", payload=payload,
        timestamp=NOON,
    )  # fmt: skip


# -- any event --

_NAMES = HONEST_TEXT.filter(bool)
_IDS = _NAMES.filter(lambda text: "@" not in text)
_ADDRESSES = st.builds(AgentAddress, _IDS, _IDS)
_TEXTS = HONEST_TEXT
_CAPABILITIES = _NAMES.filter(lambda name: isinstance(parse_capabilities([name]), tuple))
_STATUSES = st.sampled_from(sorted(WIRE_STATUSES))
_TIMES = st.integers(0, 2**42).map(event_fields.from_milliseconds)
_OBJECTS = st.dictionaries(HONEST_TEXT, HONEST, max_size=3)
_EXTRAS = st.dictionaries(_NAMES.map(lambda name: f"x{name}") | st.just("payload"), HONEST, max_size=2)


def _any(model: type[AnyEvent], **fields: Any) -> st.SearchStrategy[AnyEvent]:
    known = st.fixed_dictionaries({**fields, "timestamp": _TIMES})
    extras = _EXTRAS.map(lambda more: {name: more[name] for name in more if name not in model.model_fields})
    return st.tuples(extras, known).map(lambda parts: model.model_validate({**parts[0], **parts[1]}))


_PAYLOADS = st.builds(
    TaskPayload, task_id=_NAMES, prompt=_TEXTS, context=_TEXTS, system_prompt=st.none() | _TEXTS,
    model=st.none() | _TEXTS, metadata=_OBJECTS,
)  # fmt: skip
_RESULTS = st.builds(
    TaskResult, success=st.booleans(), output=_TEXTS, exit_code=st.integers(-(2**31), 2**31 - 1), metadata=_OBJECTS
)

ANY: dict[str, st.SearchStrategy[AnyEvent]] = {
    Registered.TYPE: _any(
        Registered, agent_id=_IDS, node_id=_IDS, runtime_type=_CAPABILITIES,
        capabilities=st.lists(_CAPABILITIES, max_size=3),
    ),
    Unregistered.TYPE: _any(Unregistered, agent_id=_IDS, node_id=_IDS, reason=st.none() | _TEXTS),
    Heartbeat.TYPE: _any(Heartbeat, agent_id=_IDS, node_id=_IDS, status=_STATUSES),
    StatusUpdate.TYPE: _any(
        StatusUpdate, agent_id=_IDS, node_id=_IDS, status=_STATUSES, current_task=st.none() | _NAMES
    ),
    TaskRequest.TYPE: _any(
        TaskRequest, request_id=_NAMES, from_agent=_ADDRESSES, to_agent=_ADDRESSES, task=_PAYLOADS,
        timeout_secs=st.none() | st.integers(1, 2**53 - 1),
    ),
    TaskResponse.TYPE: _any(
        TaskResponse, request_id=_NAMES, from_agent=_ADDRESSES, to_agent=_ADDRESSES, result=_RESULTS
    ),
    Message.TYPE: _any(
        Message, message_id=_NAMES, from_agent=_ADDRESSES, to_agent=st.none() | _ADDRESSES,
        message_type=_NAMES, payload=HONEST | st.just({"message_id": "another", "payload": 1}),
    ),
}  # fmt: skip
"""For each type, every event that there can be of it."""
