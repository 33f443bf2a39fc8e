"""Published Agents, Computers and servers, each a process with which the test exchanges lines of JSON."""

import asyncio
import json
import os
import secrets
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from tests.support.ports import lasting_port
from tests.support.smcp.environments import PROTOCOLS, is_at_least, python
from tests.support.smcp.skill import equip

HERE = Path(__file__).parent
# Far above what any step needs: it only ends what hangs.
TIMEOUT = 60.0
# A line may hold what a test uploads.
LINE = 64 * 1024 * 1024


class Refused(Exception):
    """The published client raised an error; `told` has its details, such as `type` and `message`."""

    def __init__(self, command: str, told: dict[str, Any]) -> None:
        super().__init__(f"{command}: {told}")
        self.told = told

    @property
    def body(self) -> dict[str, Any]:
        """Return the response to a request that was refused before Socket.IO began."""
        found: dict[str, Any] = self.told.get("body", {})
        return found


@dataclass
class Driven:
    """A driver's process: `do` runs a command, and `until` waits for a report."""

    version: str
    directory: Path
    script: ClassVar[str]
    # On top of its own, such as the authority that it trusts: SSL_CERT_FILE.
    environment: Mapping[str, str] = field(default_factory=dict)
    process: asyncio.subprocess.Process | None = None
    # Pending reports, in order.
    reports: list[tuple[str, Any]] = field(default_factory=list)
    _asked: dict[int, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _reading: asyncio.Task[None] | None = None
    _number: int = 0

    @property
    def protocol(self) -> str | None:
        """The version of the protocol that it sends; 0.1 sends none."""
        return PROTOCOLS[self.version]

    def is_at_least(self, version: str) -> bool:
        return is_at_least(self.version, version)

    @property
    def complaints(self) -> Path:
        return self.directory / "stderr.log"

    async def spawn(self) -> None:
        assert self.process is None
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.complaints.open("ab") as complaints:
            self.process = await asyncio.create_subprocess_exec(
                str(python(self.version)), str(HERE / self.script),
                cwd=self.directory, env=self._environment(),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, limit=LINE,
            )  # fmt: skip
        self._reading = asyncio.create_task(self._read(self.process))

    def _environment(self) -> dict[str, str]:
        """Return an environment without the variables and files of the user who runs the tests."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("A2C_", "PYTHON", "XDG_", "PALAVER_", "PIP_"))
        }
        return {
            **inherited,
            "HOME": str(self.directory),
            "A2C_SKILL_HOME": str(self.directory / "skills"),
            "PYTHONDONTWRITEBYTECODE": "1",
            **self.environment,
        }

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            said = json.loads(line)
            if "event" in said:
                self.reports.append((said["event"], said["data"]))
                self._news.set()
            elif not (answer := self._asked.pop(said["id"])).done():
                answer.set_result(said)
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_result({"ended": True})
        self._news.set()

    async def do(self, command: str, /, **arguments: Any) -> Any:
        """Return the result of the driver's `do_<command>`; raises `Refused` if the published client raised
        an error."""
        assert self.process is not None, "it does not run"
        assert self.process.stdin is not None
        assert not self._over, f"{self} ended:\n{self.tail()}"
        self._number += 1
        number = self._number
        self._asked[number] = asyncio.get_running_loop().create_future()
        self.process.stdin.write(json.dumps({"id": number, "do": command, **arguments}).encode() + b"\n")
        try:
            async with asyncio.timeout(TIMEOUT):
                answer = await self._asked[number]
        except TimeoutError:
            raise AssertionError(f"{self} gave no answer to {command}:\n{self.tail()}") from None
        assert "ended" not in answer, f"{self} ended when it was asked to {command}:\n{self.tail()}"
        if "error" in answer:
            raise Refused(command, answer["error"])
        return answer["ok"]

    async def until(self, event: str, matches: Callable[[Any], bool] = lambda data: True) -> Any:
        """Return the data of the first matching report, and remove it from the pending ones."""
        try:
            async with asyncio.timeout(TIMEOUT):
                while True:
                    self._news.clear()
                    for place, (name, data) in enumerate(self.reports):
                        if name == event and matches(data):
                            del self.reports[place]
                            return data
                    assert not self._over, f"{self} ended:\n{self.tail()}"
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"{self} did not tell {event}, only {self.reports}:\n{self.tail()}") from None

    def heard(self, event: str) -> list[Any]:
        """Return the data of the pending reports of this event."""
        return [data for name, data in self.reports if name == event]

    def forget(self) -> None:
        """Drop the pending reports."""
        self.reports.clear()

    @property
    def _over(self) -> bool:
        return self._reading is None or self._reading.done()

    async def close(self) -> None:
        """End the process by the end of its input; kill it if it does not end."""
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), TIMEOUT / 4)
        await self.kill()

    async def kill(self) -> None:
        """Kill the process at once."""
        if self.process is None:
            return
        process, self.process = self.process, None
        if process.returncode is None:
            process.kill()
        await process.wait()
        assert self._reading is not None
        await self._reading

    def tail(self, lines: int = 40) -> str:
        """Return the end of its stderr."""
        said = self.complaints.read_text("utf-8", "replace") if self.complaints.exists() else ""
        return "\n".join(said.splitlines()[-lines:])

    def __str__(self) -> str:
        return f"{type(self).__name__} {self.version} in {self.directory}"


@dataclass
class PublishedAgent(Driven):
    """An `AsyncSMCPAgentClient`. `agent` is its name in requests, `name` the name with which it joins."""

    script = "agent_driver.py"
    name: str = "planner"

    async def start(self) -> None:
        await self.spawn()


@dataclass
class PublishedComputer(Driven):
    """A `Computer` with the tools of `tools_server`, and its `SMCPComputerClient`."""

    script = "computer_driver.py"
    name: str = "bench"

    async def start(self) -> None:
        """Start it, with its tools; its skills are what `skills/user` of its directory holds by then."""
        await self.spawn()
        await self.do("boot", name=self.name)


@dataclass
class ReferenceServer(Driven):
    """The published server of a version, for the protocol of that version."""

    script = "reference_server.py"
    token: str = field(default_factory=secrets.token_hex)
    port: int = field(default_factory=lasting_port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start it, again on the same port; it listens by then."""
        await self.spawn()
        await self.do("listen", port=self.port, token=self.token)


class Peers:
    """Starts processes in separate directories, and always stops all of them.

    A failure within the block contains what they logged.
    """

    def __init__(self, directory: Path, **environment: str) -> None:
        self._directory = directory
        self._environment = environment
        self.all: list[Driven] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.explain(error)
        clients = [peer for peer in self.all if not isinstance(peer, ReferenceServer)]
        servers = [peer for peer in self.all if isinstance(peer, ReferenceServer)]
        failed: list[BaseException] = []
        for peers in (clients, servers):
            ended = await asyncio.gather(*(peer.close() for peer in peers), return_exceptions=True)
            failed += [one for one in ended if isinstance(one, BaseException)]
        if failed:
            raise BaseExceptionGroup("a process was not ended well", failed)

    def explain(self, error: BaseException) -> None:
        for peer in self.all:
            if said := peer.tail():
                error.add_note(f"--- {peer}\n{said}")

    async def agent(self, version: str, name: str = "planner") -> PublishedAgent:
        agent = PublishedAgent(version, self._place("agent"), self._environment, name=name)
        await self._begin(agent)
        return agent

    async def computer(self, version: str, name: str = "bench") -> PublishedComputer:
        """Start a Computer that has a skill."""
        computer = PublishedComputer(version, self._place("computer"), self._environment, name=name)
        equip(computer.directory)
        await self._begin(computer)
        return computer

    async def server(self, version: str = "0.4.2") -> ReferenceServer:
        server = ReferenceServer(version, self._place("server"), self._environment)
        await self._begin(server)
        return server

    def _place(self, kind: str) -> Path:
        return self._directory / f"{kind}-{len(self.all)}"

    async def _begin(self, peer: PublishedAgent | PublishedComputer | ReferenceServer) -> None:
        self.all.append(peer)
        try:
            await peer.start()
        except Refused as error:
            self.explain(error)
            raise
