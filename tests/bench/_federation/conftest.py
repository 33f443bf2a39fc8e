"""The parts of a run without its waiting: servers that are played here, and our node in its process."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from bench._federation.load_generator import LoadGenerator
from bench._federation.measured import Measured, MeasuredNode, MeasuredSynapse, SynapseSettings
from bench._federation.place import Place, our_node
from bench._federation.played_room import PlayedRoom
from bench._federation.played_server import PlayedServer
from bench._harness.database import database
from tests.support.ports import lasting_port
from tests.support.synapse import Synapse
from tests.support.tls import Authority

ROOMS = 4


@dataclass
class Stage:
    """One load generator, which makes rooms of its own for everything that it is asked for."""

    place: Place
    node: MeasuredNode
    postgres: int
    measured: dict[str, Measured]
    generator: LoadGenerator

    async def ask(self, measured: str, do: str, **how: Any) -> dict[str, Any]:
        return await self.generator.answer({"measured": measured, "do": do, **how})

    async def measure(self, synapse: Synapse) -> MeasuredSynapse:
        reader = await synapse.person()
        who = reader.user_id, reader.access_token
        settings = SynapseSettings(synapse.server_name, *who, synapse.pid, self.postgres)
        made = self.measured["synapse"] = MeasuredSynapse(settings, str(self.place.trusted))
        return made


@pytest.fixture(scope="session")
async def stage(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> AsyncIterator[Stage]:
    """One node for all tests here."""
    place = Place(tmp_path_factory.mktemp("stage"), authority)
    names = [f"localhost:{lasting_port()}" for _ in range(2)]
    rooms: dict[str, PlayedRoom] = {}
    async with AsyncExitStack() as stack:
        behind = await stack.enter_async_context(database())
        settings = await stack.enter_async_context(our_node(place, behind, names))
        servers = [PlayedServer(name, rooms, place.trusted) for name in names]
        for server in servers:
            await stack.enter_async_context(server.running(*place.certified()))
        node = MeasuredNode(settings)
        stack.push_async_callback(node.close)
        measured: dict[str, Measured] = {"node": node}
        yield Stage(place, node, behind.pid, measured, LoadGenerator(servers, rooms, measured, ROOMS))
