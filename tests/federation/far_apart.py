"""Nodes with an unreliable link for each direction, which can be killed and restarted."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import permutations
from random import Random

from federation.client.peer_settings import PeerSettings
from storage.connect import DatabaseAddress
from storage.federation import outbox
from tests.federation.nodes import Node, Nodes
from tests.support.bad_link import BadLink
from tests.support.ports import lasting_port
from tests.support.postgres import Server, pool_on

TIMEOUT = 30.0
SOON_MS = 6_000
"""After so long a server that was heard from is tried again."""
USERS = ("alice", "eve", "fay")


@dataclass
class Clock:
    """The clock of all nodes. It runs normally, and tests let it jump."""

    ahead_ms: int = 0

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms


class FarApart:
    """Nodes with unreliable links. `seed` decides which request suffers which failure."""

    def __init__(self, server: Server, template: str, names: Sequence[str], seed: object) -> None:
        self.names = tuple(names)
        self.chance = Random(str(seed))
        self.clock = Clock()
        self.links: dict[tuple[str, str], BadLink] = {}
        self.running: dict[str, Node] = {}
        self._server = server
        self._template = template
        self._ports = {name: lasting_port() for name in names}
        self._databases: dict[str, DatabaseAddress] = {}
        self._stacks: dict[str, AsyncExitStack] = {}

    def __getitem__(self, name: str) -> Node:
        return self.running[name]

    # -- starting and stopping --

    async def start(self, stack: AsyncExitStack) -> None:
        for here, there in permutations(self.names, 2):
            link = self.links[here, there] = BadLink(self._ports[there], Random(self.chance.random()))
            await link.start()
            stack.push_async_callback(link.close)
        for name in self.names:
            address = self._databases[name] = await self._server.create(self._template)
            stack.push_async_callback(self._server.drop, address)
        # A stopped node still has its database.
        stack.push_async_callback(self._stop)
        for name in self.names:
            await self.start_again(name)
            for user in USERS:
                await self[name].rooms.ensure_user(f"@{user}:{name}")

    async def start_again(self, name: str) -> None:
        """Start a node again on its database."""
        stack = self._stacks[name] = AsyncExitStack()
        database = await stack.enter_async_context(pool_on(self._databases[name], retry_timeout=0.2))
        own = self._nodes(name, stack)
        own._addresses[name] = _at(self._ports[name])
        own._addresses |= {there: _at(link.port) for (here, there), link in self.links.items() if here == name}
        self.running[name] = await own._run(name, database)

    def _nodes(self, name: str, stack: AsyncExitStack) -> Nodes:
        """Return the fixture that runs this node only."""
        return Nodes(self._server, self._template, stack, clock=self.clock)

    async def kill(self, name: str) -> None:
        """Stop a node at once: its database and links are cut, and only then its tasks are cancelled."""
        node = self.running.pop(name)
        with contextlib.ExitStack() as cut:
            for ends, link in self.links.items():
                if name in ends:
                    cut.enter_context(link.broken_off())
            _take_away_database(node)
            await self._stacks.pop(name).aclose()

    async def _stop(self) -> None:
        self.running.clear()
        while self._stacks:
            await self._stacks.popitem()[1].aclose()

    # -- links --

    def between(self, *groups: Iterable[str]) -> list[BadLink]:
        """Return the links between two groups, in both directions."""
        group_of = {name: number for number, group in enumerate(groups) for name in group}
        return [
            link
            for (here, there), link in self.links.items()
            if here in group_of and there in group_of and group_of[here] != group_of[there]
        ]

    # -- settling --

    def leap(self, milliseconds: int = SOON_MS) -> None:
        """Advance the clock and report a request from each node to each other, so that failed destinations
        are retried soon."""
        self.clock.ahead_ms += milliseconds
        for here, there in self.links:
            self[here].outbox.request_received(there)

    async def settle(self) -> None:
        """Repair all links and wait until everything queued has arrived."""
        for link in self.links.values():
            link.heal()
        latest = time.monotonic() + TIMEOUT
        while waiting := await self._under_way():
            views = {name: node.outbox.view() for name, node in self.running.items()}
            assert time.monotonic() < latest, f"it never comes to rest: {waiting}, {views}"
            self.leap()
            # The state of the senders can only be polled.
            await asyncio.sleep(0.005)

    async def _under_way(self) -> list[tuple[str, str]]:
        """Return the pairs of nodes with queued items."""
        waiting = [ends for ends, link in self.links.items() if not link.is_quiet()]
        for name, node in self.running.items():
            async with node.database.transaction(readonly=True) as connection:
                waiting += [(name, depth.destination) for depth in await outbox.list_depths(connection)]
        return waiting

    async def converge(self, room_id: str, speakers: Mapping[str, str]) -> None:
        """Send messages until all nodes have the same forward extremities."""
        await self.settle()
        for name in [*self.names] * 3:
            await self[name].say(room_id, speakers[name], "Well?")
            await self.settle()
            views = [await node.graph.room(room_id) for node in self.running.values()]
            ends = {view.forward_extremities for view in views if view is not None}
            if len(ends) == 1 and all(len(one) == 1 for one in ends):
                return
        raise AssertionError(f"they do not come together: {ends}")


@contextlib.asynccontextmanager
async def far_apart(server: Server, template: str, names: Sequence[str], seed: object = 0) -> AsyncIterator[FarApart]:
    async with AsyncExitStack() as stack:
        far = FarApart(server, template, names, seed)
        await far.start(stack)
        yield far


def _at(port: int) -> PeerSettings:
    return PeerSettings(f"127.0.0.1:{port}", plain=True)


def _take_away_database(node: Node) -> None:
    """Terminate all connections and refuse new ones."""
    node.database._pool.address = DatabaseAddress("postgresql://nobody@127.0.0.1:1/nothing")
    for connection in (*node.database._pool.connections, node.database.session._connection):
        if connection is not None:
            connection._transport.abort()
