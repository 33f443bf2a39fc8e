"""Decides whether an Agent's request is forwarded to a Computer. The checks run in this order; the first that
fails determines the answer, and the refusal carries its number:

1 shape, 2 joined, 3 role, 4 target in the same office, 5 role of the target, 6 protocol version of the
target, 7 limits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bridge.connectors.offices.protocol.errors import (
    BAD_REQUEST,
    FORBIDDEN,
    TOO_MANY,
    Ack,
    Profile,
    computer_not_found,
    cross_office,
    event_not_supported,
    flat_error,
    not_joined,
)
from bridge.connectors.offices.protocol.events import CLIENT_EVENTS, TOOL_CALL, Event, find_malformed_field
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member, OfficeMembership
from bridge.connectors.offices.protocol.versions import ProtocolVersion

SLACK: Final = 5.0
"""Seconds added to a call's own timeout: the Computer's own timeout answer may still be on its way."""
MAX_TIMEOUT: Final = 3600
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that is not forwarded: the number of the failed check, and the answer to the caller."""

    rule: int
    answer: Ack


@dataclass(frozen=True, slots=True)
class RelayRequest:
    """A request that passed all checks. `payload` is the request as the caller sent it, `deadline` the number
    of seconds within which it must be answered. `call_id` is set for a direct call, which no member makes;
    the call log uses it. It is empty for a member's request."""

    event: Event
    caller: Member
    target: Member
    payload: Mapping[str, Any]
    deadline: float
    call_id: str = ""

    @property
    def req_id(self) -> str:
        return str(self.payload["req_id"])

    @property
    def is_tool_call(self) -> bool:
        return self.event.name == TOOL_CALL


@dataclass(frozen=True, slots=True)
class RelayRules:
    """`version_of` returns the protocol version of a connection; None for a client that sent no version."""

    profile: Profile
    version_of: Callable[[str], ProtocolVersion | None]
    relay_timeout: float = 60.0
    max_in_flight: int = 100


def check_request(
    name: str, payload: object, sid: str, offices: OfficeMembership, rules: RelayRules, *, in_flight: int
) -> Refusal | RelayRequest:
    """`in_flight` is the number of unanswered requests of this connection."""
    event = CLIENT_EVENTS.get(name)
    if event is None:
        return Refusal(1, flat_error(BAD_REQUEST, f"Unknown event {name[:100]}"))
    malformed = find_malformed_field(event, payload)
    if malformed is not None or not isinstance(payload, Mapping):
        return Refusal(1, flat_error(BAD_REQUEST, "" if malformed is None else malformed.message))
    if event.name == TOOL_CALL and not 1 <= payload["timeout"] <= MAX_TIMEOUT:
        return Refusal(1, flat_error(BAD_REQUEST, f"field 'timeout' must be from 1 to {MAX_TIMEOUT} seconds"))
    computer = payload["computer"]
    caller = offices.member(sid)
    if caller is None:
        return Refusal(2, not_joined(rules.profile, computer))
    if caller.role != AGENT:
        return Refusal(3, flat_error(FORBIDDEN, "Only an Agent can send requests to Computers"))
    target = offices.find(caller.office_id, computer)
    if target is None:
        return Refusal(4, _target_not_found(computer, caller, offices, rules.profile))
    if target.role != COMPUTER:
        return Refusal(5, computer_not_found(computer))
    if not _supports(rules.version_of(target.sid), event):
        return Refusal(6, event_not_supported(event.name))
    if in_flight >= rules.max_in_flight:
        return Refusal(7, flat_error(TOO_MANY, f"More than {rules.max_in_flight} requests are unanswered"))
    deadline = payload["timeout"] + SLACK if event.name == TOOL_CALL else rules.relay_timeout
    return RelayRequest(event, caller, target, payload, deadline)


def _target_not_found(computer: str, caller: Member, offices: OfficeMembership, profile: Profile) -> Ack:
    """The caller's office has no such member. Only the profile `spec` reveals that another office has one."""
    if profile == "spec":
        exists_elsewhere = any(
            other.name == computer and other.office_id != caller.office_id for other in offices.all()
        )
        if exists_elsewhere:
            return cross_office(profile, computer)
    return computer_not_found(computer)


def _supports(version: ProtocolVersion | None, event: Event) -> bool:
    if event.since is None:
        return True
    return version is not None and (version.major, version.minor) >= event.since
