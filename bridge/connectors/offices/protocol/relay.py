"""Whether what an Agent asks of a Computer is brought to it: the checks, in their order. The first that
fails answers, and a refusal carries its number.

1 shape, 2 joined, 3 role, 4 a target in the same office, 5 the target's role, 6 the target's version,
7 limits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bridge.connectors.offices.protocol.errors import (
    BAD_REQUEST,
    FORBIDDEN,
    TOO_MANY,
    Flat,
    Profile,
    computer_not_found,
    cross_office,
    event_not_supported,
    flat,
    not_joined,
)
from bridge.connectors.offices.protocol.events import CLIENT_EVENTS, TOOL_CALL, Event, malformed
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member, Offices
from bridge.connectors.offices.protocol.versions import ProtocolVersion

SLACK: Final = 5.0
"""Seconds that a call has beyond its own time limit: the Computer's own answer to that may be on its way."""
LONGEST_CALL: Final = 3600


@dataclass(frozen=True, slots=True)
class Refusal:
    rule: int
    answer: Flat


@dataclass(frozen=True, slots=True)
class Relay:
    """`deadline`: seconds. `call_id` is given to a call by who is no member, and the caller stands for it:
    under that it is written down. Of others it is empty."""

    event: Event
    caller: Member
    target: Member
    said: Mapping[str, Any]
    deadline: float
    call_id: str = ""

    @property
    def req_id(self) -> str:
        return str(self.said["req_id"])

    @property
    def is_tool_call(self) -> bool:
        return self.event.name == TOOL_CALL


@dataclass(frozen=True, slots=True)
class Rules:
    """`version_of` gives that of a connection, None for a client of before there were any."""

    profile: Profile
    version_of: Callable[[str], ProtocolVersion | None]
    relay_timeout: float = 60.0
    most_in_flight: int = 100


def examine(
    name: str, said: object, sid: str, offices: Offices, rules: Rules, *, in_flight: int
) -> Refusal | Relay:
    """`in_flight`: how many calls of this connection are on their way."""
    event = CLIENT_EVENTS.get(name)
    if event is None:
        return Refusal(1, flat(BAD_REQUEST, f"There is no event {name[:100]}"))
    wrong = malformed(event, said)
    if wrong is not None or not isinstance(said, Mapping):
        return Refusal(1, flat(BAD_REQUEST, "" if wrong is None else wrong.sentence))
    if event.name == TOOL_CALL and not 1 <= said["timeout"] <= LONGEST_CALL:
        return Refusal(1, flat(BAD_REQUEST, f"field 'timeout' must be from 1 to {LONGEST_CALL} seconds"))
    computer = said["computer"]
    caller = offices.member(sid)
    if caller is None:
        return Refusal(2, not_joined(rules.profile, computer))
    if caller.role != AGENT:
        return Refusal(3, flat(FORBIDDEN, "Only an Agent asks Computers"))
    target = offices.named(caller.office_id, computer)
    if target is None:
        return Refusal(4, _nobody(computer, caller, offices, rules.profile))
    if target.role != COMPUTER:
        return Refusal(5, computer_not_found(computer))
    if not _understands(rules.version_of(target.sid), event):
        return Refusal(6, event_not_supported(event.name))
    if in_flight >= rules.most_in_flight:
        return Refusal(7, flat(TOO_MANY, f"More than {rules.most_in_flight} calls are on their way"))
    deadline = said["timeout"] + SLACK if event.name == TOOL_CALL else rules.relay_timeout
    return Relay(event, caller, target, said, deadline)


def _nobody(computer: str, caller: Member, offices: Offices, profile: Profile) -> Flat:
    """Nobody in the caller's office is called so; whether somebody elsewhere is, only the letter tells."""
    if profile == "spec":
        elsewhere = any(
            other.name == computer and other.office_id != caller.office_id for other in offices.all()
        )
        if elsewhere:
            return cross_office(profile, computer)
    return computer_not_found(computer)


def _understands(version: ProtocolVersion | None, event: Event) -> bool:
    if event.since is None:
        return True
    return version is not None and (version.major, version.minor) >= event.since
