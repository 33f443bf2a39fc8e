"""Sending to rooms of a real Synapse, once and in order, despite faults."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from mautrix.api import Method

from appservice.homeserver.api import HomeserverUnavailable
from appservice.registration.check import ping_path
from federation.matrix.errors import MatrixError
from federation.matrix.message_content import in_thread, text
from storage.database import Database
from tests.interop.appservice_backend import Side, invited_to, side_on
from tests.support.synapse.fixtures import SynapseFactory

pytestmark = pytest.mark.interop
TIMEOUT = 120.0
MESSAGE = "m.room.message"


@dataclass
class Link:
    """The connection to the homeserver. While it `loses` responses to sends, the connection breaks when one
    arrives."""

    to_port: int
    loses: bool = False
    lost: int = 0
    port: int = 0
    _serving: set[asyncio.Task[None]] = field(default_factory=set)

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Link"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in self._serving:
                task.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)
            # Of a connection that was broken off the loop learns in its next turn.
            await asyncio.sleep(0)
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            with contextlib.suppress(OSError):
                there, onwards = await asyncio.open_connection("127.0.0.1", self.to_port)
                try:
                    await self._carry(reader, onwards, there, writer)
                finally:
                    onwards.transport.abort()
        finally:
            writer.transport.abort()

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        onwards: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        back: asyncio.StreamWriter,
    ) -> None:
        sends = False

        async def requests() -> None:
            nonlocal sends
            while data := await reader.read(65_536):
                sends = data.startswith(b"PUT ") and b"/send/" in data.partition(b"\r\n")[0]
                onwards.write(data)

        asking = asyncio.create_task(requests())
        try:
            while data := await there.read(65_536):
                if sends and self.loses:
                    self.lost += 1
                    return
                back.write(data)
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)


async def until_sent(side: Side, room_id: str, user: str, body: str, transaction_id: str) -> str:
    """Retry until it is confirmed, as the code above the backend does."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            try:
                return await side.say(room_id, user, body, transaction_id=transaction_id)
            except HomeserverUnavailable:
                # The next one waits until the homeserver is seen to be there.
                await asyncio.sleep(0.05)


async def said(side: Side, room_id: str) -> list[str]:
    """Return the bodies of all messages, oldest first."""
    found: list[str] = []
    start = None
    while True:
        page = await side.rooms.messages(room_id, start=start, limit=100)
        found += [event.content["body"] for event in page.events if event.type == MESSAGE]
        if page.next is None:
            return found[::-1]
        start = page.next


async def test_each_event_is_sent_once_and_in_order(
    make_synapse: SynapseFactory, database: Database, tmp_path: Path
) -> None:
    """Responses are lost, the process loses its memory, and the homeserver is killed and forgets its clients'
    transaction ids; the intake has not received the events."""
    synapse = await make_synapse(start=False)
    invited = await invited_to(synapse, tmp_path)
    to_port = urlsplit(invited.url).port
    assert to_port is not None
    async with Link(to_port).open() as link:
        behind = replace(invited, url=f"http://127.0.0.1:{link.port}")
        async with side_on(behind, database, listens=False) as side:
            cook = await side.user("cook")
            room_id = await side.room(cook)
            assert await until_sent(side, room_id, cook, "0", "0")
            link.loses = True
            for n in (1, 2, 3):
                with pytest.raises(HomeserverUnavailable):
                    await side.say(room_id, cook, f"{n}", transaction_id=f"{n}")
                link.loses = n < 3
            assert link.lost >= 3
        # Its memory is lost with it. Synapse's is, too.
        await synapse.kill()
        await synapse.start()
        async with side_on(behind, database, listens=False) as side:
            for n in (1, 2, 3, 4):
                await until_sent(side, room_id, cook, f"{n}", f"{n}")
            assert await said(side, room_id) == ["0", "1", "2", "3", "4"]
        # Now the homeserver sends the events, except those that it lost when it was killed.
        async with side_on(behind, database) as side:
            last = await until_sent(side, room_id, cook, "5", "5")
            await side.appservice.client.request(Method.POST, ping_path(invited.registration))
            async with asyncio.timeout(TIMEOUT):
                while not await side.appservice.known_rooms.knows_event(last):
                    await asyncio.sleep(0.05)
        await synapse.kill()
        await synapse.start()
        async with side_on(behind, database) as side:
            for n in range(7):
                await until_sent(side, room_id, cook, f"{n}", f"{n}")
            assert await said(side, room_id) == ["0", "1", "2", "3", "4", "5", "6"]


