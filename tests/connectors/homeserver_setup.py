"""A node that is a homeserver, and another homeserver with people."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import HomeserverGhostNames
from federation.transactions.edus import ToDevice
from federation.transactions.outgoing_edus import to_device
from tests.connectors.remote_homeserver import RemoteHomeserver
from tests.connectors.setup import BackendSetup
from tests.connectors.stream_recorder import StreamRecorder
from tests.federation.local_users.homes import homes, homeserver_without_port
from tests.support.driven_node.walking import Person
from tests.support.postgres import Server, pool_on

HERE, THERE = "here.test", "there.test"


@contextlib.asynccontextmanager
async def homeserver_setup(server: Server, template: str) -> AsyncIterator[BackendSetup]:
    async with homes(server, template) as running, AsyncExitStack() as stack:
        here, there = await running.start(HERE, THERE)
        remote_server = RemoteHomeserver(there)
        recorder = StreamRecorder(here.rooms, here.database)
        for reading in (remote_server.look(), recorder.read()):
            stack.push_async_callback(ended, asyncio.create_task(reading))

        @contextlib.asynccontextmanager
        async def again() -> AsyncIterator[MatrixBackend]:
            async with (
                pool_on(here.database.address) as database,
                homeserver_without_port(HERE, database, running.addresses, here.media) as other,
            ):
                yield other.rooms

        async def send_to_device(person: Person, user: str, content: Mapping[str, Any]) -> None:
            message = ToDevice(person.user_id, "m.x", secrets.token_hex(8), {user: {"*": dict(content)}})
            async with there.database.transaction() as connection:
                await there.homeserver.outbox.queue_edu(connection, [HERE], to_device(message))

        async def encrypt(person: Person, room_id: str) -> None:
            # No local user could set it. Here a client of another server has.
            await there.graph.send_event(
                room_id, "m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"}, person.user_id, ""
            )

        yield BackendSetup(
            side=here.rooms,
            database=here.database,
            recorder=recorder,
            differences=frozenset(),
            localpart=lambda name: name,
            alias_localpart=lambda name: name,
            make_person=remote_server.person,
            again=again,
            send_to_device=send_to_device,
            names=HomeserverGhostNames(HERE),
            encrypt=encrypt,
        )


async def ended(work: "asyncio.Task[None]") -> None:
    """Raises what ended it."""
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work
