"""Calls by who is no Agent of the office: an operator, or a person in its room. They go the way of an Agent's
call, so they wait for approval, are written down, told and stopped like those."""

import asyncio
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from bridge.connectors.offices.direct_call import DirectCall, nobody_to_call
from bridge.connectors.offices.flat_error import Flat
from bridge.connectors.offices.office import COMPUTER, Member, is_elsewhere

ASKED_FOR_TOOLS: Final = 5.0
"""Seconds that a Computer has for saying what it can."""
MOST_ASKED: Final = 20


class Server(Protocol):
    """What of the server this needs."""

    def everybody(self) -> Collection[Member]:
        """With members of other nodes."""
        ...

    async def call(self, call: DirectCall) -> Flat: ...

    async def take_back(self, call: DirectCall) -> bool: ...

    async def tools(self, office_id: str, computer: str, by: str, req_id: str, deadline: float) -> Flat: ...


class Tools(Protocol):
    def __call__(self, office_id: str, name: str) -> tuple[str, ...] | None:
        """As far as they are known."""
        ...


@dataclass(frozen=True, slots=True)
class Called:
    """What came of it: an answer of the Computer, or of the node in its place."""

    call: DirectCall
    answer: Mapping[str, Any]
    took_ms: int


class DirectCalls:
    def __init__(
        self, server: Server, tools: Tools, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._server = server
        self._tools = tools
        self._monotonic = monotonic

    def why_not(self, office_id: str, computer: str, *, of_all: bool = False) -> str | None:
        """Why there is nobody to call; None if there is. `of_all`: whoever asks may know of other offices."""
        members = self._server.everybody()
        if not of_all:
            members = [member for member in members if member.office_id == office_id]
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
