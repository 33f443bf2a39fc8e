"""A node attached to a Synapse as an application service, set up as an operator does it: a configuration,
`palaver registration`, the registration file given to the Synapse, `palaver run`."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp

from tests.bridge.connectors.cis.published_node import published_node
from tests.interop.staffed_node import FILE, TIMEOUT, Company, StaffedNode
from tests.support.matrix_client import MatrixClient
from tests.support.matrix_client.homeserver import Json
from tests.support.node import ROOT
from tests.support.ports import lasting_port
from tests.support.synapse import Synapse
from tests.support.tls import Authority

NODE_ID, PEER = "kitchen.local", "old.test"
# The first agent is a shell: it executes its prompt.
CONFIGURATION = """
server_name = "{node_id}"
matrix_side = "appservice"

[appservice]
homeserver = "https://{synapse}"
domain = "{synapse}"
port = {appservice_port}

[listener]
hosts = ["127.0.0.1"]
port = {port}
certificate = "tls/node.pem"
private_key = "tls/node.key"

[metrics]
enabled = false

[database]
minimum_free_space = "16MiB"

[people]
listed = true
sensitive = ["@carol:{synapse}"]

[permissions]
"*" = "none"
"{synapse}" = "look"
"@alice:{synapse}" = "work"
"@carol:{synapse}" = "administer"
{askers}

[[agents]]
id = "cook"
command = ["sh"]
directory = "work"
parallel = 4

[[agents]]
id = "baker"
display_name = "The baker"
command = ["cat"]

[[agent_federation.peers]]
node_id = "{peer}"
url = "{peer_url}"
profile = "cis-1.1"
"""


class AppserviceNode(StaffedNode):
    """Its agents are users of the homeserver."""

    domain: str
    for_homeserver: str
    """Where the homeserver reaches it, and bridge managers do."""

    @property
    def env(self) -> dict[str, str]:
        """It trusts the authority of the homeserver's certificate."""
        return {**super().env, "SSL_CERT_FILE": str(self.directory / "tls" / "ca.pem")}

    @property
    def server_name(self) -> str:
        return self.domain

    def user(self, agent_id: str) -> str:
        return f"@_agent_{agent_id}:{self.domain}"

    def address(self, agent_id: str) -> str:
        return f"{agent_id}@{NODE_ID}"


@asynccontextmanager
async def appservice_company(
    palaver: Path, authority: Authority, synapse: Synapse, *, askers: int = 0, more: str = ""
) -> AsyncIterator[Company]:
    """Alice and the askers may give the agents work; carol administers, and bob may read. All of them except
    the askers are in the agents' room. The Synapse has not been started before. `more` is further
    configuration; if it enables double puppets, the Synapse gets that registration as well."""
    async with published_node(PEER) as peer, _node(palaver, authority, synapse, peer.url, askers, more) as node:
        alice, bob, carol = [await synapse.person(name) for name in ("alice", "bob", "carol")]
        for person in (alice, bob, carol):
            room_id = await person.join(f"#agents-default:{synapse.server_name}")
        yield Company(node, synapse, peer, alice, bob, carol, room_id)


@asynccontextmanager
async def _node(
    palaver: Path, authority: Authority, synapse: Synapse, peer_url: str, askers: int, more: str
) -> AsyncIterator[AppserviceNode]:
    # Not below the directory of the test: the path of a Unix socket has 107 bytes.
    directory = Path(tempfile.mkdtemp(prefix="palaver-attached-"))
    node = AppserviceNode(palaver, directory, lasting_port(), 0)
    node.domain = synapse.server_name
    try:
        (directory / "tls").mkdir()
        node.work.mkdir()
        authority.write(directory / "tls", "ca")
        authority.issue("localhost", "127.0.0.1", "::1").write(directory / "tls", "node")
        port = lasting_port()
        node.for_homeserver = f"http://127.0.0.1:{port}"
        said = CONFIGURATION.format(
            node_id=NODE_ID,
            synapse=synapse.server_name,
            appservice_port=port,
            port=node.port,
            askers="\n".join(f'"@{asker(n)}:{synapse.server_name}" = "work"' for n in range(askers)),
            peer=PEER,
            peer_url=peer_url,
        )
        (directory / FILE).write_text(said + more)
        code, written = await node.cli("registration")
        assert code == 0, written
        synapse.appservices = [*synapse.appservices, directory / "registration.yaml"]
        if "[double_puppet]" in more:
            code, written = await node.cli("registration", "--double-puppet")
            assert code == 0, written
            synapse.appservices = [*synapse.appservices, directory / "double-puppet.yaml"]
        await synapse.start()
        await synapse.settled()
        await node.start()
        yield node
    finally:
        await node.clean_up()
        shutil.rmtree(directory, ignore_errors=True)


def asker(number: int) -> str:
    """Return the name of a user who gives tasks."""
    return f"asker-{number}"


# Uses the example client: it logs its prompt, and answers with it.
LISTENER = """
import sys
from agent_client import AgentClient, work
heard = open(sys.argv[3], "a")
def do(client, task):
    print(task.prompt, file=heard, flush=True)
    return task.prompt
work(AgentClient(sys.argv[1], "listener", sys.argv[2]), do)
"""


@asynccontextmanager
async def listener(node: AppserviceNode, heard: Path) -> AsyncIterator[None]:
    """A program that attaches itself as an agent and runs one task at a time."""
    code, token = await node.cli("agents", "token", "create", "listener")
    assert code == 0, token
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LISTENER, node.url("", "http"), token["token"], str(heard),
        env={**os.environ, "PYTHONPATH": str(ROOT / "examples")}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert program.stdout is not None
        assert b"Attached" in await asyncio.wait_for(program.stdout.readline(), TIMEOUT)
        yield
    finally:
        program.kill()
        await program.wait()


async def send_with_retries(person: MatrixClient, room_id: str, content: Json) -> str:
    """Send one message, with retries under one transaction id until it is answered, as clients do."""
    transaction = person.new_txn_id()
    while True:
        with suppress(aiohttp.ClientError):
            return await person.send(room_id, "m.room.message", content, txn_id=transaction)
        await asyncio.sleep(0.2)
