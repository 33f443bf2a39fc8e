"""The installed wheel as a process: built once, installed separately from the source, started as an operator
would."""

import asyncio
import fcntl
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import sysconfig
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.ports import lasting_port

ROOT = Path(__file__).parents[2]
# Far above what any step needs: it only ends what hangs.
TIMEOUT = 60.0


@pytest.fixture(scope="session")
def palaver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command `palaver` of the wheel, in an environment that cannot import the source."""
    # The workers of one run share the directory above their own; the first one there builds.
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    home = shared / "installed"
    command = home / "environment" / "bin" / "palaver"
    with (shared / "installed.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not command.exists():
            shutil.rmtree(home, ignore_errors=True)
            _install(home)
    return command


def _install(home: Path) -> None:
    _run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(home))
    [wheel] = home.glob("palaver-*.whl")
    environment = home / "environment"
    _run(sys.executable, "-m", "venv", "--without-pip", str(environment))
    python = environment / "bin" / "python"
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    # The dependencies are those of the tests. A directory named in a .pth file is searched, but its own .pth
    # files (the one that leads to the source) are not read.
    packages = environment / "lib" / version / "site-packages"
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install"]
    _run(*pip, "--quiet", "--no-deps", "--no-index", "--root-user-action=ignore", str(wheel))


def _run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


@dataclass
class Node:
    """A node's process, and how to reach it."""

    command: Path
    directory: Path
    port: int
    metrics_port: int
    environment: dict[str, str] = field(default_factory=dict)
    # A program that starts the node in surroundings of its own, such as `unshare`.
    prefix: tuple[str, ...] = ()
    process: asyncio.subprocess.Process | None = None
    started: dict[str, Any] = field(default_factory=dict)
    log: list[dict[str, Any]] = field(default_factory=list)
    _reading: asyncio.Task[None] | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def env(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PALAVER_")}
        return {
            **inherited,
            "PALAVER_SERVER_NAME": f"localhost:{self.port}",
            "PALAVER_LISTENER__PORT": str(self.port),
            "PALAVER_METRICS__PORT": str(self.metrics_port),
            # Two workers on a small disk: what the tests need, not what a node should have.
            "PALAVER_DATABASE__MINIMUM_FREE_SPACE": "16MiB",
            **self.environment,
        }

    async def spawn(self, *options: str) -> None:
        """Start the process without waiting."""
        assert self.process is None
        self.process = await asyncio.create_subprocess_exec(
            *self.prefix, str(self.command), "run", "--json", *options, cwd=self.directory, env=self.env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._reading = asyncio.create_task(self._read_log(self.process))

    async def start(self, *options: str) -> dict[str, Any]:
        """Start the process and wait until it reports that it runs."""
        await self.spawn(*options)
        assert self.process is not None
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), TIMEOUT)
        self.started = json.loads(line) if line else {}
        assert "error" not in self.started, self.started
        assert self.started, f"the node ended without a word: {self.log}"
        return self.started

    async def refused(self, *options: str) -> tuple[int, dict[str, Any]]:
        """Start the process and expect it to refuse; return its exit code and output."""
        await self.spawn(*options)
        assert self.process is not None
        out, _ = await asyncio.wait_for(
            asyncio.gather(self.process.stdout.read(), self.process.wait()),  # type: ignore[union-attr] # a pipe was asked for
            TIMEOUT,
        )
        code = await self._ended()
        answer = json.loads(out) if out else {}
        return code, answer.get("error", answer)

    async def stop(self, sign: int = signal.SIGTERM) -> int:
        """Send the signal, wait for the end, return the exit code."""
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(sign)
        await asyncio.wait_for(self.process.wait(), TIMEOUT)
        return await self._ended()

    async def kill(self) -> None:
        await self.stop(signal.SIGKILL)

    async def _ended(self) -> int:
        assert self.process is not None
        assert self._reading is not None
        await self._reading
        code = self.process.returncode
        assert code is not None
        self.process = None
        return code

    async def _read_log(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            try:
                self.log.append(json.loads(line))
            except ValueError:
                self.log.append({"event": line.decode("utf-8", "replace").rstrip()})
            self._news.set()

    async def logged(self, part: str) -> dict[str, Any]:
        """Wait for a log line whose event contains `part`."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                self._news.clear()
                for line in self.log:
                    if part in str(line.get("event")):
                        return line
                await self._news.wait()

    def url(self, path: str, scheme: str = "https") -> str:
        return f"{scheme}://localhost:{self.port}{path}"

    def tls(self) -> ssl.SSLContext:
        """Return a TLS context that verifies with the node's development authority."""
        return ssl.create_default_context(cafile=self.data / "tls" / "ca.pem")

    async def get(self, path: str, scheme: str = "https") -> tuple[int, Any]:
        connector = aiohttp.TCPConnector(ssl=self.tls() if scheme == "https" else True, force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.get(self.url(path, scheme)) as response,
        ):
            return response.status, await response.json()

    async def cli(self, *words: str, environment: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
        """Run another command of the same installation with --json; return its exit code and result."""
        process = await asyncio.create_subprocess_exec(
            str(self.command), *words, "--json", cwd=self.directory, env={**self.env, **(environment or {})},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        out, err = await asyncio.wait_for(process.communicate(), TIMEOUT)
        assert process.returncode is not None
        assert out, f"{words} said nothing: {err.decode()}"
        answer: dict[str, Any] = json.loads(out)
        return process.returncode, answer.get("error", answer)

    async def clean_up(self) -> None:
        if self.process is not None:
            await self.kill()


MakeNode = Callable[..., Node]


@pytest.fixture
async def make_node(palaver: Path, tmp_path: Path) -> AsyncIterator[MakeNode]:
    """Creates nodes that are stopped at the end of the test."""
    nodes: list[Node] = []

    def make(directory: Path | None = None, **environment: str) -> Node:
        where = directory if directory is not None else tmp_path / f"node-{len(nodes)}"
        where.mkdir(exist_ok=True)
        node = Node(palaver, where, lasting_port(), lasting_port(), environment)
        nodes.append(node)
        return node

    yield make
    ending: list[Awaitable[None]] = [node.clean_up() for node in nodes]
    await asyncio.gather(*ending)
