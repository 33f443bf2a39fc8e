"""The measured Palaver node: complete, as in production, with a socket to act for its users.

`python -m bench._federation.node CONFIGURATION SOCKET`. Each line of JSON on the socket is answered with one;
after `read` a line comes whenever there is something to read.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from time import perf_counter
from typing import Any

import orjson
import uvloop

from bench._harness.lifeline import tell_parent, until_abandoned
from bridge.config.config import Config, Log
from bridge.node.homeserver_backend import HomeserverBackend
from bridge.observability.log import configure_logging
from bridge.run import Node
from federation.events import EventId, Pdu
from federation.events.room_event import NewEvent
from federation.matrix.room_version import ROOM_VERSIONS

_VERSION = ROOM_VERSIONS["11"]
_MOST_AT_ONCE = 1_000
_TEXT = "Scale set to 4.2 kg; next reading at noon. " * 4


class Users:
    """Users of the node: one reads, another sends."""

    def __init__(self, node: Node) -> None:
        assert isinstance(node.backend, HomeserverBackend), "it is one itself"
        self._graph = node.backend.homeserver.graph
        self._membership = node.backend.homeserver.membership
        self._reader = f"@reader:{node.config.server_name}"
        self._talker = f"@talker:{node.config.server_name}"

    async def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        """Execute the command of a line."""
        match command.pop("do"):
            case "join":
                return await self._join(**command)
            case "members":
                return await self._members(**command)
            case "create":
                return await self._create(**command)
            case "say":
                return await self._say(**command)
            case other:
                raise AssertionError(f"unknown command {other}")

    async def read(self) -> AsyncGenerator[bytes, None]:
        """Report all further events, one line for those that can be read together."""
        reader = self._graph.stream.reader(await self._graph.stream.last_position())
        yield b"{}\n"
        while True:
            event_ids = [entry.event.event_id for entry in await reader.next(_MOST_AT_ONCE)]
            events = await self._graph.events(event_ids)
            yield b'{"entries":[%b]}\n' % b",".join(_whole(events[event_id]) for event_id in event_ids)

    async def _join(self, room_id: str, via: str) -> dict[str, Any]:
        return {"room_id": await self._membership.join(room_id, self._reader, [via])}

    async def _members(self, room_id: str) -> dict[str, Any]:
        """Return all members that the node knows, and the number of joined ones."""
        state = await self._graph.current_state(room_id)
        keys = [key for key in state if key[0] == "m.room.member"]
        members = await self._graph.current_events(room_id, keys)
        return {"joined": sum(member.membership == "join" for member in members.values())}

    async def _create(self) -> dict[str, Any]:
        events = [
            NewEvent("m.room.create", self._talker, {}, ""),
            NewEvent("m.room.member", self._talker, {"membership": "join"}, self._talker),
            NewEvent("m.room.power_levels", self._talker, {"users": {self._talker: 100}}, ""),
            NewEvent("m.room.join_rules", self._talker, {"join_rule": "public"}, ""),
        ]
        name = self._talker.partition(":")[2]
        room_id = f"!flow{orjson.dumps(perf_counter()).decode().replace('.', '')}:{name}"
        await self._graph.create_room(_VERSION, events, room_id=room_id)
        return {"room_id": room_id}

    async def _say(self, room_id: str, rate: float, seconds: float) -> dict[str, Any]:
        """Send this many messages a second, each at its own time, whether earlier ones are committed or
        not."""

        async def say(number: int) -> EventId:
            content = {"msgtype": "m.text", "body": f"{number}: {_TEXT}"}
            return (await self._graph.send_event(room_id, "m.room.message", content, self._talker)).event_id

        began = perf_counter()
        saying: list[asyncio.Task[EventId]] = []
        async with asyncio.TaskGroup() as group:
            for number in range(max(1, round(rate * seconds))):
                await asyncio.sleep(max(0.0, began + number / rate - perf_counter()))
                saying.append(group.create_task(say(number)))
        return {"event_ids": [one.result() for one in saying], "seconds": perf_counter() - began}


def _whole(pdu: Pdu) -> bytes:
    return b'{"event_id":%b,"event":%b}' % (orjson.dumps(pdu.event_id), pdu.canonical)


async def _serve(users: Users, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError), contextlib.closing(writer):
        while line := await reader.readline():
            command = orjson.loads(line)
            if command["do"] == "read":
                async with contextlib.aclosing(users.read()) as lines:
                    async for answer in lines:
                        writer.write(answer)
                        await writer.drain()
            writer.write(orjson.dumps(await users.answer(command)) + b"\n")


async def run(configuration: str, socket: Path) -> None:
    """Run until the benchmark ends."""
    config = Config.model_validate_json(configuration)
    configure_logging(Log(level="warning"))
    node = Node(config)
    await node.start()
    try:
        users = Users(node)
        server = await asyncio.start_unix_server(lambda *streams: _serve(users, *streams), socket)
        tell_parent(ready=True)
        await until_abandoned()
        server.close()
    finally:
        await node.stop()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(sys.argv[1], Path(sys.argv[2])))
