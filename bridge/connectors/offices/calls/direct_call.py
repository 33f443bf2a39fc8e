"""A call by somebody who is no Agent of the office: an operator, a person in its room, whoever gives a
Computer a task. It goes the way of an Agent's call, through the same checks in the same order, as far as they
are not about who calls: that was looked at before.

Calls by who is no Agent of the office: an operator, or a person in its room. They go the way of an Agent's
call, so they wait for approval, are written down, told and stopped like those.
"""

import asyncio
import difflib
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bridge.connectors.offices.protocol.errors import BAD_REQUEST, TOO_MANY, computer_not_found, flat
from bridge.connectors.offices.protocol.events import (
    CLIENT_EVENTS,
    MOST_BYTES,
    TOOL_CALL,
    Event,
    is_name,
    malformed,
)
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member, Offices, is_elsewhere
from bridge.connectors.offices.protocol.relay import LONGEST_CALL, SLACK, Refusal, Relay
from bridge.people.texts.text import one_line

if TYPE_CHECKING:
    from bridge.connectors.offices.server.server import SmcpServer


GET_TOOLS: Final = "client:get_tools"
DEFAULT_SECONDS: Final = 60
LONGEST_SHOWN: Final = 80
MOST_NAMED: Final = 20

# No connection is called so.
_CALLER: Final = "direct "
_NOBODY: Final = "somebody"
_LONGEST_BY: Final = 240


@dataclass(frozen=True, slots=True)
class DirectCall:
    """`by` is shown as who asks. `call_id` is ours: under it the call is written down, and the Computer knows
    it by it. `timeout` is seconds."""

    call_id: str
    office_id: str
    computer: str
    tool_name: str
    params: Mapping[str, Any]
    timeout: int
    by: str

    @property
    def caller(self) -> Member:
        """In place of the member that calls otherwise. What one asks for counts together, wherever."""
        name = shown_caller(self.by)
        return Member(f"{_CALLER}{name}", AGENT, name, self.office_id)


