"""The connector of offices: the server, and an eye on tokens that end while somebody is connected."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from typing import Final, Protocol

from aiohttp import web

from bridge.agent import Agent
from bridge.agent_queue import AgentSettings
from bridge.connectors.interface import Desk
from bridge.connectors.offices.member_agents import CONNECTOR
from bridge.connectors.offices.service.approving import Approving
from bridge.connectors.offices.service.broker import Broker
from bridge.connectors.offices.service.companions import Companions
from bridge.connectors.offices.service.links import link_to
from bridge.connectors.offices.service.office_rooms import OfficeRooms
from bridge.connectors.offices.service.passing import Passing
from bridge.connectors.offices.service.reaching import Reaching
from bridge.connectors.offices.service.recording import RoomParts
from bridge.connectors.offices.service.records import OfficeRecords
from bridge.connectors.offices.service.server import SmcpServer
from bridge.connectors.offices.service.shared_offices import SharedOffices
from bridge.connectors.offices.settings import OfficeSettings
from bridge.connectors.offices.tokens import Grant
from bridge.service.routing_table import RoutingTable
from bridge.service.session import Report
from bridge.task_ports import Delivery

NAME: Final = CONNECTOR
LOOKED_AT_EVERY: Final = 10.0
"""Seconds. A token that another process has revoked, or whose time is over, is noticed then."""

REVOKED: Final = "revoked"
"""Some token; which, the database says."""
OTHERS_LOOKED_FOR: Final = 3
"""Seconds."""
NOT_HEARD: Final = (
    "Another process of this node serves offices as well, and the two do not hear each other: name one broker"
    " in [offices] of both."
)


class Tokens(Protocol):
    def check(self, shown: object) -> Awaitable[Grant | None]: ...

    def still_good(self, token_ids: Collection[str]) -> Awaitable[frozenset[str]]: ...

    def on_revoked(self, listener: Callable[[str], None]) -> None: ...


class OfficesConnector:
    """Satisfies `bridge.connectors.interface.Connector`, `HasRoutes` and `RunsTasks`."""

    def __init__(
        self,
        settings: OfficeSettings,
        tokens: Tokens,
        parts: RoomParts,
        routes: RoutingTable,
        *,
        report: Report,
    ) -> None:
        self._tokens = tokens
        self._report = report
        self._revoked: set[str] = set()
        self._look = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._counting: asyncio.Task[None] | None = None
        self._records = OfficeRecords(
            parts, settings.mask, report=report, archive_after=settings.archive_after
        )
        self._approving = Approving(parts, settings, self._stop)
        self.rooms = OfficeRooms(parts)
        self._shared = None if parts.sealing is None else SharedOffices(parts, parts.sealing, self._records)
        self._broker: Broker | None = None
        self._companions: Companions | None = None
        if settings.broker is not None:
            self._broker = Broker(link_to(settings.broker, parts.settings.node_id), report)
            self._companions = Companions(parts.database, self._records, self._broker, report=report)
        self.server = SmcpServer(
            settings,
            tokens.check,
            self._records,
            self._approving,
            report=report,
            own={parts.settings.node_id, parts.settings.names.domain},
            shared=self._shared,
            broker=self._broker,
            beside=self._companions,
        )
        if self._shared is not None:
            self._shared.use(self.server)
        if self._companions is not None:
            self._companions.use(self.server)
        if self._shared is not None and self._companions is not None:
            self._companions.others = self._shared.enter_soon
        self._passing: Passing | None = None
        if self._broker is not None:
            self._passing = Passing(self._broker, self._records, self._approving, self._shared, report=report)
        if self._broker is not None:
            self._broker.hear(REVOKED, lambda said: self._look.set())
        self.reaching = Reaching(parts, routes, self.server, self._records, self._shared)
        tokens.on_revoked(self._revoke)

    @property
    def name(self) -> str:
        return NAME

    # -- its members as agents of this node --

    @property
    def delivery(self) -> Delivery:
        return self.reaching.tasks

    def settings(self, agent: Agent) -> AgentSettings | None:
        return self.reaching.tasks.settings(agent)

    def work_for(self, desk: Desk) -> None:
        self.reaching.work_for(desk)

    async def stop(self) -> None:
        await self.reaching.stop_work()

    # -- its life --

    def routes(self) -> Iterable[web.RouteDef]:
        return self.server.routes()

    async def start(self) -> None:
        await self._records.start()
        self._counting = asyncio.create_task(self._look_for_others())
        if self._broker is not None and self._companions is not None:
            await self._broker.start()
            await self._companions.start()
        self._approving.start()
        if self._shared is not None:
            self._shared.start()
        await self.server.start()
        await self.reaching.start()
        self._looking = asyncio.create_task(self._look_for_ever())

    async def close(self) -> None:
        for looking in (self._looking, self._counting):
            if looking is not None:
                looking.cancel()
                with suppress(asyncio.CancelledError):
                    await looking
        await self.reaching.ordering.hear_no_more()
        await self.server.close()
        if self._shared is not None:
            await self._shared.close()
        await self.reaching.close()
        await self._approving.close()
        if self._broker is not None and self._companions is not None and self._passing is not None:
            await self._companions.close()
            await self._passing.close()
            await self._broker.close()
        await self._records.close()

    async def _stop(self, call_id: str) -> bool:
        return await self.server.stop(call_id)

    async def _look_for_others(self) -> None:
        """Of a process that has just been killed Postgres may not know yet that it is gone."""
        process, with_others = self._records.process, self._broker is not None
        for _ in range(OTHERS_LOOKED_FOR):
            if await process.serves(with_others=with_others):
                return
            await asyncio.sleep(1)
        self._report(NOT_HEARD, None)

    # -- tokens that have ended --

    def _revoke(self, token_id: str) -> None:
        self._revoked.add(token_id)
        self._look.set()
        if self._broker is not None:
            self._broker.say(REVOKED, {}, keeps=True)

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
