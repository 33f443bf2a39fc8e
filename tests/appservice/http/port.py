"""The homeserver's port, with an intake on a real database behind it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from appservice.http.app import LIMITS, make_listener
from appservice.http.services import EndpointServices
from appservice.registration.namespaces import AgentRoom
from federation.http.server.capacity import Limits
from federation.http.server.listener import Bind
from tests.appservice.intakes import OURS, IntakeHarness
from tests.federation.http.running import Answer, Client, Recorder, Running

TOKEN = "h" * 43
AGENT = ("worker-1", "kitchen.local")
ROOM = AgentRoom("agents", "default")


@dataclass
class StubQueries:
    """Has one agent and one room, and records the queries."""

    provided: list[Any] = field(default_factory=list)

    async def provide_agent(self, agent_id: str, node_id: str) -> bool:
        self.provided.append((agent_id, node_id))
        return (agent_id, node_id) == AGENT

    async def provide_room(self, room: AgentRoom) -> bool:
        self.provided.append(room)
        return room == ROOM

    async def knows_agent(self, agent_id: str, node_id: str) -> bool:
        return (agent_id, node_id) == AGENT

    async def knows_room(self, room: AgentRoom) -> bool:
        return room == ROOM


@dataclass
class Port:
    running: Running
    harness: IntakeHarness
    village: StubQueries
    pings: list[str | None]
    is_ready: bool = True

    async def connect(self) -> Client:
        return await self.running.connect()

    async def ask(
        self, method: str, path: str, body: Any = None, *, token: str | None = TOKEN, query: str = ""
    ) -> Answer:
        """On a new connection. `body` is sent as JSON, or as raw bytes."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with await self.connect() as client:
            return await client.ask(path + query, method, data, headers)


@asynccontextmanager
async def port_of(harness: IntakeHarness, limits: Limits = LIMITS) -> AsyncIterator[Port]:
    """Runs the port; a reported problem fails the test."""
    seen, village, pings = Recorder(), StubQueries(), list[str | None]()
    made: list[Port] = []
    services = EndpointServices(TOKEN, OURS, harness.intake, village, pings.append, lambda: made[0].is_ready)
    listener = make_listener(services, [Bind("127.0.0.1")], 0, seen, limits)
    (address,) = await listener.start()
    try:
        made.append(Port(Running(listener, address.port, seen, None), harness, village, pings))
        yield made[0]
    finally:
        await listener.close(1.0)
    assert seen.problems == []
