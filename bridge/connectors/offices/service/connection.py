"""A connection to this node's offices, from its CONNECT to its end."""

import asyncio
from dataclasses import dataclass, field

from bridge.connectors.offices.protocol_version import ProtocolVersion
from bridge.connectors.offices.tokens import Grant


@dataclass(eq=False, slots=True)
class Connection:
    """`turn`: what moves it goes one after the other, and what it asks waits for that: whoever joins asks
    right after it, without waiting for the answer. `reads_tasks`: it has said so. `office_said` is what it
    calls its office, and `had_to_leave` why it was taken out of one."""

    sid: str
    grant: Grant
    version: ProtocolVersion | None
    reads_tasks: bool = False
    office_said: str = ""
    had_to_leave: str = ""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def came_in(self, office_said: str) -> None:
        self.office_said, self.had_to_leave = office_said, ""

    async def settled(self) -> None:
        if self.turn.locked():
            async with self.turn:
                pass
