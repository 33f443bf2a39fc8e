"""The compared servers, each with its own Postgres, and the process that simulates all others."""

import json
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench._federation.load_generator import Settings
from bench._federation.measured import SynapseSettings
from bench._federation.place import Place, our_node
from bench._federation.runs import Runs
from bench._harness.child import Child, ChildError, child, python_module
from bench._harness.database import Database, database
from storage.connect import DatabaseAddress
from tests.support.ports import lasting_port
from tests.support.synapse import DidNotStart, Synapse
from tests.support.synapse.fixtures import SynapseFactory
from tests.support.synapse.process import environment
from tests.support.tls import Authority

NODE, SYNAPSE = "node", "synapse"
ORIGINS = 4
_START_SECONDS = 60.0
# A command of the load generator: sending, and waiting for a slow server to work it off.
_COMMAND_SECONDS = 300.0


@dataclass
class Servers:
    """Only the server that is being measured has work."""

    synapse: Synapse
    node_name: str
    pids: dict[str, int]
    generator: Child
    remarks: list[str]
    runs: defaultdict[tuple[str, str], Runs[dict[str, Any]]] = field(default_factory=lambda: defaultdict(Runs))
    """Of each load, on either server."""

    async def ask(self, measured: str, do: str, **how: Any) -> dict[str, Any]:
        """Run a command of the load generator on the `node` or the `synapse`."""
        command = json.dumps({"measured": measured, "do": do, **how})
        answer: dict[str, Any] = json.loads(await self.generator.ask(command, _COMMAND_SECONDS))
        return answer


@asynccontextmanager
async def servers() -> AsyncIterator[Servers]:
    """All of them are on loopback, over TLS, with certificates of one authority."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        place = Place(directory, Authority("Authority of the benchmark"))
        behind_synapse = await stack.enter_async_context(database())
        behind_node = await stack.enter_async_context(database())
        synapse = await stack.enter_async_context(_synapse(place, behind_synapse))
        reader = await synapse.person("reader")
        origins = [f"localhost:{lasting_port()}" for _ in range(ORIGINS)]
        node = await stack.enter_async_context(our_node(place, behind_node, [*origins, synapse.server_name]))
        certificate, key = place.certified()
        settings = Settings(
            origins=origins,
            certificate=str(certificate),
            key=str(key),
            authority=str(place.trusted),
            synapse=SynapseSettings(
                synapse.server_name, reader.user_id, reader.access_token, synapse.pid, behind_synapse.pid
            ),
            node=node,
        )
        command = python_module("bench._federation.load_generator", json.dumps(asdict(settings)))
        generator = await stack.enter_async_context(child("the load generator", *command))
        await generator.line(_START_SECONDS)
        pids = {NODE: node.server, SYNAPSE: synapse.pid}
        remarks = [
            f"Palaver {version('palaver')} and Synapse {await _version(synapse)}, a Postgres for each.",
            *behind_node.remarks,
        ]
        yield Servers(synapse, node.server_name, pids, generator, remarks)


@asynccontextmanager
async def _synapse(place: Place, behind: Database) -> AsyncIterator[Synapse]:
    """It only logs warnings, as the Palaver node does."""
    try:
        environment()
    except DidNotStart as problem:
        raise ChildError(str(problem)) from None
    factory = SynapseFactory(place.directory / "synapse", place.authority)
    try:
        yield await factory(
            postgres=DatabaseAddress.from_url(behind.address), trusted=[place.trusted], log_level="WARNING"
        )
    finally:
        await factory.clean_up()


async def _version(synapse: Synapse) -> str:
    answer = await synapse.homeserver.request("GET", "/_matrix/federation/v1/version")
    found: str = answer["server"]["version"]
    return found
