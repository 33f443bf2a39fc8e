"""A node with agents, created from its configuration alone, and people of a Synapse who use it."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bridge.connectors.cis.published_node import PublishedNode, published_node
from tests.support.matrix_client import MatrixClient
from tests.support.matrix_client.seen import Event, Seen
from tests.support.node import ROOT, Node
from tests.support.ports import lasting_port
from tests.support.synapse import Synapse
from tests.support.tls import Authority

TIMEOUT = 120.0
GUESTS = 7
KITCHEN = "kitchen.test"
FILE = "palaver.toml"
# The first agent is a shell: it executes its prompt.
CONFIGURATION = """
server_name = "localhost:{port}"

[listener]
port = {port}
certificate = "tls/node.pem"
private_key = "tls/node.key"

[metrics]
enabled = false

[database]
minimum_free_space = "16MiB"

[people]
sensitive = ["@carol:{synapse}"]

[permissions]
"*" = "none"
"{synapse}" = "look"
"@alice:{synapse}" = "work"
"@carol:{synapse}" = "administer"
{guests}

[[agents]]
id = "cook"
command = ["sh"]
directory = "work"
parallel = 4

[[agents]]
id = "baker"
display_name = "The baker"
command = ["cat"]

[[peers]]
server_name = "{synapse}"
authority = "tls/ca.pem"

[[agent_federation.peers]]
node_id = "{kitchen}"
url = "{kitchen_url}"
profile = "cis-1.1"
"""


class StaffedNode(Node):
    """Its environment does not mention the node."""

    @property
    def env(self) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if not name.startswith("PALAVER_")}

    @property
    def server_name(self) -> str:
        return f"localhost:{self.port}"

    @property
    def work(self) -> Path:
        """The working directory of the cook."""
        return self.directory / "work"

    def user(self, agent_id: str) -> str:
        return f"@{agent_id}:{self.server_name}"

    def address(self, agent_id: str) -> str:
        return f"{agent_id}@{self.server_name}"


@dataclass
class Company:
    """Alice and the guests may give the agents work; carol administers, and bob may read. All of them except
    the guests are in the agents' room."""

    node: StaffedNode
    synapse: Synapse
    kitchen: PublishedNode
    alice: MatrixClient
    bob: MatrixClient
    carol: MatrixClient
    room_id: str

    async def mention(self, who: MatrixClient, agent_id: str, body: str, room_id: str | None = None) -> str:
        """Return a mention as Element writes it."""
        user = self.node.user(agent_id)
        return await who.say(
            room_id or self.room_id,
            f"{agent_id}: {body}",
            format="org.matrix.custom.html",
            formatted_body=f'<a href="https://matrix.to/#/{user}">{agent_id}</a>: {body}',
            **{"m.mentions": {"user_ids": [user]}},
        )

    async def written(self, name: str) -> str:
        """Return the content of a file of the cook, once it has content."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                with suppress(FileNotFoundError):
                    if (text := (self.node.work / name).read_text()).endswith("\n"):
                        return text.strip()
                await asyncio.sleep(0.02)

    def go_on(self, name: str) -> None:
        """Let the waiting run continue."""
        (self.node.work / name).touch()

    async def asked_again(self) -> None:
        """Wait until everything that the node had to send before has arrived at alice's Synapse."""
        asked = await self.mention(self.alice, "baker", "Is anything left?")
        await self.alice.wait_for(answers(asked, "Is anything left?", sender=self.node.user("baker")))


