"""Several processes of one node, which serve its offices together by a broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bridge.connectors.offices.broker_address import BrokerAddress
from bridge.connectors.offices.service.broker import Broker
from bridge.connectors.offices.service.companions import Companions
from bridge.connectors.offices.service.connector import OfficesConnector
from bridge.service.office_tokens import OfficeTokens
from tests.bridge.connectors.offices.service.brokers import (
    RedisServer,
    ZenohRouter,
    redis_server,
    zenoh_router,
)
from tests.bridge.connectors.offices.service.clients import Client, Running
from tests.bridge.connectors.offices.service.connectors import offices_of
from tests.federation.service.nodes import Node


@dataclass
class Process:
    running: Running
    connector: OfficesConnector
    token: str
    tokens: OfficeTokens

    async def agent(self, name: str = "boss", office: str = "kitchen") -> Client:
        return await self.running.agent(name, office, token=self.token)

    async def computer(self, name: str = "hands", office: str = "kitchen") -> Client:
        return await self.running.computer(name, office, token=self.token)

    async def client(self) -> Client:
        return await self.running.client(token=self.token)

    async def die(self) -> None:
        """As by a kill: its session with the database ends, and it neither hears nor says anything more."""
        companions, broker = self.parts
        assert companions._looking is not None
        companions._looking.cancel()
        for work in broker._works:
            work.cancel()
        await self.connector._records.process._lease.close()

    async def come_to(self) -> None:
        """It had only not been to be reached."""
        companions, broker = self.parts
        await broker.start()
        companions._looking = asyncio.create_task(companions._look_for_ever())

    @property
    def parts(self) -> tuple[Companions, Broker]:
        companions, broker = self.connector._companions, self.connector._broker
        assert companions is not None
        assert broker is not None
        return companions, broker


@dataclass
class Processes:
    one: Process
    other: Process
    broker: ZenohRouter | RedisServer


async def process(stack: AsyncExitStack, node: Node, broker: BrokerAddress, **settings: Any) -> Process:
    running, connector, tokens = await stack.enter_async_context(offices_of(node, broker=broker, **settings))
    return Process(running, connector, await token_of(tokens), tokens)


async def token_of(tokens: OfficeTokens) -> str:
    return await tokens.create("everybody", ["agent", "computer"])


@asynccontextmanager
async def two_processes(node: Node, kind: str, **settings: Any) -> AsyncIterator[Processes]:
    """With a broker of this kind."""
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(zenoh_router() if kind == "zenoh" else redis_server())
        one = await process(stack, node, broker.address, **settings)
        yield Processes(one, await process(stack, node, broker.address, **settings), broker)


def adds(said: Any) -> Any:
    return {"content": [{"type": "text", "text": str(sum(said["params"].values()))}], "isError": False}


async def names(client: Client, office: str = "kitchen") -> set[str]:
    return {one["name"] for one in (await client.list_room(office))["sessions"]}
