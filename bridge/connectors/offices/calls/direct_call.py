"""Direct calls: calls of a Computer's tools by a requester that is no member of the office, such as an
operator, a person in the room, or the sender of a task.

A direct call takes the same path as an Agent's call, so it is approved, recorded, shown in the room and
cancelled in the same way. It passes the same checks in the same order, except those of the caller, which were
made before.
"""

import asyncio
import difflib
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bridge.connectors.offices.protocol.errors import BAD_REQUEST, TOO_MANY, computer_not_found, flat_error
from bridge.connectors.offices.protocol.events import (
    CLIENT_EVENTS,
    MAX_NAME_BYTES,
    TOOL_CALL,
    Event,
    find_malformed_field,
    is_name,
)
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member, OfficeMembership, is_remote
from bridge.connectors.offices.protocol.relay import MAX_TIMEOUT, SLACK, Refusal, RelayRequest
from bridge.people.texts.text import one_line

if TYPE_CHECKING:
    from bridge.connectors.offices.server.server import SmcpServer


GET_TOOLS: Final = "client:get_tools"
DEFAULT_SECONDS: Final = 60
MAX_SHOWN_LENGTH: Final = 80
MAX_LISTED: Final = 20

# No connection id begins with this.
_CALLER: Final = "direct "
_UNNAMED: Final = "unknown"
_MAX_NAME_LENGTH: Final = 240


@dataclass(frozen=True, slots=True)
class DirectCall:
    """`by` is the requester as shown to people. `call_id` is made by this node: it identifies the call in the
    call log and for the Computer. `timeout` is in seconds."""

    call_id: str
    office_id: str
    computer: str
    tool_name: str
    params: Mapping[str, Any]
    timeout: int
    by: str

    @property
    def caller(self) -> Member:
        """A member that stands for the requester. All direct calls of one requester count together."""
        name = shown_caller(self.by)
        return Member(f"{_CALLER}{name}", AGENT, name, self.office_id)


