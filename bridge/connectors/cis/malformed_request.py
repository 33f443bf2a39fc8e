"""A request that cannot be read as one, as far as it says to whom its refusal goes."""

from collections.abc import Mapping
from typing import Any, Final

from bridge.address import AgentAddress
from bridge.connectors.cis import timestamps
from bridge.connectors.cis.effects import NotAsked
from bridge.connectors.cis.events import TaskPayload, TaskRequest
from bridge.connectors.cis.json_value import problem_of
from bridge.connectors.cis.refusals import InvalidPayload
from bridge.connectors.cis.settings import CisSettings
from bridge.task_error import ErrorCode, TaskError
from federation.identifiers import fits

_LONGEST: Final = 300


def malformed_request(
    content: Mapping[str, Any], node_id: str, refusal: InvalidPayload, settings: CisSettings
) -> NotAsked | None:
    """None where it does not say enough, or says that somebody else has sent it."""
    inner = content.get("payload")
    fields = inner if "request_id" not in content and isinstance(inner, dict) else content
    request_id, asked_by = fields.get("request_id"), _address(fields.get("from_agent"))
    if not isinstance(request_id, str) or not request_id or not fits(request_id):
        return None
    if problem_of(request_id) is not None or asked_by is None or asked_by.node_id != node_id:
        return None
    to_agent = _address(fields.get("to_agent")) or settings.node_address
    event = TaskRequest(
        request_id=request_id,
        from_agent=asked_by,
        to_agent=to_agent,
        task=TaskPayload(task_id=request_id, prompt=""),
        timestamp=timestamps.of(0),
    )
    error = TaskError(ErrorCode.INVALID_PAYLOAD, str(refusal)[:_LONGEST], {"field": refusal.field[:_LONGEST]})
    return NotAsked(event, error, settings.main_namespace, node_id)


def _address(said: Any) -> AgentAddress | None:
    if not isinstance(said, str):
        return None
    address = AgentAddress.parse(said)
    return address if isinstance(address, AgentAddress) else None
