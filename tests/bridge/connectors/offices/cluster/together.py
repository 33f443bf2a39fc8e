"""Several processes of one node, which serve its offices together by a broker."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bridge.connectors.offices.cluster.broker import Broker
from bridge.connectors.offices.cluster.links import BrokerAddress
from bridge.connectors.offices.cluster.members import Companions
from bridge.connectors.offices.connector import OfficesConnector
from bridge.connectors.offices.service_tokens import OfficeTokens
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
        """As by a kill: its session with the database ends, and it neither hears nor says anything more."""
        companions, broker = self.parts
        await companions._background.close()
        await broker._background.close()
        lose_session(self.connector._records._database)

    async def come_to(self) -> None:
        """It had only not been to be reached."""
        companions, broker = self.parts
        broker._background, companions._background = BackgroundTasks(), BackgroundTasks()
        await broker.start()
        companions._background.supervise("companions", companions._look_for_ever)

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
