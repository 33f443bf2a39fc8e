"""An intake in its own process, which a test can kill, or which kills itself between its commit and its
response.

It reports on standard output, one JSON object per line, and ends at the end of its standard input.
"""

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from typing import Any

from appservice.http.app import make_listener
from appservice.http.services import EndpointServices
from appservice.intake.intake import Intake
from appservice.intake.stream import IntakeStream
from appservice.intake.transaction import Transaction
from appservice.registration.namespaces import AgentRoom, Namespaces
from federation.http.server.listener import Bind
from storage.connect import DatabaseAddress
from storage.database import Database
from tests.federation.http.running import Recorder

DEADLY = "this one kills"
"""The body of a message after whose commit the process kills itself, if the message is new."""
AGENT = "worker-1"


def report(**members: Any) -> None:
    sys.stdout.write(f"{json.dumps(members)}\n")
    sys.stdout.flush()


class KilledIntake(Intake):
    async def receive(self, transaction_id: str, transaction: Transaction) -> bool:
        is_new = await super().receive(transaction_id, transaction)
        bodies = [received.event.content.get("body") for received in transaction.events]
        report(transaction=transaction_id, is_new=is_new, bodies=bodies)
        if is_new and DEADLY in bodies:
            os.kill(os.getpid(), signal.SIGKILL)
        return is_new


class AgentDirectory:
    """One agent, and no room."""

    def __init__(self, node_id: str) -> None:
        self._agent = (AGENT, node_id)

    async def provide_agent(self, agent_id: str, node_id: str) -> bool:
        report(agent=[agent_id, node_id])
        return False

    async def provide_room(self, room: AgentRoom) -> bool:
        report(room=room.namespace)
        return False

    async def knows_agent(self, agent_id: str, node_id: str) -> bool:
        return (agent_id, node_id) == self._agent

    async def knows_room(self, room: AgentRoom) -> bool:
        return False


async def main(url: str, port: str, hs_token: str, domain: str, node_id: str) -> None:
    namespaces = Namespaces(domain, node_id, "_agent_")
    database = await Database.connect(DatabaseAddress.from_url(url), minimum=1, maximum=4)
    stream = IntakeStream(database)
    stream.start()
    intake = KilledIntake(
        "palaver",
        database,
        is_ours=namespaces.owns_user,
        publish=lambda said: report(told=type(said).__name__),
        on_events=stream.publish,
    )
    services = EndpointServices(
        hs_token, namespaces, intake, AgentDirectory(node_id), lambda pinged: report(ping=pinged)
    )
    listener = make_listener(services, [Bind("127.0.0.1")], int(port), Recorder())
    await listener.start()
    report(ready=True)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    await listener.close(1.0)
    await stream.close()
    await database.close()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(*sys.argv[1:]))
