"""Nodes with agents as processes of the installed wheel, created from their configuration files alone."""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from bridge.control.client import ask_node, stream_node
from federation.http.server.development_certificate import ensure
from federation.keys.local_keys import LocalKeyFiles
from storage.connect import DatabaseAddress
from storage.errors import LocalError
from tests.support.node import Node
from tests.support.ports import lasting_port
from tests.support.postgres import Server

T = TypeVar("T")
TIMEOUT = 60.0
LOOK_AGAIN = 0.05
"""Seconds between two polls of what sends no notification: a file, or another process."""

CONFIGURATION = """
server_name = "{name}"
{top}

[listener]
hosts = ["127.0.0.1"]
port = {port}

[metrics]
enabled = false

[database]
url = "{database}"
connections = 5
{password}

[people]
enabled = {people}

[agent_federation]
heartbeat_interval_secs = 0.5
agent_timeout_secs = {agent_timeout}
"""
PEER = """
[[agent_federation.peers]]
node_id = "{name}"

[[peers]]
server_name = "{name}"
address = "127.0.0.1:{port}"
authority = "{authority}"
"""
# The key of a published node is what its operator's `palaver keys show` prints.
PUBLISHED_PEER = """
[[agent_federation.peers]]
node_id = "{name}"
url = "http://127.0.0.1:{port}"
profile = "cis-1.1"
{signing_key}
require_signature = true
"""
AGENT = """
[[agents]]
id = "{id}"
command = {command}
directory = "{work}"
"""
# It executes its prompt, and logs its beginning and its end.
COMMAND = (
    'echo "$PALAVER_TASK_REQUEST_ID begins $$" >> {runs}; sh -s; code=$?;'
    ' echo "$PALAVER_TASK_REQUEST_ID ends $code" >> {runs}; exit $code'
)


@dataclass
class AgentNode(Node):
    """A node called `name`. `top` and `more` are added to its configuration. A published node, and any peer
    of one, is configured only with its URL and its key, as for a node behind an application service."""

    name: str = "kitchen.test"
    database: DatabaseAddress | None = None
    agents: Sequence[str] = ()
    top: str = ""
    more: str = ""
    is_published: bool = False
    has_people: bool = False
    agent_timeout: float = 120.0
    peers: list["AgentNode"] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        """The environment does not mention the node, unless the test adds it."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PALAVER_")}
        return {**inherited, **self.environment}

    # -- its files --

    @property
    def work(self) -> Path:
        """The working directory of its agents."""
        return self.directory / "work"

    @property
    def command_of_agents(self) -> str:
        return COMMAND.format(runs=self.work / "runs")

    def write_files(self) -> None:
        """Write the configuration, and the certificate that the node would create at its start: its peers
        need it before."""
        assert self.database is not None, "it has one"
        self.work.mkdir()
        ensure(self.data / "tls", self.name)
        password = ""
        if self.database.password is not None:
            (self.directory / "password").write_text(self.database.password)
            password = 'password_file = "password"'
        text = CONFIGURATION.format(
            name=self.name,
            top=self.top,
            people=str(self.has_people).lower(),
            port=self.port,
            database=self.database.url,
            password=password,
            agent_timeout=self.agent_timeout,
        )
        for peer in self.peers:
            text += self._peer(peer)
        command = f"""["sh", "-c", '''{self.command_of_agents}''']"""
        for agent in self.agents:
            text += AGENT.format(id=agent, command=command, work=self.work)
        (self.directory / "palaver.toml").write_text(text + self.more)

    def _peer(self, peer: "AgentNode") -> str:
        if not self.is_published and not peer.is_published:
            return PEER.format(name=peer.name, port=peer.port, authority=peer.data / "tls" / "ca.pem")
        return PUBLISHED_PEER.format(name=peer.name, port=peer.port, signing_key=peer.signing_key())

    def signing_key(self) -> str:
        """Return the line that other operators enter, as `palaver keys show` prints it."""
        self.data.mkdir(mode=0o700, exist_ok=True)
        LocalKeyFiles(self.data).load_or_create()
        shown = subprocess.run(
            [str(self.command), "keys", "show"],
            cwd=self.directory, env=self.env, check=True, capture_output=True, text=True, timeout=TIMEOUT,
        ).stdout  # fmt: skip
        [line] = re.findall('signing_key = "[0-9a-f]{64}"', shown)
        return str(line)

    # -- what its agents have done --

    def runs(self) -> list[list[str]]:
        """Return the log of runs, one list of words per line: the request, `begins` or `ends`, and the
        process or the exit code."""
        with contextlib.suppress(FileNotFoundError):
            return [line.split() for line in (self.work / "runs").read_text().splitlines()]
        return []

    def begun(self) -> Counter[str]:
        return Counter(request for request, what, _ in self.runs() if what == "begins")

    async def until_begun(self, request: str) -> int:
        """Wait until a process works on the task, and return it."""

        async def begun() -> int:
            return next((int(last) for one, what, last in self.runs() if (one, what) == (request, "begins")), 0)

        return await until(begun)

    def go_on(self, name: str) -> None:
        """Let the waiting run continue."""
        (self.work / name).touch()

    # -- commands of an operator --

    async def palaver(self, *words: str) -> tuple[int, str]:
        """Run a command; return its exit code and its standard output."""
        process = await asyncio.create_subprocess_exec(
            str(self.command), *words, cwd=self.directory, env=self.env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        out, _ = await asyncio.wait_for(process.communicate(), TIMEOUT)
        assert process.returncode is not None, "it has ended"
        return process.returncode, out.decode()

    async def ask(self, to: str, prompt: str, request: str, **more: Any) -> None:
        """Submit a task under a number, without waiting for it."""
        given = {"to": to, "prompt": prompt, "id": request, "wait": False, **more}
        async with contextlib.aclosing(stream_node(self.data, "task-send", given)) as items:
            said = [item async for item in items]
        assert said[0]["type"] == "accepted", said

    async def task(self, request: str) -> dict[str, Any]:
        return await ask_node(self.data, "task-show", {"task": request})

    async def answered(self, request: str) -> dict[str, Any]:
        """Return the task once it has ended."""

        async def over() -> dict[str, Any] | None:
            task = await self.task(request)
            return task if task["answer"] is not None else None

        return await until(over)

    async def route(self, to: str) -> dict[str, Any]:
        return await ask_node(self.data, "route", {"address": to})

    async def sees(self, *addresses: str) -> None:
        async def all_there() -> bool:
            return all([(await self.route(one))["decision"] != "unknown" for one in addresses])

        await until(all_there)

    async def misses(self, address: str) -> str:
        """Wait until the node knows that the agent is offline, and return the reason."""

        async def gone() -> str:
            route = await self.route(address)
            return str(route["why"]) if route["decision"] == "unknown" else ""

        return await until(gone)

    # -- programs that attach themselves --

    @contextlib.asynccontextmanager
    async def attached(self, agent_id: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run `palaver agent run` as another process, which behaves like the node's own agents."""
        token = await ask_node(self.data, "agents-token-create", {"agent": agent_id})
        file = self.directory / f"{agent_id}.token"
        file.write_text(token["token"])
        process = await asyncio.create_subprocess_exec(
            str(self.command), "agent", "run", "--id", agent_id, "--token-file", str(file),
            "--url", self.url(""), "--authority", str(self.data / "tls" / "ca.pem"),
            "-C", str(self.work), "--", "sh", "-c", self.command_of_agents,
            cwd=self.directory, env=self.env, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)
            await asyncio.wait_for(process.wait(), TIMEOUT)


