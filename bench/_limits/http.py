"""HTTP: the throughput of one aiohttp process, on either event loop, plain and over TLS."""

import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench._harness.child import child, python_module
from bench._harness.http_load import HttpLoad, Request, http_load
from bench._harness.machine import processors
from bench._harness.measurement import Measurement
from bench._harness.row import Row, Section, Side
from bench._limits.certificate import write_certificate

CONNECTIONS = 32
# An EDU of the smallest kind in its transaction: 220 bytes.
_PADDING = "0123456789" * 22
BODY = json.dumps({"edus": [], "origin": "kitchen.local", "pdus": [], "padding": ""}).encode()
BODY = BODY.replace(b'"padding": ""', b'"padding": "' + _PADDING[: 220 - len(BODY)].encode() + b'"')

_UVLOOP, _ASYNCIO, _TLS = "aiohttp on uvloop", "aiohttp on asyncio", "TLS"
_START_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Servers:
    """One load generator, and the ports of three servers."""

    load: HttpLoad
    uvloop: int
    asyncio: int
    tls: int
    trust: Path


@asynccontextmanager
async def servers() -> AsyncIterator[Servers]:
    """All of them in separate processes; only the one being measured has work."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        certificate, key = write_certificate(directory)

        async def started(loop: str, *files: Path) -> int:
            command = python_module("bench._limits.web_server", loop, *map(str, files))
            server = await stack.enter_async_context(child(f"the web server on {loop}", *command, cpu=processors()[0]))
            port: int = json.loads(await server.line(_START_SECONDS))["port"]
            return port

        yield Servers(
            load=await stack.enter_async_context(http_load()),
            uvloop=await started("uvloop"),
            asyncio=await started("asyncio"),
            tls=await started("uvloop", certificate, key),
            trust=certificate,
        )


def get(port: int, trust: Path | None = None) -> Request:
    """The small GET."""
    return Request(port=port, target="/version", trust=trust)


def put(port: int) -> Request:
    """The small PUT."""
    return Request(port=port, method="PUT", target="/send/1", body=BODY, headers={"Content-Type": "application/json"})


async def _measure(subject: Servers, request: Request, seconds: float) -> Measurement:
    return await subject.load.measure(request, connections=CONNECTIONS, seconds=seconds)


async def get_from_uvloop(subject: Servers, seconds: float) -> Measurement:
    """As Palaver serves."""
    return await _measure(subject, get(subject.uvloop), seconds)


async def get_from_asyncio(subject: Servers, seconds: float) -> Measurement:
    """As Palaver would serve without uvloop."""
    return await _measure(subject, get(subject.asyncio), seconds)


async def get_over_tls(subject: Servers, seconds: float) -> Measurement:
    """On uvloop, after the handshakes."""
    return await _measure(subject, get(subject.tls, subject.trust), seconds)


async def put_to_uvloop(subject: Servers, seconds: float) -> Measurement:
    """As Palaver receives."""
    return await _measure(subject, put(subject.uvloop), seconds)


async def put_to_asyncio(subject: Servers, seconds: float) -> Measurement:
    """As Palaver would receive without uvloop."""
    return await _measure(subject, put(subject.asyncio), seconds)


def remarks(subject: Servers) -> list[str]:
    """Return which processes share a CPU."""
    where = "has a CPU of its own" if len(processors()) > 1 else "shares its CPU"
    return [f"HTTP: one process serves, the load generator {where}."]


SECTION = Section(
    setup=servers,
    remarks=remarks,
    rows=[
        Row(
            name="http-get",
            what=f"GET small JSON, {CONNECTIONS} connections",
            ours=Side(_UVLOOP, get_from_uvloop),
            other=Side(_ASYNCIO, get_from_asyncio),
        ),
        Row(
            name="http-put",
            what=f"PUT {len(BODY)} B, {CONNECTIONS} connections",
            ours=Side(_UVLOOP, put_to_uvloop),
            other=Side(_ASYNCIO, put_to_asyncio),
        ),
        Row(
            name="http-tls",
            what="GET small JSON",
            ours=Side(_TLS, get_over_tls),
            other=Side("plain", get_from_uvloop),
            # Between nodes TLS is not a choice; the row shows its price.
            counts=False,
        ),
    ],
)
