"""A real Synapse with the node's registration: transactions, queries and pings."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from appservice.homeserver.client import HomeserverClient
from appservice.intake.stream import IntakeStream
from appservice.people.ghosts import GhostUsers
from appservice.registration.namespaces import Namespaces
from appservice.registration.registration import Registration, RegistrationSettings
from appservice.registration.run_check import check_homeserver
from bridge.node.registration import new_secrets, write
from federation.events.room_event import StreamedEvent
from storage.connect import DatabaseAddress
from storage.database import Database
from tests.support.intake_program import AGENT, DEADLY
from tests.support.matrix_client.homeserver import Refused
from tests.support.ports import lasting_port
from tests.support.synapse import Synapse
from tests.support.synapse.fixtures import SynapseFactory

pytestmark = pytest.mark.interop
TIMEOUT = 120.0
NODE = "kitchen.local"
GHOST = f"_agent_{AGENT}"
COUNT = 20
ROOT = Path(__file__).parents[2]


class Process:
    """The intake as a process, and its reports so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.said: list[dict[str, Any]] = []

    async def until(self, found: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Wait for a report, past or future."""
        for one in self.said:
            if found(one):
                return one
        assert self._process.stdout is not None
        async with asyncio.timeout(TIMEOUT):
            while line := await self._process.stdout.readline():
                self.said.append(json.loads(line))
                if found(self.said[-1]):
                    return self.said[-1]
        raise AssertionError(f"it ended after {self.said[-5:]}")

    async def ended(self) -> int:
        assert self._process.stdout is not None
        async with asyncio.timeout(TIMEOUT):
            while line := await self._process.stdout.readline():
                self.said.append(json.loads(line))
            return await self._process.wait()


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.intake_program", *arguments,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    try:
        started = Process(process)
        await started.until(lambda said: "ready" in said)
        yield started
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


class Appservice:
    """Requests of an application service to its homeserver, with the token of the registration."""

    def __init__(self, synapse: Synapse, registration: Registration) -> None:
        self._synapse = synapse
        self._registration = registration
        self._token = registration.secrets.as_token
        self.ghost = f"@{GHOST}:{synapse.server_name}"

    async def ask(self, method: str, path: str, json: Any = None, **query: str) -> dict[str, Any]:
        return await self._synapse.homeserver.request(
            method, f"/_matrix/client/{path}", token=self._token, query=query, json=json
        )

    async def ping(self, transaction_id: str) -> dict[str, Any]:
        """Ping again if Synapse reused a connection to the previous process."""
        body = {"transaction_id": transaction_id}
        with suppress(Refused):
            return await self.ask("POST", "v1/appservice/palaver/ping", body)
        return await self.ask("POST", "v1/appservice/palaver/ping", body)

    async def checked(
        self, registration: Registration, wanted: RegistrationSettings, *, is_reached: bool = True
    ) -> str | None:
        """Return the operator's report. `is_reached`: the process has received the ping."""
        connector = aiohttp.TCPConnector(ssl=self._synapse.homeserver._tls)
        async with aiohttp.ClientSession(connector=connector) as session:
            return await check_homeserver(session, self._synapse.url, registration, wanted, lambda _: is_reached)

    async def register_ghost(self, database: Database, namespaces: Namespaces) -> None:
        """Register a ghost twice, the second time in a process that does not know the first."""
        connector = aiohttp.TCPConnector(ssl=self._synapse.homeserver._tls)
        async with aiohttp.ClientSession(connector=connector) as session:
            client = HomeserverClient(session, self._synapse.url, self._token)
            for _ in range(2):
                ghosts = GhostUsers(client, namespaces, database, now_ms=lambda: 1)
                await ghosts.ensure_user(self.ghost)
                assert await ghosts.is_registered(self.ghost)
                await ghosts.close()
                async with database.transaction() as connection:
                    await connection.execute("DELETE FROM users")

    async def join(self, room_id: str) -> None:
        await self.ask("POST", f"v3/join/{room_id}", {}, user_id=self.ghost)


async def heard(stream: IntakeStream, last: str) -> list[StreamedEvent]:
    """Return the entries of the stream up to the message with this text."""
    entries: list[StreamedEvent] = []
    position = 0
    async with asyncio.timeout(TIMEOUT):
        while not entries or entries[-1].event.content.get("body") != last:
            entries += await stream.reader(position).next(1)
            position = entries[-1].position
    return entries


async def test_messages_reach_the_intake_once_and_in_order(
    make_synapse: SynapseFactory, database: Database, database_address: DatabaseAddress, tmp_path: Path
) -> None:
    """Also when the intake is killed between its commit and its response: Synapse sends the transaction
    again, without a second effect. A ping makes Synapse send queued transactions at once. The node's names
    are reserved, its users and rooms are found, and each operator mistake has its own error."""
    synapse = await make_synapse(start=False)
    port = lasting_port()
    wanted = RegistrationSettings(
        "palaver", f"http://127.0.0.1:{port}", Namespaces(synapse.server_name, NODE, "_agent_")
    )
    file = tmp_path / "registration.yaml"
    registration = write(file, wanted)
    synapse.appservices = [file]
    await synapse.start()
    await synapse.settled()
    ours = Appservice(synapse, registration)
    arguments = (
        database_address.url, str(port), registration.secrets.hs_token, synapse.server_name, NODE,
    )  # fmt: skip
    async with AsyncExitStack() as stack:
        stream = IntakeStream(database)
        stream.start()
        stack.push_async_callback(stream.close)

        unreachable = await ours.checked(registration, wanted, is_reached=False)
        assert "cannot reach this node" in (unreachable or "")
        edited = replace(registration, secrets=new_secrets())
        assert "does not know the as_token" in (await ours.checked(edited, wanted) or "")
        elsewhere = replace(wanted, namespaces=replace(wanted.namespaces, domain="other.server"))
        assert f"server name is {synapse.server_name}" in (await ours.checked(registration, elsewhere) or "")
        async with running(*arguments[:2], "another token", *arguments[3:]):
            refused = await ours.checked(registration, wanted, is_reached=False)
            assert "refuses the homeserver's request (status 403)" in (refused or "")
        first = await stack.enter_async_context(running(*arguments))
        answer = await ours.ping("meow")
        assert isinstance(answer["duration_ms"], int)
        assert await first.until(lambda said: "ping" in said) == {"ping": "meow"}
        assert await ours.checked(registration, wanted) is None

        alice = await synapse.person()
        with pytest.raises(Refused) as exclusive:
            await alice.create_room(alias="agents-mine")
        assert exclusive.value.errcode == "M_EXCLUSIVE"
        with pytest.raises(Refused) as unknown:
            await alice.join(f"#agents-nothing:{synapse.server_name}")
        assert unknown.value.errcode == "M_NOT_FOUND"
        await first.until(lambda said: said.get("room") == "nothing")
        protocols = await alice.call("GET", "v3/thirdparty/protocols")
        assert protocols["agents"]["instances"][0]["desc"] == f"Agents of {NODE}"

        await ours.register_ghost(database, wanted.namespaces)
        room_id = await alice.create_room(name="Kitchen", invite=[ours.ghost])
        await ours.join(room_id)
        await alice.typing(room_id)
        await first.until(lambda said: said.get("told") == "TypingUsers")
        for number in range(COUNT):
            await alice.say(room_id, str(number))
        await alice.say(room_id, DEADLY)
        assert await first.ended() < 0
        await alice.say(room_id, "after")

        second = await stack.enter_async_context(running(*arguments))
        await ours.ping("back")
        again = await second.until(lambda said: DEADLY in said.get("bodies", ()))
        assert again["is_new"] is False
        dead = next(said for said in first.said if DEADLY in said.get("bodies", ()))
        assert (dead["transaction"], dead["is_new"]) == (again["transaction"], True)

        entries = await heard(stream, "after")
        said = [entry.event for entry in entries if entry.event.type == "m.room.message"]
        assert [event.content["body"] for event in said] == [*map(str, range(COUNT)), DEADLY, "after"]
        assert {event.sender for event in said} == {alice.user_id}
        ids = [entry.event.event_id for entry in entries]
        assert len(ids) == len(set(ids))
        joined = [
            (entry.kind, entry.event.content["membership"]) for entry in entries if entry.event.state_key == ours.ghost
        ]
        # The invite was answered, so it is not in the response any more.
        assert joined == [("timeline", "join")]
