"""Errors as the protocol defines them: a flat object as the first acknowledgement argument, never wrapped.

The profile `wire` answers as unmodified published clients expect; `spec` follows the letter of the
specification. Where the letter would reveal to an Agent that a Computer exists in another office, `wire` does
not.
"""

from typing import Any, Final, Literal

Profile = Literal["wire", "spec"]
Ack = dict[str, Any]
"""The first argument of an acknowledgement: a result or a flat error."""

BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
TIMEOUT: Final = 408
TOO_MANY: Final = 429
INTERNAL: Final = 500
NOT_IN_ROOM: Final = 4103
CROSS_ROOM: Final = 4104


def flat_error(code: int, message: str, **details: Any) -> Ack:
    error: Ack = {"code": code, "message": message}
    if details:
        error["details"] = details
    return error


def computer_not_found(name: str) -> Ack:
    """The same bytes for an unknown name, a Computer in another office, and a Computer that has just left."""
    return flat_error(NOT_FOUND, f"Computer with name '{name}' not found", computer_name=name)


def not_joined(profile: Profile, name: str) -> Ack:
    """The answer to a call on a connection that is in no office."""
    return computer_not_found(name) if profile == "wire" else flat_error(NOT_IN_ROOM, "Not in office")


def cross_office(profile: Profile, name: str) -> Ack:
    """The answer to a call of a Computer that is in another office."""
    if profile == "wire":
        return computer_not_found(name)
    return flat_error(CROSS_ROOM, "Cross-room access denied")


def event_not_supported(event: str) -> Ack:
    """The Computer speaks a protocol version that does not have the event."""
    return flat_error(NOT_FOUND, f"The Computer does not support {event}", reason="event_not_supported")


def connected_to_other_node(name: str, server: str) -> Ack:
    """The answer to a direct call: only members can call a Computer that is connected to another node."""
    return flat_error(FORBIDDEN, f"Computer with name '{name}' is connected to {server}: call it from that node")


def timed_out(seconds: float) -> Ack:
    """A tool result for a call that exceeded its timeout."""
    text = f"The tool did not answer within {seconds:g} s. The Computer was asked to cancel the call."
    return result_error(text, a2c_timeout=True)


def cancelled() -> Ack:
    """A tool result for a call whose Agent cancelled it, or left, before the call was sent to the
    Computer."""
    return result_error("The call was cancelled before it reached the Computer.", a2c_cancelled=True)


def interrupted() -> Ack:
    """A tool result for a call that was running when its node was killed. It is stored and shown in the room;
    the Agent does not receive it, because its connection ended with the node."""
    text = "The node stopped before the tool answered. It is not known whether the tool completed its work."
    return result_error(text, a2c_interrupted=True)


def result_error(text: str, **meta: Any) -> Ack:
    """A tool result that reports a failed call."""
    return {"meta": meta, "content": [{"type": "text", "text": text}], "isError": True}
