"""The connector of offices: the server, and an eye on tokens that end while somebody is connected."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from typing import Final, Protocol

from aiohttp import web

from bridge.connectors.offices.service.approving import Approving
from bridge.connectors.offices.service.recording import RoomParts
from bridge.connectors.offices.service.records import OfficeRecords
from bridge.connectors.offices.service.server import SmcpServer
from bridge.connectors.offices.settings import OfficeSettings
from bridge.connectors.offices.tokens import Grant
from bridge.service.session import Report

NAME: Final = "offices"
LOOKED_AT_EVERY: Final = 10.0
"""Seconds. A token that another process has revoked, or whose time is over, is noticed then."""


class Tokens(Protocol):
    def check(self, shown: object) -> Awaitable[Grant | None]: ...

    def still_good(self, token_ids: Collection[str]) -> Awaitable[frozenset[str]]: ...

    def on_revoked(self, listener: Callable[[str], None]) -> None: ...


class OfficesConnector:
    """Satisfies `bridge.connectors.interface.Connector` and `HasRoutes`."""

    def __init__(self, settings: OfficeSettings, tokens: Tokens, parts: RoomParts, *, report: Report) -> None:
        self._tokens = tokens
        self._report = report
        self._revoked: set[str] = set()
        self._look = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._records = OfficeRecords(parts, settings.mask, report=report)
        self._approving = Approving(parts, settings, self._stop)
        self.server = SmcpServer(settings, tokens.check, self._records, self._approving, report=report)
        tokens.on_revoked(self._revoke)

    @property
    def name(self) -> str:
        return NAME

    def routes(self) -> Iterable[web.RouteDef]:
        return self.server.routes()

    async def start(self) -> None:
        await self._records.start()
        self._approving.start()
        await self.server.start()
        self._looking = asyncio.create_task(self._look_for_ever())

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking
        await self.server.close()
        await self._approving.close()
        await self._records.close()

    async def _stop(self, call_id: str) -> bool:
        return await self.server.stop(call_id)

    # -- tokens that have ended --

    def _revoke(self, token_id: str) -> None:
        self._revoked.add(token_id)
        self._look.set()

    async def _look_for_ever(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOKED_AT_EVERY):
                    await self._look.wait()
            self._look.clear()
            revoked, self._revoked = self._revoked, set()
            try:
                good = await self._tokens.still_good(self.server.token_ids())
            except Exception as error:
                # Whatever it is: the next look has to come, and what was revoked here is known.
                self._report("Whether tokens for offices still hold could not be looked up.", error)
                good = self.server.token_ids() - revoked
            await self.server.disconnect_others(good - revoked)
