"""The process that loads both servers: it simulates servers, sends events, and watches what can be read.

`python -m bench._federation.load_generator SETTINGS`: reports that it is ready, then answers each line of
JSON with one line. The events are created and signed before the measurement.
"""

import asyncio
import dataclasses
import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

import uvloop

from bench._federation.measured import Measured, MeasuredNode, MeasuredSynapse, NodeSettings, SynapseSettings
from bench._federation.pace import Pace
from bench._federation.played_room import PlayedRoom
from bench._federation.played_server import PlayedServer, now_ms
from bench._harness.lifeline import lines_from_parent, tell_parent
from federation.events import EventId, Pdu
from federation.matrix.room_version import ROOM_VERSIONS

VERSION = ROOM_VERSIONS["11"]
ROOMS = 40
# The number of concurrent joins, which are not measured.
JOINING_AT_ONCE = 4
# Seconds that a server may take over what it has been sent.
TIMEOUT = 60.0
# Seconds that a server is watched which is sent more than it can work off.
WATCHED_LONGER = 20.0


class LoadGenerator:
    """`servers` are simulated, `measured` are measured. A load has at most `most_rooms` rooms."""

    def __init__(
        self,
        servers: Sequence[PlayedServer],
        rooms: dict[str, PlayedRoom],
        measured: Mapping[str, Measured],
        most_rooms: int = ROOMS,
    ) -> None:
        self._servers = servers
        self._rooms = rooms
        self._measured = measured
        self._most_rooms = most_rooms
        self._numbers = itertools.count()
        # The rooms of the load, which each measured server joins once.
        self._joined: dict[str, list[PlayedRoom]] = {}

    async def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        """Execute the command of a line."""
        measured = self._measured[command.pop("measured")]
        match command.pop("do"):
            case "load":
                return await self._load(measured, **command)
            case "latency":
                return await self._latency(measured, **command)
            case "join":
                return await self._join(measured, **command)
            case "flow":
                return await self._flow(measured, **command)
            case other:
                raise AssertionError(f"unknown command {other}")

    # -- what it measures --

    async def _load(
        self, measured: Measured, *, rooms: int, origins: int, seconds: float, events: int
    ) -> dict[str, Any]:
        """Send for this long, as fast as the pace allows, and wait until all events can be read."""
        chosen = (await self._rooms_of(measured))[:rooms]
        senders = self._servers[:origins]
        waiting = {
            room.room_id: _messages(room, senders[number % origins], events // rooms)
            for number, room in enumerate(chosen)
        }
        sends = {
            server: {room.room_id for number, room in enumerate(chosen) if number % origins == place}
            for place, server in enumerate(senders)
        }
        pace = Pace(waiting)
        moved = asyncio.Event()
        before = measured.cpu_seconds()
        began = last = perf_counter()

        async def send(server: PlayedServer, room_ids: set[str]) -> int:
            sent = 0
            while perf_counter() < began + seconds and pace.is_left(room_ids):
                transaction = pace.next_transaction(room_ids)
                if transaction:
                    await server.send(measured.server_name, transaction)
                    sent += len(transaction)
                else:
                    moved.clear()
                    await moved.wait()
            return sent

        async def read() -> None:
            nonlocal last
            while True:
                if pace.seen(await measured.read(at_leisure=True)):
                    last = perf_counter()
                    moved.set()

        async with asyncio.timeout(seconds + TIMEOUT), asyncio.TaskGroup() as group:
            reading = group.create_task(read())
            sending = [group.create_task(send(server, room_ids)) for server, room_ids in sends.items()]
            sent = sum([await one for one in sending])
            while pace.on_their_way:
                moved.clear()
                await moved.wait()
            reading.cancel()
        after = measured.cpu_seconds()
        for room in chosen:
            room.take_back(pace.left_over()[room.room_id])
        return {
            "events": sent,
            "seconds": last - began,
            "server_cpu": after[0] - before[0],
            "postgres_cpu": after[1] - before[1],
        }

    async def _latency(self, measured: Measured, *, rate: float, seconds: float) -> dict[str, Any]:
        """Send single events with pauses: from sending each until it can be read."""
        room = (await self._rooms_of(measured))[0]
        server = self._servers[0]
        pdus = _messages(room, server, max(1, round(rate * seconds)))
        sent: dict[EventId, float] = {}
        taken: dict[EventId, float] = {}

        async def read() -> None:
            while len(taken) < len(pdus):
                seen = await measured.read(at_leisure=False)
                now = perf_counter()
                taken.update({event_id: now - sent[event_id] for event_id in seen if event_id in sent})

        async with asyncio.timeout(seconds + TIMEOUT), asyncio.TaskGroup() as group:
            group.create_task(read())
            began = perf_counter()
            for number, pdu in enumerate(pdus):
                await asyncio.sleep(max(0.0, began + number / rate - perf_counter()))
                sent[pdu.event_id] = perf_counter()
                await server.send(measured.server_name, [pdu])
        return {"seconds": list(taken.values())}

    async def _join(self, measured: Measured, *, members: int) -> dict[str, Any]:
        """Join a new room: until the server reports the join, and until it has the whole room."""
        room = self._make_room(members)
        began = perf_counter()
        await measured.join(room.room_id, self._servers[0].name)
        joined = perf_counter()
        await _must_have_all(measured, room)
        return {"joined": joined - began, "complete": perf_counter() - began}

    async def _flow(self, measured: Measured, *, source: str, rate: float, seconds: float) -> dict[str, Any]:
        """Let another measured server send to this one, in a room of its own."""
        sender = self._measured[source]
        assert isinstance(sender, MeasuredNode), "it can be told to send"
        room_id = await sender.create()
        await measured.join(room_id, sender.server_name)
        await measured.read(at_leisure=False)
        seen: set[EventId] = set()
        began = perf_counter()
        async with asyncio.timeout(seconds + TIMEOUT), asyncio.TaskGroup() as group:
            saying = group.create_task(sender.say(room_id, rate=rate, seconds=seconds))
            # What it cannot follow waits at the sender, for a minute or for an hour: to see what it asks for
            # it is enough to watch it for a while.
            until = began + seconds + WATCHED_LONGER
            while perf_counter() < until:
                seen.update(await measured.read(at_leisure=True))
                if saying.done() and seen.issuperset(saying.result().event_ids):
                    break
        said = saying.result()
        return {
            "sent": len(said.event_ids),
            "sending": said.seconds,
            "read": len(seen),
            "reading": perf_counter() - began,
        }

    # -- what it plays --

    async def _rooms_of(self, measured: Measured) -> list[PlayedRoom]:
        """Return the rooms of the load, joined and complete."""
        rooms = self._joined.get(measured.server_name)
        if rooms is None:
            rooms = self._joined[measured.server_name] = [self._make_room() for _ in range(self._most_rooms)]
            places = asyncio.Semaphore(JOINING_AT_ONCE)

            async def join(room: PlayedRoom) -> None:
                async with places:
                    await measured.join(room.room_id, self._servers[0].name)
                    await _must_have_all(measured, room)

            await asyncio.gather(*map(join, rooms))
            await measured.read(at_leisure=False)
        return rooms

    def _make_room(self, members: int | None = None) -> PlayedRoom:
        """Create a room on the first server; its members are from all servers in turns."""
        number = next(self._numbers)
        names = [server.name for server in self._servers]
        users = [
            _user(names[place % len(names)], place // len(names))
            for place in range(len(names) if members is None else members)
        ]
        signers = {server.name: server.signer for server in self._servers}
        room = PlayedRoom(f"!load{number}:{names[0]}", VERSION, users, signers, now_ms())
        self._rooms[room.room_id] = room
        return room


async def _must_have_all(measured: Measured, room: PlayedRoom) -> None:
    known = await measured.members(room.room_id)
    members = sum(type_ == "m.room.member" for type_, _ in room.state)
    assert known == members, f"of {members} members the server knows {known}"


def _user(server: str, number: int = 0) -> str:
    return f"@sender{number}:{server}"


def _messages(room: PlayedRoom, server: PlayedServer, count: int) -> list[Pdu]:
    return [room.say(_user(server.name), now_ms()) for _ in range(count)]


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings that are needed before the start."""

    origins: Sequence[str]
    certificate: str
    key: str
    authority: str
    synapse: SynapseSettings
    node: NodeSettings


def settings_of(given: dict[str, Any]) -> Settings:
    """Reverse `asdict`."""
    synapse, node = SynapseSettings(**given.pop("synapse")), NodeSettings(**given.pop("node"))
    return Settings(**given, synapse=synapse, node=node)


async def run(settings: Settings) -> None:
    """Run until the benchmark ends."""
    rooms: dict[str, PlayedRoom] = {}
    measured: dict[str, Measured] = {
        "synapse": MeasuredSynapse(settings.synapse, settings.authority),
        "node": MeasuredNode(settings.node),
    }
    async with AsyncExitStack() as stack:
        servers = [PlayedServer(name, rooms, Path(settings.authority)) for name in settings.origins]
        for server in servers:
            await stack.enter_async_context(server.running(Path(settings.certificate), Path(settings.key)))
        for one in measured.values():
            stack.push_async_callback(one.close)
        generator = LoadGenerator(servers, rooms, measured)
        tell_parent(ready=True)
        async for line in lines_from_parent():
            tell_parent(**await generator.answer(json.loads(line)))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(settings_of(json.loads(sys.argv[1]))))
