"""Agents for tests: a clock that a test sets, and routing tables on one database."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from bridge.agents.address import AgentAddress
from bridge.agents.routing_table import RoutingTable
from bridge.agents.updates import Registration
from storage.database import Database
from tests.support.postgres import pool_on

NOW = 10**12


class Clock:
    """Stands still until a test moves it."""

    def __init__(self, now_ms: int = NOW) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, milliseconds: int) -> None:
        self.now_ms += milliseconds


def address(text: str) -> AgentAddress:
    parsed = AgentAddress.parse(text)
    assert isinstance(parsed, AgentAddress)
    return parsed


def registered(text: str, sent_at: int = NOW, *, sends_heartbeats: bool = False, **changed: Any) -> Registration:
    known = {"connector": "cis", "runtime": "claude", "capabilities": ("coding",)}
    return Registration(address(text), sent_at=sent_at, sends_heartbeats=sends_heartbeats, **{**known, **changed})


@contextlib.asynccontextmanager
async def routing_table(database: Database, node_id: str = "here", **changed: Any) -> AsyncIterator[RoutingTable]:
    """A started routing table, as of a process of its own."""
    async with pool_on(database.address) as own:
        routes = RoutingTable(node_id, own, **{"now_ms": Clock(), **changed})
        try:
            await routes.start()
            yield routes
        finally:
            await routes.close()
