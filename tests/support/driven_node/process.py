"""A driven node: its files, its process, and the calls and reports between it and the test."""

import asyncio
import json
import os
import signal
import ssl
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from storage.connect import DatabaseAddress
from tests.support.driven_node.followed import Followed
from tests.support.driven_node.resident import Resident
from tests.support.matrix_client import Refused
from tests.support.matrix_client.homeserver import Homeserver
from tests.support.matrix_client.seen import Event, Seen
from tests.support.matrix_client.waiting import TIMEOUT, T
from tests.support.node import Node

PROGRAM = Path(__file__).with_name("program.py")
LONGEST_LINE = 64 << 20
OWN_STREAM = "what the node sees"


class Gone(Exception):
    """The node ended before it answered."""


class Metrics:
    def __init__(self, text: str) -> None:
        self._samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    def sum(self, name: str, **labels: str) -> float:
        return sum(
            sample.value for sample in self._samples if sample.name == name and labels.items() <= sample.labels.items()
        )


@dataclass
class DrivenNode(Node):
    """A node that runs between `start` and `stop`. It keeps its name, ports and data in between."""

    certificate: Path | None = None
    private_key: Path | None = None
    trusted: Path | None = None
    peers: Sequence[str] = ()
    database: DatabaseAddress | None = None
    """None for a Postgres of its own."""
    host: str = "localhost"
    seen: Seen = field(default_factory=Seen)
    followed: dict[str, Followed] = field(default_factory=dict)
    _waiting: dict[int, "asyncio.Future[Any]"] = field(default_factory=dict)
    _count: int = 0
    _listening: asyncio.Task[None] | None = None
    _told: asyncio.Event = field(default_factory=asyncio.Event)
    logged_before: list[dict[str, Any]] = field(default_factory=list)
    _expected: tuple[str, ...] = ()

    @property
    def server_name(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "PALAVER_SERVER_NAME": self.server_name}

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.trusted)

    # Start and end

    async def spawn(self, *options: str) -> None:
        assert self.process is None
        self._write_files()
        python = self.command.with_name("python")
        self.process = await asyncio.create_subprocess_exec(
            str(python), str(PROGRAM), *options, cwd=self.directory, limit=LONGEST_LINE,
            env={**self.env, "STARTED_BY": str(os.getpid())},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._reading = asyncio.create_task(self._read_log(self.process))

    async def start(self, *options: str) -> dict[str, Any]:
        """Start the process, wait until it runs, and begin to read its reports."""
        summary = await super().start(*options)
        assert self.process is not None
        self._listening = asyncio.create_task(self._listen(self.process))
        await self.follow(OWN_STREAM)
        return summary

    async def stop(self, sign: int = signal.SIGTERM) -> int:
        code = await super().stop(sign)
        if self._listening is not None:
            await self._listening
            self._listening = None
        return code

    def _write_files(self) -> None:
        lines = ["[federation]"]
        if self.trusted is not None:
            lines.append(f"authorities = {json.dumps(str(self.trusted))}")
        lines.append("[listener]")
        if self.certificate is not None:
            lines.append(f"certificate = {json.dumps(str(self.certificate))}")
            lines.append(f"private_key = {json.dumps(str(self.private_key))}")
        if self.database is not None:
            lines += ["[database]", f"url = {json.dumps(self.database.url)}"]
            if self.database.password is not None:
                secret = self.directory / "database-password"
                secret.write_text(self.database.password)
                lines.append(f"password_file = {json.dumps(str(secret))}")
        for peer in self.peers:
            lines += ["[[peers]]", f"server_name = {json.dumps(peer)}"]
        (self.directory / "palaver.toml").write_text("\n".join(lines) + "\n")

    # Commands

    async def call(self, operation: str, /, **arguments: Any) -> Any:
        """Return the result of a call. Raises `Refused` for a refusal, and `Gone` if the node ends before it
        answers."""
        if self.process is None or self.process.returncode is not None:
            raise Gone(operation)
        assert self.process.stdin is not None
        self._count += 1
        number = self._count
        self._waiting[number] = answer = asyncio.get_running_loop().create_future()
        command = {"id": number, "call": operation, "with": arguments}
        try:
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
            await self.process.stdin.drain()
        except ConnectionError:
            self._waiting.pop(number, None)
            raise Gone(operation) from None
        told = await answer
        if "refused" in told:
            raise Refused(told["refused"]["status"], told["refused"], operation)
        assert "broken" not in told, f"{operation}: {told['broken']}"
        return told["answer"]

    async def user(self, localpart: str) -> Resident:
        """Create a user of this node."""
        user = f"@{localpart}:{self.server_name}"
        await self.call("ensure_user", user=user)
        return Resident(self, user)

    async def follow(self, name: str) -> Followed:
        """Read the durable stream as this reader, also after a restart."""
        followed = self.followed.setdefault(name, Followed(name))
        await self.call("follow", name=name)
        return followed

    # What it tells

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while (line := await process.stdout.readline()).endswith(b"\n"):
            self._take(json.loads(line))
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(Gone())
                answer.exception()  # the caller may have stopped waiting

    def _take(self, told: Mapping[str, Any]) -> None:
        if "id" in told:
            answer = self._waiting.pop(told["id"])
            if not answer.done():
                answer.set_result(told)
        elif "heard" in told:
            self._hear(told["heard"], told["said"])
        else:
            self.followed[told["follows"]].add(told)
            if told["follows"] == OWN_STREAM:
                self._see(told.get("entries", ()))
        self._told.set()

    def _see(self, entries: Sequence[Mapping[str, Any]]) -> None:
        for entry in entries:
            event: Event = {name: said for name, said in entry["event"].items() if said is not None}
            room_id = event["room_id"]
            if entry["kind"] == "invite":
                self.seen.invited[room_id] = entry["invite_state"]
            elif entry["kind"] == "timeline":
                self.seen.add({"rooms": {"join": {room_id: {"timeline": {"events": [event]}}}}})

    def _hear(self, edu_type: str, said: Mapping[str, Any]) -> None:
        match edu_type:
            case "m.typing":
                self.seen.typing[said["room_id"]] = set(said["user_ids"])
            case "m.receipt":
                self.seen.read[said["room_id"]][said["user_id"]] = said["event_id"]
            case "m.presence":
                self.seen.presence[said["user_id"]] = dict(said)

    async def wait_until(self, condition: Callable[[Seen], T], *, deadline: float = TIMEOUT) -> T:
        """Wait until the condition returns something true for the reports so far, and return it."""
        try:
            async with asyncio.timeout(deadline):
                while True:
                    self._told.clear()
                    if found := condition(self.seen):
                        return found
                    await self._told.wait()
        except TimeoutError:
            raise AssertionError(f"{self.server_name} did not see it in {deadline} s") from None

    # What is measured

    async def metrics(self) -> Metrics:
        """Return all current samples."""
        server = Homeserver(f"http://127.0.0.1:{self.metrics_port}", self.tls())
        try:
            _, _, body = await server.raw("GET", "/metrics")
        finally:
            await server.close()
        return Metrics(body.decode())

    async def metric(self, sample: str, **labels: str) -> float:
        """Return the sum of the samples with this name and these labels since this start; 0 if there are
        none."""
        return (await self.metrics()).sum(sample, **labels)

    def begin_test(self) -> None:
        """Count complaints from here on."""
        self.logged_before += self.log
        self.log.clear()
        self._expected = ()

    def expect(self, event: str) -> None:
        """Do not count log lines with this text as complaints."""
        self._expected = (*self._expected, event)

    def complaints(self) -> list[dict[str, Any]]:
        """Return the log lines that are warnings or errors, or that are not formatted."""
        return [
            line
            for line in self.log
            if line.get("level") not in ("debug", "info") and line["event"] not in self._expected
        ]