def shown_caller(by: str) -> str:
    """The requester in a form that is valid as a member's name."""
    shown = "".join(one if one.isprintable() else "\ufffd" for one in by[: 2 * _MAX_NAME_LENGTH])
    name = one_line(shown, _MAX_NAME_LENGTH)
    # A character has at most four bytes in UTF-8.
    return name if is_name(name) else one_line(name, MAX_NAME_BYTES // 4) or _UNNAMED


def check_call(
    call: DirectCall, offices: OfficeMembership, *, in_flight: int, max_in_flight: int
) -> Refusal | RelayRequest:
    """`in_flight` is the number of unanswered calls of this requester. The refusals have the numbers of
    `relay.check_request`."""
    payload = {
        "agent": call.caller.name,
        "req_id": call.call_id,
        "computer": call.computer,
        "tool_name": call.tool_name,
        "params": call.params,
        "timeout": call.timeout,
    }
    event = CLIENT_EVENTS[TOOL_CALL]
    malformed = find_malformed_field(event, payload)
    if malformed is not None:
        return Refusal(1, flat_error(BAD_REQUEST, malformed.message))
    if not 1 <= call.timeout <= MAX_TIMEOUT:
        return Refusal(1, flat_error(BAD_REQUEST, f"field 'timeout' must be from 1 to {MAX_TIMEOUT} seconds"))
    target = _find_computer(offices, call.office_id, call.computer)
    if target is None:
        return Refusal(4, computer_not_found(call.computer))
    if in_flight >= max_in_flight:
        return Refusal(7, flat_error(TOO_MANY, f"More than {max_in_flight} requests are unanswered"))
    return RelayRequest(event, call.caller, target, payload, call.timeout + SLACK, call.call_id)


def tools_request(
    office_id: str, computer: str, by: str, req_id: str, offices: OfficeMembership, deadline: float
) -> RelayRequest | None:
    """A request for the Computer's list of tools; None if the Computer is not in the office."""
    target = _find_computer(offices, office_id, computer)
    if target is None:
        return None
    name = shown_caller(by)
    payload = {"agent": name, "req_id": req_id, "computer": computer}
    event: Event = CLIENT_EVENTS[GET_TOOLS]
    return RelayRequest(event, Member(f"{_CALLER}{name}", AGENT, name, office_id), target, payload, deadline)


def why_no_computer(members: Collection[Member], office_id: str, computer: str) -> str | None:
    """Why the office has no such Computer; None if it has. The sentence lists names, so it is only for a
    requester who may know the members of the office."""
    here = [member for member in members if member.office_id == office_id]
    shown_office, shown = one_line(office_id, MAX_SHOWN_LENGTH), one_line(computer, MAX_SHOWN_LENGTH)
    if not here:
        hint = suggestion(office_id, {member.office_id for member in members})
        return f"The office {shown_office} has no members.{hint}"
    computers = sorted(member.name for member in here if member.role == COMPUTER)
    if computer in computers:
        return None
    if any(member.name == computer for member in here):
        return f"{shown} is the Agent of the office {shown_office}: only Computers have tools."
    if not computers:
        return f"There is no Computer in the office {shown_office}."
    hint = suggestion(computer, computers)
    return f"There is no Computer {shown} in the office {shown_office}.{hint} {list_names(computers)}"


def suggestion(name: str, names: Collection[str]) -> str:
    """A question with the most similar name, beginning with a space; empty if no name is similar."""
    similar = difflib.get_close_matches(name[:MAX_SHOWN_LENGTH], sorted(names), n=1)
    return f" Did you mean {one_line(similar[0], MAX_SHOWN_LENGTH)}?" if similar else ""


def list_names(names: Collection[str]) -> str:
    """A sentence that lists the existing names."""
    shown = [one_line(name, MAX_SHOWN_LENGTH) for name in sorted(names)[:MAX_LISTED]]
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"There {'is' if len(names) == 1 else 'are'} {', '.join(shown)}{more}."


def _find_computer(offices: OfficeMembership, office_id: str, name: str) -> Member | None:
    """Checks 4 and 5: the target is in the office and is a Computer."""
    member = offices.find(office_id, name)
    return member if member is not None and member.role == COMPUTER else None


TOOLS_TIMEOUT: Final = 5.0
"""Seconds that a Computer has to send its list of tools."""
MAX_QUERIED: Final = 20


@dataclass(frozen=True, slots=True)
class CallResult:
    """The answer to a call, from the Computer or from the node in its place."""

    call: DirectCall
    answer: Mapping[str, Any]
    took_ms: int


class DirectCalls:
    """Makes direct calls and queries tools. `tools` returns the known tools of a Computer of an office; None
    if they are not known."""

    def __init__(
        self,
        server: "SmcpServer",
        tools: Callable[[str, str], tuple[str, ...] | None],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._tools = tools
        self._monotonic = monotonic

    def why_not(self, office_id: str, computer: str, *, of_all: bool = False) -> str | None:
        """Why the Computer cannot be called; None if it can. `of_all`: the requester may learn the names of
        other offices."""
        members = [one for one in self._server.all_members() if of_all or one.office_id == office_id]
        return why_no_computer(members, office_id, computer)

    def computers(self, office_id: str) -> list[str]:
        """The office's Computers, connected to any node."""
        return _computers(self._server.all_members(), office_id)

    def local_computers(self, office_id: str) -> list[str]:
        """The office's Computers that are connected to this node, to whichever of its processes."""
        return _computers([one for one in self._server.all_members() if not is_remote(one)], office_id)

    async def call(
        self,
        office_id: str,
        computer: str,
        tool_name: str,
        params: Mapping[str, Any],
        *,
        seconds: int,
        by: str,
        call_id: str | None = None,
    ) -> CallResult:
        """Call a tool and wait for its answer. If this coroutine is cancelled, the call is cancelled too."""
        # No Agent can guess such an id, and ids that the node makes for Agents' calls have another form.
        name = call_id or f"direct-{secrets.token_hex(12)}"
        call = DirectCall(name, office_id, computer, tool_name, params, seconds, by)
        began = self._monotonic()
        try:
            answer = await self._server.call(call)
        except asyncio.CancelledError:
            await self._server.cancel_call(call)
            raise
        return CallResult(call, answer, round((self._monotonic() - began) * 1_000))

    async def tools(self, office_id: str, by: str) -> dict[str, tuple[str, ...] | None]:
        """The tools of each Computer of the office; None for a Computer that has never sent its list. All
        local Computers are queried first: in an office without an Agent, nothing else queries them."""
        here = self.local_computers(office_id)
        await asyncio.gather(*(self._query_tools(office_id, name, by) for name in here[:MAX_QUERIED]))
        return {name: self._tools(office_id, name) for name in self.computers(office_id)}

    async def _query_tools(self, office_id: str, computer: str, by: str) -> None:
        """The relay stores the answer in the records."""
        req_id = f"direct-{secrets.token_hex(12)}"
        await self._server.tools(office_id, computer, by, req_id, TOOLS_TIMEOUT)


def _computers(members: Collection[Member], office_id: str) -> list[str]:
    return sorted(member.name for member in members if member.office_id == office_id and member.role == COMPUTER)