def beside(node: AgentNode) -> AgentNode:
    """Return another process of the same node: its own directory, with links to the same keys and media, and
    another port."""
    directory = node.directory.parent / "beside"
    directory.mkdir()
    other = AgentNode(
        node.command, directory, lasting_port(), 0, database=node.database, name=node.name, more=node.more
    )
    other.write_files()
    for name in ("signing.key", "old_signing.keys", "media"):
        (other.data / name).symlink_to(node.data / name)
    return other


async def until(look: Callable[[], Awaitable[T | None]]) -> T:
    """Poll until the function returns something."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            with contextlib.suppress(LocalError):  # the node is not there yet, or does not know it yet
                if found := await look():
                    return found
            await asyncio.sleep(LOOK_AGAIN)


@contextlib.asynccontextmanager
async def agent_nodes(
    palaver: Path,
    server: Server,
    template: str,
    *nodes: dict[str, Any],
    prepare: Callable[[list[AgentNode]], Awaitable[None]] | None = None,
) -> AsyncIterator[list[AgentNode]]:
    """Start nodes that are peers of each other. `nodes` has the fields of each. `prepare` is called when
    their files have been written."""
    # Not below the directory of the test: the path of a Unix socket has 107 bytes.
    directory = Path(tempfile.mkdtemp(prefix="palaver-agents-"))
    made: list[AgentNode] = []
    databases: list[DatabaseAddress] = []
    try:
        for number, fields in enumerate(nodes):
            databases.append(await server.create(template))
            where = directory / str(number)
            where.mkdir()
            made.append(AgentNode(palaver, where, lasting_port(), 0, database=databases[-1], **fields))
        for one in made:
            one.peers = [other for other in made if other is not one]
            one.write_files()
        if prepare is not None:
            await prepare(made)
        await asyncio.gather(*(one.start() for one in made))
        yield made
    finally:
        await asyncio.gather(*(one.clean_up() for one in made))
        for database in databases:
            await server.drop(database)
        shutil.rmtree(directory, ignore_errors=True)
