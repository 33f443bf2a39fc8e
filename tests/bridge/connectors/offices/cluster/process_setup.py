"""Several processes of one node that serve its offices together through a broker."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bridge.connectors.offices.cluster.broker import Broker
from bridge.connectors.offices.cluster.broker_address import BrokerAddress
from bridge.connectors.offices.cluster.members import ClusterMembers
from bridge.connectors.offices.connector import OfficesConnector
from bridge.connectors.offices.tokens import OfficeTokens
from storage.concurrency import BackgroundTasks
from tests.bridge.connectors.offices.brokers import RedisServer, ZenohRouter, redis_server, zenoh_router
from tests.bridge.connectors.offices.clients import Client, Running
from tests.bridge.connectors.offices.connectors import offices_of
from tests.federation.nodes import Node
from tests.support.postgres import lose_session


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
        """As if killed: its database session ends, and it no longer sends or receives anything."""
        cluster, broker = self.parts
        await cluster._background.close()
        await broker._background.close()
        lose_session(self.connector._records._database)

    async def resume(self) -> None:
        """It was not killed, but only unreachable."""
        cluster, broker = self.parts
        broker._background, cluster._background = BackgroundTasks(), BackgroundTasks()
        await broker.start()
        cluster._background.supervise("members at other processes", cluster._run)

    @property
    def parts(self) -> tuple[ClusterMembers, Broker]:
        cluster, broker = self.connector._cluster, self.connector._broker
        assert cluster is not None
        assert broker is not None
        return cluster, broker


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
    """Two processes connected by a broker of this kind."""
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(zenoh_router() if kind == "zenoh" else redis_server())
        one = await process(stack, node, broker.address, **settings)
        yield Processes(one, await process(stack, node, broker.address, **settings), broker)


def adds(payload: Any) -> Any:
    return {"content": [{"type": "text", "text": str(sum(payload["params"].values()))}], "isError": False}


async def names(client: Client, office: str = "kitchen") -> set[str]:
    return {one["name"] for one in (await client.list_room(office))["sessions"]}
