"""Brokers on loopback: a Zenoh router, and a Redis if it is installed."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zenoh

from bridge.connectors.offices.cluster.broker_address import BrokerAddress
from tests.support.ports import lasting_port

TIMEOUT = 20.0
# Debian installs the server's program under this other name too; the server's own package would start a
# service.
REDIS = shutil.which("redis-server") or shutil.which("redis-check-rdb")


@dataclass
class ZenohRouter:
    """Can be closed and opened again on the same port."""

    port: int
    _session: Any = None

    @property
    def address(self) -> BrokerAddress:
        return BrokerAddress("zenoh", f"tcp/127.0.0.1:{self.port}")

    async def open(self) -> None:
        configured = zenoh.Config()
        for name, value in (
            ("mode", "router"),
            ("listen/endpoints", [f"tcp/127.0.0.1:{self.port}"]),
            ("connect/endpoints", []),
            ("scouting/multicast/enabled", False),
            ("scouting/gossip/enabled", False),
        ):
            configured.insert_json5(name, json.dumps(value))
        self._session = await asyncio.to_thread(zenoh.open, configured)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await asyncio.to_thread(session.close)


@asynccontextmanager
async def zenoh_router() -> AsyncIterator[ZenohRouter]:
    router = ZenohRouter(lasting_port())
    await router.open()
    try:
        yield router
    finally:
        await router.close()


@dataclass
class RedisServer:
    port: int
    directory: Path
    password: str
    _process: asyncio.subprocess.Process | None = None

    @property
    def address(self) -> BrokerAddress:
        return BrokerAddress("redis", f"redis://127.0.0.1:{self.port}/0", self.password)

    async def open(self) -> None:
        assert REDIS is not None, "the fixture has checked it"
        # It listens on loopback only and stores nothing.
        arguments = [
            "--bind", "127.0.0.1", "--port", str(self.port), "--requirepass", self.password, "--save", "",
            "--appendonly", "no", "--dir", str(self.directory), "--daemonize", "no",
        ]  # fmt: skip
        self._process = await asyncio.create_subprocess_exec(
            "redis-server", *arguments, executable=REDIS, stdout=asyncio.subprocess.DEVNULL
        )
        async with asyncio.timeout(TIMEOUT):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                except OSError:
                    await asyncio.sleep(0.02)
                else:
                    writer.close()
                    return

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def redis_server(password: str = "a secret of the broker") -> AsyncIterator[RedisServer]:
    if REDIS is None:
        pytest.skip("Redis is not installed: sudo apt-get install redis-tools")
    directory = Path(tempfile.mkdtemp(prefix="palaver-redis-"))
    server = RedisServer(lasting_port(), directory, password)
    await server.open()
    try:
        yield server
    finally:
        await server.close()
        shutil.rmtree(directory, ignore_errors=True)