def shown_caller(by: str) -> str:
    """As a Computer, a room and an audit can have it."""
    shown = "".join(one if one.isprintable() else "\ufffd" for one in by[: 2 * _LONGEST_BY])
    name = one_line(shown, _LONGEST_BY)
    # Four bytes are the most that a character takes.
    return name if is_name(name) else one_line(name, MOST_BYTES // 4) or _NOBODY


def examine_call(
    call: DirectCall, offices: Offices, *, in_flight: int, most_in_flight: int
) -> Refusal | Relay:
    """`in_flight`: how many calls by the same are on their way. The numbers are those of `relay.examine`."""
    said = {
        "agent": call.caller.name,
        "req_id": call.call_id,
        "computer": call.computer,
        "tool_name": call.tool_name,
        "params": call.params,
        "timeout": call.timeout,
    }
    event = CLIENT_EVENTS[TOOL_CALL]
    wrong = malformed(event, said)
    if wrong is not None:
        return Refusal(1, flat(BAD_REQUEST, wrong.sentence))
    if not 1 <= call.timeout <= LONGEST_CALL:
        return Refusal(1, flat(BAD_REQUEST, f"field 'timeout' must be from 1 to {LONGEST_CALL} seconds"))
    target = _computer(offices, call.office_id, call.computer)
    if target is None:
        return Refusal(4, computer_not_found(call.computer))
    if in_flight >= most_in_flight:
        return Refusal(7, flat(TOO_MANY, f"More than {most_in_flight} calls are on their way"))
    return Relay(event, call.caller, target, said, call.timeout + SLACK, call.call_id)


def ask_for_tools(
    office_id: str, computer: str, by: str, req_id: str, offices: Offices, deadline: float
) -> Relay | None:
    """What the Computer can do. None when it is not there."""
    target = _computer(offices, office_id, computer)
    if target is None:
        return None
    name = shown_caller(by)
    said = {"agent": name, "req_id": req_id, "computer": computer}
    event: Event = CLIENT_EVENTS[GET_TOOLS]
    return Relay(event, Member(f"{_CALLER}{name}", AGENT, name, office_id), target, said, deadline)


def nobody_to_call(members: Collection[Member], office_id: str, computer: str) -> str | None:
    """Why there is no such Computer: a sentence for whoever may know who is in the office. None if there is
    one."""
    there = [member for member in members if member.office_id == office_id]
    shown_office, shown = one_line(office_id, LONGEST_SHOWN), one_line(computer, LONGEST_SHOWN)
    if not there:
        meant = near(office_id, {member.office_id for member in members})
        return f"Nobody is in the office {shown_office}.{meant}"
    computers = sorted(member.name for member in there if member.role == COMPUTER)
    if computer in computers:
        return None
    if any(member.name == computer for member in there):
        return f"{shown} is the Agent of the office {shown_office}: only Computers have tools."
    if not computers:
        return f"There is no Computer in the office {shown_office}."
    meant = near(computer, computers)
    return f"There is no Computer {shown} in the office {shown_office}.{meant} {named(computers)}"


def near(name: str, names: Collection[str]) -> str:
    """With a blank before it, if one is written like it."""
    meant = difflib.get_close_matches(name[:LONGEST_SHOWN], sorted(names), n=1)
    return f" Did you mean {one_line(meant[0], LONGEST_SHOWN)}?" if meant else ""


def named(names: Collection[str]) -> str:
    """Those that there are."""
    shown = [one_line(name, LONGEST_SHOWN) for name in sorted(names)[:MOST_NAMED]]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"There {'is' if len(names) == 1 else 'are'} {', '.join(shown)}{more}."


def _computer(offices: Offices, office_id: str, name: str) -> Member | None:
    """The target in the office (4), and its role (5)."""
    member = offices.named(office_id, name)
    return member if member is not None and member.role == COMPUTER else None


ASKED_FOR_TOOLS: Final = 5.0
"""Seconds that a Computer has for saying what it can."""
MOST_ASKED: Final = 20


@dataclass(frozen=True, slots=True)
class Called:
    """What came of it: an answer of the Computer, or of the node in its place."""

    call: DirectCall
    answer: Mapping[str, Any]
    took_ms: int


class DirectCalls:
    """`tools` gives those of a Computer of an office, as far as they are known."""

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
        """Why there is nobody to call; None if there is. `of_all`: whoever asks may know of other offices."""
        members = [one for one in self._server.everybody() if of_all or one.office_id == office_id]
        return nobody_to_call(members, office_id, computer)

    def computers(self, office_id: str) -> list[str]:
        """Those that are there now, on whatever node."""
        return _computers(self._server.everybody(), office_id)

    def computers_here(self, office_id: str) -> list[str]:
        """Those of them that are connected to this node, to whichever of its processes."""
        return _computers([one for one in self._server.everybody() if not is_elsewhere(one)], office_id)

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
    ) -> Called:
        """Ended early, it is taken back: the Computer is told to stop."""
        # No Agent knows such an id, and none of the node's own is like it.
        name = call_id or f"direct-{secrets.token_hex(12)}"
        call = DirectCall(name, office_id, computer, tool_name, params, seconds, by)
        began = self._monotonic()
        try:
            answer = await self._server.call(call)
        except asyncio.CancelledError:
            await self._server.take_back(call)
            raise
        return Called(call, answer, round((self._monotonic() - began) * 1_000))

    async def tools(self, office_id: str, by: str) -> dict[str, tuple[str, ...] | None]:
        """Of each Computer of the office; None for one that has never said. All are asked: where there is no
        Agent nobody else does."""
        here = self.computers_here(office_id)
        await asyncio.gather(*(self._ask(office_id, name, by) for name in here[:MOST_ASKED]))
        return {name: self._tools(office_id, name) for name in self.computers(office_id)}

    async def _ask(self, office_id: str, computer: str, by: str) -> None:
        """What it answers is noted on the way."""
        req_id = f"direct-{secrets.token_hex(12)}"
        await self._server.tools(office_id, computer, by, req_id, ASKED_FOR_TOOLS)


def _computers(members: Collection[Member], office_id: str) -> list[str]:
    return sorted(
        member.name for member in members if member.office_id == office_id and member.role == COMPUTER
    )
