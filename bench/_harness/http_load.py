"""Requests per second against an HTTP server, generated in a separate process."""

import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench._harness.child import Child, ChildError, child, python_module
from bench._harness.machine import processors
from bench._harness.measurement import Measurement, rate
from bench._harness.ports import LOOPBACK

# Beyond the time measured: connecting, shaking hands and the last answers.
_SPARE_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request that every connection repeats; with `trust`, a certificate's file, over TLS."""

    port: int
    method: str = "GET"
    target: str = "/"
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    trust: Path | None = None

    @property
    def bytes(self) -> bytes:
        """The request in wire format."""
        headers = {"Host": f"{LOOPBACK}:{self.port}", **self.headers}
        if self.body:
            headers["Content-Length"] = str(len(self.body))
        lines = [f"{self.method} {self.target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode("ascii") + self.body


class HttpLoad:
    """A load generator that waits for work."""

    def __init__(self, generator: Child) -> None:
        self._generator = generator

    async def measure(self, request: Request, *, connections: int, seconds: float) -> Measurement:
        """Keep this many connections busy, with one request in flight on each; every response must be a
        2xx."""
        work = {
            "port": request.port,
            "trust": None if request.trust is None else str(request.trust),
            "request": base64.b64encode(request.bytes).decode(),
            "connections": connections,
            "seconds": seconds,
        }
        answer = json.loads(await self._generator.ask(json.dumps(work), seconds + _SPARE_SECONDS))
        if "error" in answer:
            raise ChildError(f"{self._generator.name} gave up: {answer['error']}")
        return rate(answer["operations"], answer["seconds"])


@asynccontextmanager
async def http_load() -> AsyncIterator[HttpLoad]:
    """Run a load generator during the block, on the last CPU; a measured server gets the first one."""
    command = python_module("bench._harness.http_load_generator")
    async with child("the load generator", *command, cpu=processors()[-1]) as generator:
        yield HttpLoad(generator)
