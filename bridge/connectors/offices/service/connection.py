"""A connection to this node's offices, from its CONNECT to its end."""

import asyncio
from dataclasses import dataclass, field

from bridge.connectors.offices.protocol_version import ProtocolVersion
from bridge.connectors.offices.tokens import Grant


@dataclass(eq=False, slots=True)
class Connection:
    """`turn`: what moves it goes one after the other, and what it asks waits for that: whoever joins asks
    right after it, without waiting for the answer."""

    sid: str
    grant: Grant
    version: ProtocolVersion | None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def settled(self) -> None:
        if self.turn.locked():
            async with self.turn:
                pass
