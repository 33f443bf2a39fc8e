"""Errors as the protocol has them: flat, in the first argument of the answer, never wrapped.

`wire` is what unmodified published clients are answered, `spec` what the letter says. Where the letter would
tell an Agent that there is such a Computer elsewhere, `wire` does not.
"""

from typing import Any, Final, Literal

Profile = Literal["wire", "spec"]
Flat = dict[str, Any]

BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
TIMEOUT: Final = 408
TOO_MANY: Final = 429
INTERNAL: Final = 500
NOT_IN_ROOM: Final = 4103
CROSS_ROOM: Final = 4104


def flat(code: int, message: str, **details: Any) -> Flat:
    error: Flat = {"code": code, "message": message}
    if details:
        error["details"] = details
    return error


def computer_not_found(name: str) -> Flat:
    """The same bytes for a name that nobody has, one in another office, and one that has just gone."""
    return flat(NOT_FOUND, f"Computer with name '{name}' not found", computer_name=name)


def not_joined(profile: Profile, name: str) -> Flat:
    """Of whoever calls before it is in an office."""
    return computer_not_found(name) if profile == "wire" else flat(NOT_IN_ROOM, "Not in office")


def cross_office(profile: Profile, name: str) -> Flat:
    return computer_not_found(name) if profile == "wire" else flat(CROSS_ROOM, "Cross-room access denied")


def event_not_supported(event: str) -> Flat:
    """The Computer is older than the event."""
    return flat(NOT_FOUND, f"The Computer does not know {event}", reason="event_not_supported")


def connected_elsewhere(name: str, server: str) -> Flat:
    """To who is no member: between nodes members alone ask each other."""
    return flat(FORBIDDEN, f"Computer with name '{name}' is connected to {server}: it is called from there")


def timed_out(seconds: float) -> Flat:
    """The result of a call that took too long, as the result of a tool."""
    text = f"The tool has not answered within {seconds:g} s, and was told to stop."
    return result_error(text, a2c_timeout=True)


def withdrawn() -> Flat:
    """Of a call whose Agent has taken it back before its Computer knew it, or has gone."""
    return result_error("The call was taken back.", a2c_cancelled=True)


def interrupted() -> Flat:
    """In place of the result of a call that was under way when its node was killed. Its Agent does not get
    it: that one's connection has ended with the node."""
    text = "The node was stopped before there was an answer. Whether the tool has done its work is not known."
    return result_error(text, a2c_interrupted=True)


def result_error(text: str, **meta: Any) -> Flat:
    """A result that says that the call failed."""
    return {"meta": meta, "content": [{"type": "text", "text": text}], "isError": True}
