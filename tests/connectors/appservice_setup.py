"""A node attached to a real Synapse, with people who have accounts there."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import AppserviceGhostNames
from tests.connectors.backend_differences import Difference
from tests.connectors.homeserver_setup import ended
from tests.connectors.setup import BackendSetup
from tests.connectors.stream_recorder import StreamRecorder
from tests.interop.appservice_backend import invited_to, side_on
from tests.support.matrix_client import MatrixClient
from tests.support.postgres import Server, pool_on
from tests.support.synapse.fixtures import SynapseFactory
from tests.support.tls import Authority

TO_DEVICES = {"msc2409_to_device_messages_enabled": True}
"""Otherwise a Synapse tells no application service what is sent to devices."""


@contextlib.asynccontextmanager
async def appservice_setup(
    server: Server, template: str, authority: Authority, directory: Path
) -> AsyncIterator[BackendSetup]:
    factory = SynapseFactory(directory / "synapses", authority)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(factory.clean_up)
        address = await server.create(template)
        stack.push_async_callback(server.drop, address)
        database = await stack.enter_async_context(pool_on(address))
        synapse = await factory(start=False)
        invited = await invited_to(synapse, directory, experimental_features=TO_DEVICES)
        side = await stack.enter_async_context(side_on(invited, database))
        recorder = StreamRecorder(side.rooms, database)
        stack.push_async_callback(ended, asyncio.create_task(recorder.read()))

        @contextlib.asynccontextmanager
        async def again() -> AsyncIterator[MatrixBackend]:
            # The homeserver keeps pushing to the process that has the port.
            async with pool_on(address) as pool, side_on(invited, pool, listens=False) as other:
                yield other.rooms

        having: set[str] = set()

        async def send_to_device(person: MatrixClient, user: str, content: Mapping[str, Any]) -> None:
            if user not in having:
                login = {"type": "m.login.application_service", "identifier": {"type": "m.id.user", "user": user}}
                token = invited.registration.secrets.as_token
                await synapse.homeserver.request("POST", "/_matrix/client/v3/login", token=token, json=login)
                having.add(user)
            messages = {"messages": {user: {"*": dict(content)}}}
            await person.call("PUT", "v3/sendToDevice/m.x/{}", secrets.token_hex(8), json=messages)

        async def encrypt(person: MatrixClient, room_id: str) -> None:
            await person.set_state(room_id, "m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"})

        yield BackendSetup(
            side=side.rooms,
            database=database,
            recorder=recorder,
            differences=frozenset(Difference),
            localpart=lambda name: f"_agent_{name}",
            alias_localpart=lambda name: f"agents-{name}",
            make_person=synapse.person,
            again=again,
            send_to_device=send_to_device,
            names=AppserviceGhostNames(invited.wanted.namespaces),
            encrypt=encrypt,
        )
