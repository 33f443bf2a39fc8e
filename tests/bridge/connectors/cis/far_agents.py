"""Nodes that exchange agents over unreliable links, with wrong clocks, and that are stopped and started."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from bridge.connectors.cis.settings import CisSettings
from bridge.peers.peer import Peer, PeerAccess
from tests.bridge.connectors.cis.cis_nodes import QUICK, CisNode, CisNodes
from tests.federation.far_apart import FarApart
from tests.federation.nodes import Nodes
from tests.support.postgres import Server

TIMEOUT = 60.0
NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"
LEAP = 0.1
"""Seconds between two leaps of the clocks of the homeservers, so that what failed is tried again."""


class FarAgents(FarApart):
    """`skew` has the clock offsets of nodes. The clocks of homeservers jump; those of agent cores do not,
    because their timeouts are waited for."""

    def __init__(
        self,
        server: Server,
        template: str,
        settings: Sequence[CisSettings],
        seed: object = 0,
        *,
        skew: Mapping[str, int] | None = None,
        agent_timeout_ms: int = 120_000,
    ) -> None:
        super().__init__(server, template, [one.node_id for one in settings], seed)
        self.cis: dict[str, CisNode] = {}
        self._settings = {one.node_id: one for one in settings}
        self._skew = skew or {}
        self._agent_timeout_ms = agent_timeout_ms
        self._own: dict[str, CisNodes] = {}
        self._of_agents: dict[str, dict[str, tuple[str, ...]]] = {name: {} for name in self.names}

    @property
    def all(self) -> list[CisNode]:
        """Return the current nodes in the order of their settings."""
        return [self.cis[name] for name in self.names]

    # -- starting and ending --

    def _nodes(self, name: str, stack: AsyncExitStack) -> Nodes:
        ahead = self._skew.get(name, 0)
        own = CisNodes(self._server, self._template, stack, clock=lambda: self.clock() + ahead)
        own._settings[name] = self._settings[name]
        own.clocks[name] = ahead
        own.agent_timeout_ms = self._agent_timeout_ms
        self._own[name] = own
        return own

    async def start_again(self, name: str) -> None:
        await super().start_again(name)
        own = self._own[name]
        one = own._made[name]
        one.local_agents.clock_offset_ms = self._skew.get(name, 0)
        # The namespaces of agents are in the configuration, not in the database.
        one.local_agents.namespaces_of = self._of_agents[name]
        async with asyncio.timeout(TIMEOUT):
            self.cis[name] = await own.open(one)

    async def stop(self, name: str) -> None:
        """Stop a node as an operator would before a restart."""
        self.running.pop(name)
        async with asyncio.timeout(TIMEOUT):
            await self._stacks.pop(name).aclose()

    async def kill(self, name: str) -> None:
        """Cut a node off from its database and network at once, and clean up its tasks afterwards."""
        del self.running[name]
        address = self._databases[name]
        self._databases[name] = replace(address)
        with contextlib.ExitStack() as cut:
            for ends, link in self.links.items():
                if name in ends:
                    cut.enter_context(link.broken_off())
            # All that it opens connections with leads nowhere.
            object.__setattr__(address, "url", NOWHERE)
            await self._server.admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1",
                self._databases[name].database,
            )
            async with asyncio.timeout(TIMEOUT):
                await self._stacks.pop(name).aclose()

    # -- time --

    @contextlib.asynccontextmanager
    async def leaping(self) -> AsyncIterator[None]:
        """Let the clocks jump over the pauses before retries."""

        async def leap() -> None:
            while True:
                await asyncio.sleep(LEAP)
                if len(self.running) == len(self.names):
                    self.leap()

        leaper = asyncio.create_task(leap())
        try:
            yield
        finally:
            leaper.cancel()
            await asyncio.gather(leaper, return_exceptions=True)

    async def in_touch(self) -> None:
        """Wait until each node has joined the rooms of all others."""
        for one in self.all:
            for name in self.names:
                if name != one.name:
                    await one.wait_joined(name)


def known_to_each_other(spaces: Mapping[str, tuple[str, ...]], **changed: Any) -> list[CisSettings]:
    """Return settings of nodes in these namespaces. Each allows the others its own namespaces."""
    return [
        replace(
            QUICK,
            node_id=name,
            namespaces=own,
            peers={
                other: PeerAccess(Peer(other, namespaces=frozenset(theirs)))
                for other, theirs in spaces.items()
                if other != name
            },
            **changed,
        )
        for name, own in spaces.items()
    ]


async def until(condition: Callable[[], Awaitable[object]], what: Callable[[], object]) -> None:
    """Poll databases, which send no notifications here, until a condition holds. `what` describes it in the
    error."""
    try:
        async with asyncio.timeout(TIMEOUT):
            while not await condition():
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"it never came to that: {what()}") from None


@contextlib.asynccontextmanager
async def far_agents(
    server: Server, template: str, settings: Sequence[CisSettings], seed: object = 0, **how: Any
) -> AsyncIterator[FarAgents]:
    async with AsyncExitStack() as stack:
        far = FarAgents(server, template, settings, seed, **how)
        await far.start(stack)
        yield far
