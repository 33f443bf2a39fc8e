"""The round-trip time to another process: over Zenoh, and over a node's Postgres."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import zenoh

from bench._harness.child import child, python_module
from bench._harness.database import Database, database
from bench._harness.measurement import Measurement
from bench._harness.ports import LOOPBACK, free_port
from bench._harness.repeat import round_trips
from bench._harness.row import Row, Section, Side, Unit
from bench._limits.notify_peer import NotifyPeer, notify_peer
from bench._limits.zenoh_peer import ZenohPeer, configuration

_PAYLOAD = "m" * 64
_START_SECONDS = 20.0
# Neither side repeats what it lost; a round that waits for a lost word fails instead of hanging.
_SPARE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Peers:
    """The local ends; each remote end is a child process."""

    zenoh: ZenohPeer
    notify: NotifyPeer


@asynccontextmanager
async def peers() -> AsyncIterator[Peers]:
    """Use a new database."""
    async with database() as served, meeting_in(served) as subject:
        yield subject


@asynccontextmanager
async def meeting_in(served: Database) -> AsyncIterator[Peers]:
    """Connect both pairs."""
    async with AsyncExitStack() as stack:

        async def start_echo(kind: str, where: str) -> None:
            command = python_module("bench._limits.echo", kind, where)
            echo = await stack.enter_async_context(child(f"the {kind} echo", *command))
            await echo.line(_START_SECONDS)

        endpoint = f"tcp/{LOOPBACK}:{free_port()}"
        await start_echo("zenoh", endpoint)
        await start_echo("postgres", served.address)
        session = stack.enter_context(zenoh.open(configuration(connect=endpoint)))
        over_zenoh = ZenohPeer(session)
        await over_zenoh.until_connected()
        yield Peers(over_zenoh, await stack.enter_async_context(notify_peer(served.address)))


async def over_zenoh(subject: Peers, seconds: float) -> Measurement:
    """Put, and receive the echo."""
    async with asyncio.timeout(seconds + _SPARE_SECONDS):
        return await round_trips(seconds, partial(subject.zenoh.round_trip, _PAYLOAD.encode()))


async def over_notify(subject: Peers, seconds: float) -> Measurement:
    """Notify, and receive the echo."""
    async with asyncio.timeout(seconds + _SPARE_SECONDS):
        return await round_trips(seconds, partial(subject.notify.round_trip, _PAYLOAD))


SECTION = Section(
    setup=peers,
    rows=[
        Row(
            name="round-trip",
            what=f"{len(_PAYLOAD)} B to another process and back",
            unit=Unit.MILLISECONDS,
            ours=Side("Zenoh", over_zenoh),
            other=Side("Postgres NOTIFY", over_notify),
            # Not a choice: ezagent's peers speak Zenoh, the processes of one node share a Postgres.
            counts=False,
        )
    ],
)
