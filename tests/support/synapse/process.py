"""A Synapse: its files, its process, and requests to it."""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import re
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nacl.signing import SigningKey
from prometheus_client.parser import text_string_to_metric_families

from tests.support.matrix_client import Homeserver, MatrixClient
from tests.support.synapse import configuration, requests_made
from tests.support.synapse.database import Database
from tests.support.synapse.requests_made import RequestMade

# `make install` puts Synapse beside the environment that runs the tests.
PYTHON = Path(f"{sys.prefix}-synapse") / "bin" / "python"
LAUNCH = Path(__file__).with_name("launch.py")
# Far above what any step needs: it only ends what hangs.
TIMEOUT = 120.0
_COMPLAINT = re.compile(r"\S+ \S+ (WARNING|ERROR|CRITICAL) (?!synapse\.config\.logger )")


def environment() -> Path:
    """Return the directory in which Synapse is installed."""
    found = PYTHON.parents[1]
    if not PYTHON.exists():
        raise DidNotStart(f"Synapse is not installed in {found}; `make install` does it")
    return found


class DidNotStart(AssertionError):
    """Synapse ended, or logged nothing, instead of starting; contains the end of its log."""


@dataclass
class Synapse:
    """A Synapse that runs between `start` and `stop`. It keeps its name, port and data in between."""

    directory: Path
    port: int
    trusted: Sequence[Path]
    certificate: Path
    private_key: Path
    database: Database
    appservices: Sequence[Path] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    log_level: str = "INFO"
    process: asyncio.subprocess.Process | None = None

    def __post_init__(self) -> None:
        tls = ssl.create_default_context(cadata="\n".join(path.read_text("ascii") for path in self.trusted))
        self.homeserver = Homeserver(self.url, tls)

    @property
    def server_name(self) -> str:
        return f"localhost:{self.port}"

    @property
    def url(self) -> str:
        return f"https://{self.server_name}"

    @property
    def log(self) -> Path:
        return self.directory / "homeserver.log"

    @property
    def pid(self) -> int:
        assert self.process is not None, "it does not run"
        return self.process.pid

    # Start and end

    async def start(self) -> None:
        """Start the process and wait until it reports that it listens."""
        assert self.process is None
        self._write_files()
        # The kernel chooses the name, which lives as long as the socket.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            ready.bind("")
            ready.setblocking(False)
            with (self.directory / "output.log").open("ab") as output:
                self.process = await asyncio.create_subprocess_exec(
                    str(PYTHON), str(LAUNCH), "--config-path", str(self.directory / "homeserver.yaml"),
                    cwd=self.directory, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    env={
                        **os.environ,
                        "STARTED_BY": str(os.getpid()),
                        # It would run git to find its version, and get this repository's.
                        "GIT_DIR": os.devnull,
                        "NOTIFY_SOCKET": "@" + ready.getsockname()[1:].decode(),
                    },
                )  # fmt: skip
            try:
                await self._listening(ready)
            except BaseException:
                await self.kill()
                raise

    async def _listening(self, ready: socket.socket) -> None:
        assert self.process is not None
        said = asyncio.ensure_future(asyncio.get_running_loop().sock_recv(ready, 256))
        ended = asyncio.ensure_future(self.process.wait())
        try:
            await asyncio.wait({said, ended}, timeout=TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
            if not (said.done() and said.result().startswith(b"READY=1")):
                raise DidNotStart(f"{self.server_name}, in {self.directory}:\n{self.tail()}")
        finally:
            for waiting in (said, ended):
                waiting.cancel()
            await asyncio.gather(said, ended, return_exceptions=True)

    async def settled(self) -> None:
        """Wait until its schema is complete: after a first start it still lacks indexes."""
        async with asyncio.timeout(TIMEOUT):
            # Nothing tells the end, so we ask again and again.
            while await self.database.pending_updates():
                await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """Stop it gracefully."""
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """Kill it at once."""
        await self._end(signal.SIGKILL)

    async def restart(self) -> None:
        """Stop it, and start it with the same data."""
        await self.stop()
        await self.start()

    async def rotate_key(self) -> None:
        """Stop it, and start it with a new signing key; the old one is published as expired."""
        await self.stop()
        file = self.directory / "signing.key"
        _, name, seed = file.read_text().split()
        public = SigningKey(base64.b64decode(seed + "=")).verify_key.encode()
        old = {"key": base64.b64encode(public).decode().rstrip("="), "expired_ts": time.time_ns() // 1_000_000}
        known = self.settings.get("old_signing_keys", {})
        self.settings = {**self.settings, "old_signing_keys": {**known, f"ed25519:{name}": old}}
        file.unlink()
        await self.start()

    async def _end(self, sign: signal.Signals) -> None:
        if self.process is None:
            return
        process, self.process = self.process, None
        if process.returncode is None:
            process.send_signal(sign)
        try:
            await asyncio.wait_for(process.wait(), TIMEOUT)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        finally:
            # Its connections are dead; the next request opens one to the process that runs then.
            await self.homeserver.close()

    async def clean_up(self) -> None:
        """Leave no process and no connection, in any case."""
        await self.kill()
        await self.database.drop()

    # Files

    def _write_files(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        key = self.directory / "signing.key"
        if not key.exists():
            seed = base64.b64encode(secrets.token_bytes(32)).decode().rstrip("=")
            key.write_text(f"ed25519 a_{secrets.token_hex(2)} {seed}\n")
        logging = configuration.logging(self.log, self.directory / "requests.log", self.log_level)
        homeserver = configuration.homeserver(
            server_name=self.server_name,
            port=self.port,
            directory=self.directory,
            trusted=self.trusted,
            certificate=self.certificate,
            private_key=self.private_key,
            database=self.database.section(),
            appservices=self.appservices,
            settings=self.settings,
        )
        # What is JSON is YAML too.
        (self.directory / "log.yaml").write_text(json.dumps(logging, indent=1))
        (self.directory / "homeserver.yaml").write_text(json.dumps(homeserver, indent=1))

    def tail(self, lines: int = 40) -> str:
        """Return the end of its output."""
        files = [self.directory / "output.log", self.log]
        return "\n".join(
            line for path in files if path.exists() for line in path.read_text("utf-8", "replace").splitlines()[-lines:]
        )

    def complaints(self, lines: int = 20) -> str:
        """Return the last log lines that are warnings or errors, without the startup messages."""
        log = self.log.read_text("utf-8", "replace").splitlines() if self.log.exists() else []
        return "\n".join([line for line in log if _COMPLAINT.match(line)][-lines:])

    # People

    async def person(self, localpart: str | None = None, *, admin: bool = False) -> MatrixClient:
        """Create a new account with a session; without a name, with a unique one."""
        name = localpart or f"person-{secrets.token_hex(4)}"
        return await (self._administrator(name) if admin else MatrixClient.register(self.homeserver, name))

    async def _administrator(self, name: str) -> MatrixClient:
        path = "/_synapse/admin/v1/register"
        nonce = (await self.homeserver.request("GET", path))["nonce"]
        said = f"{nonce}\0{name}\0secret\0admin".encode()
        mac = hmac.new(configuration.REGISTRATION_SECRET.encode(), said, hashlib.sha1).hexdigest()
        body = {"nonce": nonce, "username": name, "password": "secret", "admin": True, "mac": mac}
        return MatrixClient.from_login(self.homeserver, await self.homeserver.request("POST", path, json=body))

    # Measurements

    def requests_made(self, endpoint: str | None = None, *, to: str | None = None) -> list[RequestMade]:
        """Return all attempts at federation requests since its first start."""
        return [
            request
            for request in requests_made.read(self.directory / "requests.log")
            if endpoint in (None, request.endpoint) and to in (None, request.to)
        ]

    async def metric(self, sample: str, **labels: str) -> float:
        """Return the sum of the samples with this name and these labels since this start; 0 if there are
        none."""
        _, _, body = await self.homeserver.raw("GET", "/_synapse/metrics")
        return sum(
            found.value
            for family in text_string_to_metric_families(body.decode())
            for found in family.samples
            if found.name == sample and labels.items() <= found.labels.items()
        )

    def cpu_seconds(self) -> float:
        """Return the user and system time of the process so far."""
        # Behind the name, which may hold anything: fields 14 and 15 of proc(5), counted from field 3.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self) -> int:
        """Return the memory of the process now."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
