"""The two shapes of an event's content: flat, as specified, and nested, as published nodes write it.

Both are read from any peer; each peer is sent the shape of its profile. Unknown keys are kept and passed on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from bridge.agents.agent import MAX_CAPABILITIES
from bridge.connectors.cis.protocol import json_values
from bridge.connectors.cis.protocol.events import (
    EVENTS,
    NAMESPACE,
    PUBLISHED_RUNTIMES,
    REQUIRED,
    AnyEvent,
    Message,
    Registered,
)
from bridge.connectors.cis.protocol.json_values import problem_of
from bridge.connectors.cis.protocol.refusals import InvalidPayload
from bridge.peers.peer import PeerProfile

_TYPE: Final = "event_type"
_PAYLOAD: Final = "payload"


@dataclass(frozen=True, slots=True)
class UnknownType:
    """A type below `io.cis.agent.` that the specification does not have: "stored in the room, not acted on,
    counted"."""

    type: str


def read(type_: str, content: object) -> AnyEvent | UnknownType | InvalidPayload:
    """Read the content of an event of type `type_`."""
    if not type_.startswith(NAMESPACE):
        return InvalidPayload("type", "is not the type of an agent event")
    if not isinstance(content, dict):
        return InvalidPayload("content", "is not an object")
    problem = problem_of(content)
    if problem is not None:
        return InvalidPayload(*problem)
    # "1. It is an object and `event_type`, if present, equals the envelope's `type`."
    if content.get(_TYPE, type_) != type_:
        return InvalidPayload(_TYPE, "is not the type of the event in which it stands")
    model = EVENTS.get(type_)
    if model is None:
        return UnknownType(type_)
    exact = json_values.decode_numbers(content)
    if isinstance(exact, InvalidPayload):
        return exact
    found = _fields(type_, exact)
    if isinstance(found, InvalidPayload):
        return found
    fields, path = found
    if fields.get(_TYPE, type_) != type_:
        return InvalidPayload(f"{path}{_TYPE}", "is not the type of the event in which it stands")
    try:
        return model.model_validate({name: fields[name] for name in fields if name not in _OURS})
    except ValidationError as refused:
        return _invalid(refused, path)


def render(event: AnyEvent, profile: PeerProfile) -> dict[str, Any]:
    """Return the content in the shape that a peer of this profile reads."""
    if profile is PeerProfile.CIS_1_1:
        return _nested(_for_published(event))
    flat = _flat(event)
    # A message whose payload has a `message_id` of its own would be flat and nested at once. "Both are read
    # from anyone", so this one is sent nested.
    return json_values.encode_numbers(_nested(event) if _is_ambiguous(event.TYPE, flat) else flat)


_OURS: Final = frozenset({_TYPE, json_values.NUMBERS_KEY})


def _fields(type_: str, content: Mapping[str, Any]) -> tuple[Mapping[str, Any], str] | InvalidPayload:
    """Return the event's fields, including unknown ones, and the path prefix at which they stand."""
    distinctive = _DISTINCTIVE[type_]
    inner = content.get(_PAYLOAD)
    at_top = not distinctive.isdisjoint(content)
    if at_top and _is_ambiguous(type_, content):
        # "For the message type: `message_id` at the top → flat; `payload.message_id` → nested; both →
        # refused." The same holds for every other type: a published node would read the inner event, and this
        # node the outer one.
        return InvalidPayload(_PAYLOAD, "holds the event a second time")
    if at_top:
        # "2. If a required flat field of that type is at the top level, it is flat. This comes first because
        # `io.cis.agent.message` has a field of its own called `payload`."
        return content, ""
    if isinstance(inner, dict) and not distinctive.isdisjoint(inner):
        # "3. Otherwise, if `payload` is an object holding the required fields, it is nested." If it holds
        # only some of them, validation names the missing ones.
        known = EVENTS[type_].model_fields
        beside = {name: content[name] for name in content if name != _PAYLOAD and name not in known}
        return {**beside, **inner}, f"{_PAYLOAD}."
    # "4. Otherwise `INVALID_PAYLOAD`."
    return InvalidPayload(_first_distinctive(type_), "is missing")


def _first_distinctive(type_: str) -> str:
    return "message_id" if EVENTS[type_] is Message else REQUIRED[type_][0]


_DISTINCTIVE: Final[Mapping[str, frozenset[str]]] = {
    type_: frozenset(("message_id",) if EVENTS[type_] is Message else REQUIRED[type_]) for type_ in EVENTS
}
"""The fields that decide which shape a content has."""


def _is_ambiguous(type_: str, content: Mapping[str, Any]) -> bool:
    """Return whether flat content could also be read as nested."""
    inner = content.get(_PAYLOAD)
    return isinstance(inner, dict) and _DISTINCTIVE[type_] <= inner.keys()


def _invalid(error: ValidationError, path: str) -> InvalidPayload:
    # The timestamp comes first in the model, but any other wrong field is more helpful to report.
    errors = error.errors(include_url=False, include_input=False)
    first = min(errors, key=lambda error: error["loc"] == ("timestamp",))
    field = path + ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return InvalidPayload(field, "is missing")
    if "error" in first.get("ctx", {}):
        return InvalidPayload(field, str(first["ctx"]["error"]))
    return InvalidPayload(field, "is not an object")


def _flat(event: AnyEvent) -> dict[str, Any]:
    return {_TYPE: event.TYPE, **_dumped(event)}


def _nested(event: AnyEvent) -> dict[str, Any]:
    return {_TYPE: event.TYPE, _PAYLOAD: _dumped(event)}


def _dumped(event: AnyEvent) -> dict[str, Any]:
    """Optional fields are "null in both shapes"; the timestamp comes last, as in the specification."""
    fields = event.model_dump()
    fields["timestamp"] = fields.pop("timestamp")
    return fields


def _for_published(event: AnyEvent) -> AnyEvent:
    """Return the event as a published node can decode it: "`claude` for all others, with `runtime:{name}`
    among the capabilities"."""
    if not isinstance(event, Registered) or event.runtime_type in PUBLISHED_RUNTIMES:
        return event
    # If the agent has the largest allowed number of capabilities, its last one is dropped to make room.
    capabilities = (*event.capabilities[: MAX_CAPABILITIES - 1], f"runtime:{event.runtime_type}")
    return event.model_copy(update={"runtime_type": "claude", "capabilities": capabilities})
