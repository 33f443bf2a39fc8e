"""The two shapes of an event's content: flat, as specified, and nested, as published nodes write it.

Either is read from anyone; each peer gets the one of its profile. Unknown keys are kept and passed on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from bridge.agents.agent import MAX_CAPABILITIES
from bridge.connectors.cis.protocol import json_values as exact_numbers
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
    """`type_` is that of the event in which the content stands."""
    if not type_.startswith(NAMESPACE):
        return InvalidPayload("type", "is not that of an event about agents")
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
    exact = exact_numbers.restored(content)
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
    """The content for a peer."""
    if profile is PeerProfile.CIS_1_1:
        return _nested(_for_published(event))
    flat = _flat(event)
    # A message whose payload has a `message_id` of its own would be flat and nested at once. "Both are read
    # from anyone", so that it can be said the other way.
    return exact_numbers.written(_nested(event) if _is_ambiguous(event.TYPE, flat) else flat)


_OURS: Final = frozenset({_TYPE, exact_numbers.KEY})


def _fields(type_: str, content: Mapping[str, Any]) -> tuple[Mapping[str, Any], str] | InvalidPayload:
    """The event's fields, unknown ones among them, and the path that leads to them."""
    telling = _TELLING[type_]
    inner = content.get(_PAYLOAD)
    at_top = not telling.isdisjoint(content)
    if at_top and _is_ambiguous(type_, content):
        # "For the message type: `message_id` at the top → flat; `payload.message_id` → nested; both →
        # refused." Of any other type too: a published node would read the inner one, and we the outer.
        return InvalidPayload(_PAYLOAD, "holds the event a second time")
    if at_top:
        # "2. If a required flat field of that type is at the top level, it is flat. This comes first because
        # `io.cis.agent.message` has a field of its own called `payload`."
        return content, ""
    if isinstance(inner, dict) and not telling.isdisjoint(inner):
        # "3. Otherwise, if `payload` is an object holding the required fields, it is nested." If it holds
        # some of them, the ones that are missing can be named.
        known = EVENTS[type_].model_fields
        beside = {name: content[name] for name in content if name != _PAYLOAD and name not in known}
        return {**beside, **inner}, f"{_PAYLOAD}."
    # "4. Otherwise `INVALID_PAYLOAD`."
    return InvalidPayload(_first_telling(type_), "is missing")


def _first_telling(type_: str) -> str:
    return "message_id" if EVENTS[type_] is Message else REQUIRED[type_][0]


_TELLING: Final[Mapping[str, frozenset[str]]] = {
    type_: frozenset(("message_id",) if EVENTS[type_] is Message else REQUIRED[type_]) for type_ in EVENTS
}
"""The fields by which the shape is told."""


def _is_ambiguous(type_: str, content: Mapping[str, Any]) -> bool:
    """Whether what is flat could be read as nested too."""
    inner = content.get(_PAYLOAD)
    return isinstance(inner, dict) and _TELLING[type_] <= inner.keys()


def _invalid(refused: ValidationError, path: str) -> InvalidPayload:
    # The time stands first in the model, but is the last thing that anybody would miss.
    errors = refused.errors(include_url=False, include_input=False)
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
    """Optional fields are "null in both shapes"; the time comes last, as the specification has it."""
    fields = event.model_dump()
    fields["timestamp"] = fields.pop("timestamp")
    return fields


def _for_published(event: AnyEvent) -> AnyEvent:
    """What a published node can decode: "`claude` for all others, with `runtime:{name}` among the
    capabilities"."""
    if not isinstance(event, Registered) or event.runtime_type in PUBLISHED_RUNTIMES:
        return event
    # One fewer of its own, if it has as many as anybody may: this one says more.
    capabilities = (*event.capabilities[: MAX_CAPABILITIES - 1], f"runtime:{event.runtime_type}")
    return event.model_copy(update={"runtime_type": "claude", "capabilities": capabilities})
