"""A Palaver node as its operator starts it: `palaver run`, attached to the homeserver, with an attached
agent."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench._appservice.homeserver import Homeserver
from bench._cis.agent import Settings as AgentSettings
from bench._harness.child import Child, ChildError, child, python_module
from bench._harness.database import Database
from bench._harness.ports import LOOPBACK
from tests.support.ports import lasting_port
from tests.support.tls import Authority

NODE_ID = "kitchen.local"
AGENT = "echo"
PARALLEL = 64
"""Tasks that the agent works on at once, which is as many as an agent may."""
START_SECONDS = 120.0
_PALAVER = (sys.executable, "-c", "from bridge.cli import main; main()")

CONFIGURATION = """
server_name = "{node_id}"
data_dir = "data"
matrix_side = "appservice"

[appservice]
homeserver = "{homeserver}"
domain = "{domain}"
port = {appservice_port}

[listener]
port = {port}
certificate = "tls/node.pem"
private_key = "tls/node.key"

[database]
url = "{database}"

[metrics]
enabled = false

[log]
level = "warning"

[permissions]
"{domain}" = "work"
"""


@dataclass(frozen=True)
class NodePlace:
    """Its directory with the configuration, and the address for agents."""

    directory: Path
    port: int
    behind: Database
    authority: Path

    @property
    def registration(self) -> Path:
        """The registration file for the homeserver."""
        return self.directory / "registration.yaml"

    async def palaver(self, *words: str) -> Mapping[str, Any]:
        """Run another command of the node; return its result."""
        command = (*_PALAVER, *words, "--json")
        process = await asyncio.create_subprocess_exec(
            *command, cwd=self.directory, stdout=PIPE, stdin=asyncio.subprocess.DEVNULL
        )
        out, _ = await process.communicate()
        if process.returncode != 0:
            raise ChildError(f"palaver {' '.join(words)}: {out.decode() or process.returncode}")
        answer: Mapping[str, Any] = json.loads(out)
        return answer


async def prepared(directory: Path, authority: Authority, homeserver: Homeserver, behind: Database) -> NodePlace:
    """Return a directory with the registration, before the homeserver is configured."""
    (directory / "tls").mkdir(parents=True)
    place = NodePlace(directory, lasting_port(), behind, authority.write(directory / "tls", "ca"))
    authority.issue("localhost", "127.0.0.1", "::1").write(directory / "tls", "node")
    said = CONFIGURATION.format(
        node_id=NODE_ID,
        homeserver=homeserver.url,
        domain=homeserver.synapse.server_name,
        appservice_port=lasting_port(),
        port=place.port,
        database=behind.address,
    )
    (directory / "palaver.toml").write_text(said)
    await place.palaver("registration")
    return place


@asynccontextmanager
async def attached_node(place: NodePlace) -> AsyncIterator[Child]:
    """Run the node until the block ends; its agent is online."""
    command = (*_PALAVER, "run", "--json", "-c", str(place.directory / "palaver.toml"))
    async with child("our node", *command) as node:
        started = json.loads(await node.line(START_SECONDS))
        if "error" in started:
            raise ChildError(f"our node does not start: {started['error']}")
        created = await place.palaver("agents", "token", "create", AGENT)
        url = f"https://{LOOPBACK}:{place.port}"
        settings = AgentSettings(url, AGENT, created["token"], str(place.authority), PARALLEL)
        async with child("the agent", *python_module("bench._cis.agent", settings.as_json())) as agent:
            await agent.line(START_SECONDS)
            yield node
