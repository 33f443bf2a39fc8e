"""The measured servers, as the load generator sees them: each joins rooms, reads events, and uses CPU."""

import asyncio
import json
import secrets
import ssl
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import orjson

from bench._federation.processes import cpu_seconds, family_cpu_seconds
from federation.events import EventId
from tests.support.matrix_client import Homeserver, MatrixClient

# Far more than one command or one event takes.
_LINE = 16 * 1024 * 1024
_WAIT_MS = 10_000


class Measured(Protocol):
    """A measured server."""

    server_name: str

    async def join(self, room_id: str, via: str) -> None:
        """Join a room with its user; return when the server confirms it."""

    async def members(self, room_id: str) -> int:
        """Return the number of joined members, once the server knows all of them."""

    async def read(self, *, at_leisure: bool) -> Collection[EventId]:
        """Return what has become readable since the last call; waits for it, but not forever. `at_leisure` is
        for readers that need not see each event at once."""

    def cpu_seconds(self) -> tuple[float, float]:
        """Return the CPU of the server's process, and of all processes of its Postgres."""

    async def close(self) -> None:
        """Let go of its connections."""


@dataclass(frozen=True, slots=True)
class SynapseSettings:
    """Its address, its reader, and the ids of its process and of its Postgres."""

    server_name: str
    user_id: str
    token: str
    server: int
    postgres: int


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """The same for the Palaver node, which is controlled through its socket."""

    server_name: str
    socket: str
    server: int
    postgres: int


class MeasuredSynapse:
    """Its reader is a user that syncs with a filter for messages only: the least that a client requests.

    At leisure it takes a breath between two answers. Each of them costs a Synapse more than an event does;
    without a pause there is one for nearly every event, and the server's figures would be those of `/sync`.
    """

    PAUSE = 0.1

    def __init__(self, settings: SynapseSettings, authority: str) -> None:
        self.server_name = settings.server_name
        self._pids = settings.server, settings.postgres
        tls = ssl.create_default_context(cafile=authority)
        self._homeserver = Homeserver(f"https://{self.server_name}", tls)
        self._user = MatrixClient(self._homeserver, settings.user_id, settings.token, None)
        nothing: dict[str, Any] = {"types": []}
        self._wanted: dict[str, Any] = {
            "presence": nothing,
            "account_data": nothing,
            "room": {
                "state": nothing,
                "ephemeral": nothing,
                "account_data": nothing,
                "timeline": {"types": ["m.room.message"]},
                # Synapse caches the first response to a filter for two minutes, so each filter is unique.
                "not_rooms": [f"!{secrets.token_hex(8)}:nowhere"],
            },
        }
        self._since: str | None = None
        self._asked_at = 0.0

    async def join(self, room_id: str, via: str) -> None:
        """See `Measured`."""
        await self._user.join(room_id, via=[via])

    async def members(self, room_id: str) -> int:
        """See `Measured`. `/members` waits until a room that was joined without its members has them."""
        memberships = await self._user.members(room_id)
        return sum(membership == "join" for membership in memberships.values())

    async def read(self, *, at_leisure: bool) -> list[EventId]:
        """See `Measured`. The first response has the current state, for which no test waits."""
        if at_leisure:
            await asyncio.sleep(max(0.0, self._asked_at + self.PAUSE - perf_counter()))
        self._asked_at = perf_counter()
        first = self._since is None
        self._wanted["room"]["timeline"]["limit"] = 1 if first else 1000
        answer = await self._user.sync_once(
            since=self._since,
            timeout_ms=0 if first else _WAIT_MS,
            filter=json.dumps(self._wanted),
            set_presence="offline",
        )
        self._since = answer["next_batch"]
        rooms = answer.get("rooms", {}).get("join", {}).values()
        return [event["event_id"] for room in rooms for event in room["timeline"]["events"]]

    def cpu_seconds(self) -> tuple[float, float]:
        """See `Measured`."""
        return _cpu_seconds(*self._pids)

    async def close(self) -> None:
        """See `Measured`."""
        await self._homeserver.close()


class MeasuredNode:
    """Its reader reads what the node's own readers do, the durable stream, and gets every event whole."""

    def __init__(self, settings: NodeSettings) -> None:
        self.server_name = settings.server_name
        self._pids = settings.server, settings.postgres
        self._commands = NodeConnection(settings.socket)
        self._stream = NodeConnection(settings.socket)
        self._reads = False

    async def join(self, room_id: str, via: str) -> None:
        """See `Measured`."""
        await self._commands.ask(do="join", room_id=room_id, via=via)

    async def create(self) -> str:
        """Create a public room; return its id."""
        room_id: str = (await self._commands.ask(do="create"))["room_id"]
        return room_id

    async def say(self, room_id: str, *, rate: float, seconds: float) -> "Said":
        """So much a second for so long."""
        answer = await self._commands.ask(do="say", room_id=room_id, rate=rate, seconds=seconds)
        return Said(**answer)

    async def members(self, room_id: str) -> int:
        """See `Measured`."""
        joined: int = (await self._commands.ask(do="members", room_id=room_id))["joined"]
        return joined

    async def read(self, *, at_leisure: bool) -> list[EventId]:
        """See `Measured`. There is nothing that a pause would spare."""
        if not self._reads:
            self._reads = True
            await self._stream.ask(do="read")
            return []
        line = await self._stream.line(_WAIT_MS / 1000)
        return [] if line is None else [entry["event_id"] for entry in line["entries"]]

    def cpu_seconds(self) -> tuple[float, float]:
        """See `Measured`."""
        return _cpu_seconds(*self._pids)

    async def close(self) -> None:
        """See `Measured`."""
        await self._commands.close()
        await self._stream.close()


@dataclass(frozen=True, slots=True)
class Said:
    """The sent messages, and the time until the last one was committed."""

    event_ids: Sequence[EventId]
    seconds: float


class NodeConnection:
    """A connection to the socket of `bench/_federation/node.py`: lines of JSON both ways."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._asking = asyncio.Lock()

    async def ask(self, **command: Any) -> dict[str, Any]:
        """Write a line, and read the line that answers it."""
        async with self._asking:
            reader, writer = await self._opened()
            writer.write(orjson.dumps(command) + b"\n")
            return _read(await reader.readline())

    async def line(self, within: float) -> dict[str, Any] | None:
        """Return the next unsolicited line; None if there is none within this many seconds."""
        reader, _ = await self._opened()
        try:
            async with asyncio.timeout(within):
                line = await reader.readline()
        except TimeoutError:
            return None
        return _read(line)

    async def close(self) -> None:
        """Let go of it."""
        if self._streams is not None:
            self._streams[1].close()
            await self._streams[1].wait_closed()

    async def _opened(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            self._streams = await asyncio.open_unix_connection(self._socket, limit=_LINE)
        return self._streams


def _cpu_seconds(server: int, postgres: int) -> tuple[float, float]:
    return cpu_seconds(server), family_cpu_seconds(postgres)


def _read(line: bytes) -> dict[str, Any]:
    assert line, "the node has ended"
    found: dict[str, Any] = orjson.loads(line)
    return found
