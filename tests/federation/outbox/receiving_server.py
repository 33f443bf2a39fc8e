"""A server that receives transactions and can be made slow, refusing or unreachable."""

import asyncio
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

TIMEOUT = 30.0
SEND = "/_matrix/federation/v1/send/"


@dataclass
class ReceivingServer:
    """A handler for `LoopbackServer`. `refusals` are the statuses of the next responses, where 0 aborts
    the connection. Responses are held back until `holds` is set. `has` decides whether `GET /event` finds
    an event id."""

    transactions: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    refusals: deque[int] = field(default_factory=deque)
    holds: asyncio.Event = field(default_factory=asyncio.Event)
    has: Callable[[str], bool] = lambda event_id: True
    processed: bool = True
    probed: list[str] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def __post_init__(self) -> None:
        self.holds.set()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return await self._event(request.path.rpartition("/")[2])
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self._send(request)
        finally:
            self.at_once -= 1

    async def _event(self, event_id: str) -> web.Response:
        async with self._changed:
            self.probed.append(event_id)
            self._changed.notify_all()
        return web.json_response({}, status=200 if self.has(event_id) else 404)

    async def _send(self, request: web.Request) -> web.StreamResponse:
        async with self._changed:
            self.transactions.append((request.path.removeprefix(SEND), json.loads(await request.read())))
            self._changed.notify_all()
        await self.holds.wait()
        status = self.refusals.popleft() if self.refusals else 200
        if status == 0:
            assert request.transport is not None
            request.transport.abort()
        if status == 200:
            return web.json_response({"pdus": {}, "io.palaver.processed": self.processed})
        body = {"errcode": "M_LIMIT_EXCEEDED", "error": "Later."} if status == 429 else {"errcode": "M_UNKNOWN"}
        return web.json_response(body, status=status or 500)

    async def until(self, condition: Callable[["ReceivingServer"], object]) -> None:
        async with asyncio.timeout(TIMEOUT), self._changed:
            await self._changed.wait_for(lambda: condition(self))

    async def until_received(self, count: int) -> None:
        """Wait until so many different events have been received."""
        await self.until(lambda _: len(self.received) >= count)

    @property
    def ids(self) -> list[str]:
        """The ids of the transactions, in the order of their arrival."""
        return [transaction_id for transaction_id, _ in self.transactions]

    @property
    def received(self) -> list[str]:
        """The bodies of the received events, each once, as for a server that recognises repeated
        transactions."""
        taken: dict[str, dict[str, Any]] = {}
        for transaction_id, body in self.transactions:
            taken.setdefault(transaction_id, body)
        bodies = [pdu["content"]["body"] for body in taken.values() for pdu in body["pdus"]]
        return list(dict.fromkeys(bodies))

    @property
    def edus(self) -> list[dict[str, Any]]:
        return [edu for _, body in self.transactions for edu in body.get("edus", [])]