@asynccontextmanager
async def company(palaver: Path, authority: Authority, synapse: Synapse, *, more: str = "") -> AsyncIterator[Company]:
    """`more` is further configuration."""
    # Not below the directory of the test: the path of a Unix socket has 107 bytes.
    directory = Path(tempfile.mkdtemp(prefix="palaver-staffed-"))
    node = StaffedNode(palaver, directory, lasting_port(), 0)
    try:
        async with published_node(KITCHEN) as kitchen:
            (directory / "tls").mkdir()
            node.work.mkdir()
            authority.write(directory / "tls", "ca")
            authority.issue("localhost", "127.0.0.1", "::1").write(directory / "tls", "node")
            said = CONFIGURATION.format(
                port=node.port,
                synapse=synapse.server_name,
                guests="\n".join(f'"@guest-{n}:{synapse.server_name}" = "work"' for n in range(GUESTS)),
                kitchen=KITCHEN,
                kitchen_url=kitchen.url,
            )
            (directory / FILE).write_text(said + more)
            await node.start()
            alice, bob, carol = [await synapse.person(name) for name in ("alice", "bob", "carol")]
            for person in (alice, bob, carol):
                room_id = await person.join(f"#agents-default:{node.server_name}")
            yield Company(node, synapse, kitchen, alice, bob, carol, room_id)
    finally:
        await node.clean_up()
        shutil.rmtree(directory, ignore_errors=True)


# With the client that is shown as an example.
ECHO = """
import sys
from agent_client import AgentClient, work
work(AgentClient(sys.argv[1], "echo", sys.argv[2]), lambda client, task: task.prompt)
"""


@asynccontextmanager
async def echo(node: StaffedNode) -> AsyncIterator[None]:
    """A program that attaches itself as an agent, and answers with its prompt."""
    code, token = await node.cli("agents", "token", "create", "echo")
    assert code == 0, token
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ECHO, node.url("", "http"), token["token"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "examples")}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert program.stdout is not None
        assert b"Attached" in await asyncio.wait_for(program.stdout.readline(), TIMEOUT)
        yield
    finally:
        program.kill()
        await program.wait()


# ---- what is seen ------------------------------------------------------------------------------------


def says(*parts: str, sender: str | None = None) -> Callable[[Event], bool]:
    """A message that contains all these texts."""

    def found(event: Event) -> bool:
        body = event["content"].get("body")
        return sender in (None, event["sender"]) and isinstance(body, str) and all(part in body for part in parts)

    return found


def answers(root: str, *parts: str, sender: str | None = None) -> Callable[[Event], bool]:
    """A message in this thread that contains all these texts."""
    said = says(*parts, sender=sender)
    return lambda event: relation(event)[:2] == ("m.thread", root) and said(event)


def edits(event_id: str, *parts: str) -> Callable[[Event], bool]:
    said = says(*parts)
    return lambda event: relation(event)[:2] == ("m.replace", event_id) and said(event)


def is_said(event: Event) -> bool:
    """A message that is neither redacted nor an edit."""
    is_message = event["type"] == "m.room.message" and bool(event["content"])
    return is_message and relation(event)[0] != "m.replace"


def in_state(room_id: str, event_type: str, state_key: str) -> Callable[[Seen], Event | None]:
    return lambda seen: seen.state[room_id].get((event_type, state_key))


def relation(event: Event) -> tuple[str | None, str | None, str | None]:
    """Return the relation type, the target event, and the key of a reaction."""
    relates: dict[str, Any] = event["content"].get("m.relates_to", {})
    return relates.get("rel_type"), relates.get("event_id"), relates.get("key")


async def until_reaction(who: MatrixClient, event_id: str, sign: str) -> Event:
    """Wait until a user has reacted with this key."""
    return await who.wait_for(lambda event: relation(event) == ("m.annotation", event_id, sign))


async def until_gone(pid: str) -> None:
    """Wait until the process has ended and its parent has noticed."""
    async with asyncio.timeout(TIMEOUT):
        while Path("/proc", pid).exists():
            await asyncio.sleep(0.02)


def repeated(history: list[Event], server_name: str) -> list[tuple[Any, ...]]:
    """Return what users of this server have sent more than once. Redacted events and edits do not count."""
    shown = Counter(
        (event["sender"], *relation(event), event["content"].get("body"))
        for event in history
        if event["sender"].endswith(f":{server_name}")
        and (is_said(event) or (event["type"] == "m.reaction" and event["content"]))
    )
    return [what for what, times in shown.items() if times > 1]