async def test_many_ghosts_send_at_once(make_synapse: SynapseFactory, database: Database, tmp_path: Path) -> None:
    """Five ghosts send two hundred messages, in threads and outside of them; some responses are lost, and
    Synapse is restarted in between."""
    synapse = await make_synapse(start=False)
    invited = await invited_to(synapse, tmp_path)
    to_port = urlsplit(invited.url).port
    assert to_port is not None
    async with (
        Link(to_port).open() as link,
        side_on(replace(invited, url=f"http://127.0.0.1:{link.port}"), database) as side,
    ):
        ghosts = [await side.user(f"cook-{n}") for n in range(5)]
        room_id = await side.room(ghosts[0])
        for ghost in ghosts[1:]:
            await side.rooms.join(room_id, ghost)
        root = await side.say(room_id, ghosts[0], "root")

        async def speaks(ghost: str, n: int) -> None:
            body = f"{ghost} {n}"
            content = in_thread(root, text(body)) if n % 2 else text(body)
            async with asyncio.timeout(TIMEOUT):
                while True:
                    try:
                        await side.rooms.send(room_id, ghost, MESSAGE, content, transaction_id=f"{n}")
                        return
                    except HomeserverUnavailable:
                        await asyncio.sleep(0.05)

        async def troubles() -> None:
            while len(side.observed.asked_for) < 60:
                await asyncio.sleep(0.01)
            link.loses = True
            while link.lost < 5:
                await asyncio.sleep(0.01)
            link.loses = False
            await synapse.kill()
            await synapse.start()

        async with asyncio.TaskGroup() as group:
            group.create_task(troubles())
            for ghost in ghosts:
                for n in range(40):
                    group.create_task(speaks(ghost, n))
        counted = Counter(await said(side, room_id))
        wanted = {f"{ghost} {n}" for ghost in ghosts for n in range(40)} | {"root"}
        assert (set(counted), set(counted.values())) == (wanted, {1})
        assert link.lost >= 5


async def test_errors_of_synapse_are_those_of_the_homeserver(
    make_synapse: SynapseFactory, database: Database, tmp_path: Path
) -> None:
    """For large messages, missing rooms and events, and missing power. A timestamp in the event is
    accepted."""
    synapse = await make_synapse(start=False)
    async with side_on(await invited_to(synapse, tmp_path), database) as side:
        cook, baker = await side.user("cook"), await side.user("baker")
        room_id = await side.room(cook)
        send, message = side.rooms.send, text("x")
        unknown = f"!no:{synapse.server_name}"
        for refused, code in (
            (send(room_id, baker, MESSAGE, message), "403 M_FORBIDDEN"),
            (send(unknown, cook, MESSAGE, message), "404 M_NOT_FOUND"),
            (send(room_id, cook, MESSAGE, text("x" * 70_000)), "400 M_BAD_JSON"),
            (side.rooms.set_state(room_id, baker, "io.x", {}), "403 M_FORBIDDEN"),
            (side.rooms.set_state(unknown, cook, "io.x", {}), "404 M_NOT_FOUND"),
            (side.rooms.redact(room_id, cook, "$unknown"), "404 M_NOT_FOUND"),
            (side.rooms.join(unknown, cook), "404 M_NOT_FOUND"),
            (side.rooms.invite(room_id, cook, f"@nobody:{synapse.server_name}"), "404 M_NOT_FOUND"),
            (side.rooms.kick(room_id, baker, cook), "403 M_FORBIDDEN"),
        ):
            with pytest.raises(MatrixError, match=code):
                await refused
        event_id = await side.say(room_id, cook, "ü\0", ts=1_600_000_000_000)
        event = await side.rooms.event(room_id, event_id)
        assert event is not None
        assert (event.content["body"], event.origin_server_ts) == ("ü\0", 1_600_000_000_000)


def odd_contents() -> list[dict[str, Any]]:
    """Contents that an agent might produce."""
    deep: Any = "x"
    for _ in range(200):
        deep = {"x": deep}
    odd: list[Any] = [5, None, True, [], {}, "x\0y", [[5]], {"event_id": 5}, deep]
    named = ["body", "msgtype", "m.relates_to", "m.mentions", "m.new_content", "info", "a\0b", "", "url"]
    relations = [
        {"rel_type": kind, "event_id": event_id, "key": key}
        for kind in ("m.thread", "m.annotation", "m.replace", 5, None)
        for event_id in ("$unknown", 5, None, "x")
        for key in ("👍" * 300, "\0", 5)
    ]
    contents = [{"msgtype": "m.text", "body": "x", name: value} for name in named for value in odd]
    contents += [{"msgtype": "m.text", "body": "x", "m.relates_to": relation} for relation in relations]
    contents.append({str(n): n for n in range(5_000)})
    return contents


async def test_odd_content_is_not_taken_for_an_outage(
    make_synapse: SynapseFactory, database: Database, tmp_path: Path
) -> None:
    """It would be retried without end and block all later events. Each is sent or refused."""
    synapse = await make_synapse(start=False)
    async with side_on(await invited_to(synapse, tmp_path), database) as side:
        cook = await side.user("cook")
        room_id = await side.room(cook)
        contents = odd_contents()
        ended: Counter[str] = Counter()

        async def sent(type_: str, content: dict[str, Any]) -> None:
            try:
                await side.rooms.send(room_id, cook, type_, content)
                ended["sent"] += 1
            except MatrixError as refused:
                ended[refused.errcode] += 1

        async with asyncio.TaskGroup() as group:
            for type_ in (MESSAGE, "m.reaction"):
                for content in contents:
                    group.create_task(sent(type_, content))
        assert ended.total() == 2 * len(contents)
        assert ended["sent"] > 0
        for type_ in ("m.room.name", "m.room.topic", "m.room.power_levels", "m.room.join_rules", "io.x"):
            for value in odd_contents()[:40]:
                with contextlib.suppress(MatrixError):
                    await side.rooms.set_state(room_id, cook, type_, value, "x\ty")
        assert "away" not in {outcome for _, _, outcome in side.observed.asked_for}
