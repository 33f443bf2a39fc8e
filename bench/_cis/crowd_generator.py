"""The process that plays nodes with many agents: their homeservers, the rooms in which they tell of them, and
their heartbeats.

`python -m bench._cis.crowd_generator SETTINGS`: reports that it is ready, then answers each line of JSON with
one line. The rooms are created and signed before any server may join them.
"""

import asyncio
import contextlib
import dataclasses
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import uvloop
from aiohttp import web

from bench._federation.played_room import PlayedRoom
from bench._federation.played_server import PlayedServer, now_ms
from bench._harness.lifeline import lines_from_parent, tell_parent
from bridge.agents.agent import AgentStatus
from bridge.agents.updates import NodeHeartbeat
from bridge.connectors.cis import heartbeats
from bridge.connectors.cis.protocol import content, event_fields
from bridge.connectors.cis.protocol.events import Registered
from bridge.connectors.cis.protocol.rooms import ROOM_VERSION, BroadcastRoom, FederationRoom, room_id
from bridge.matrix.ghost import NODE_USER
from bridge.peers.peer import DEFAULT_NAMESPACE, PeerProfile
from federation.matrix.errors import PeerError
from federation.matrix.room_version import ROOM_VERSIONS

CAPABILITIES = ("task_execution", "messaging")


class PlayedNode(PlayedServer):
    """Joins are refused until its rooms are made."""

    def __init__(self, name: str, rooms: dict[str, PlayedRoom], authority: Path) -> None:
        super().__init__(name, rooms, authority)
        self.is_open = asyncio.Event()
        self._agent_ids: list[str] = []
        self._is_silent = asyncio.Event()
        self._beating: asyncio.Task[None] | None = None

    def make_rooms(self, agents: int) -> None:
        """Create the rooms as a Palaver node would have them after this many registrations."""
        user, version = f"@{NODE_USER}:{self.name}", ROOM_VERSIONS[ROOM_VERSION]
        signers = {self.name: self.signer}
        for place in (BroadcastRoom(self.name), FederationRoom(DEFAULT_NAMESPACE, self.name)):
            name = room_id(place)
            self._rooms[name] = PlayedRoom(name, version, [user], signers, now_ms())
        self._agent_ids = [f"worker-{number}" for number in range(agents)]
        room = self._rooms[room_id(BroadcastRoom(self.name))]
        for agent_id in self._agent_ids:
            room.set_state(Registered.TYPE, user, self._registered(agent_id), agent_id)

    def _registered(self, agent_id: str) -> dict[str, Any]:
        event = Registered(
            agent_id=agent_id,
            node_id=self.name,
            runtime_type="claude",
            capabilities=CAPABILITIES,
            timestamp=event_fields.from_milliseconds(now_ms()),
        )
        return content.render(event, PeerProfile.MATRIX)

    async def beat(self, destination: str) -> None:
        """Send one heartbeat for all agents; return when it has been answered."""
        statuses = dict.fromkeys(self._agent_ids, AgentStatus.IDLE)
        said = heartbeats.edu_content(NodeHeartbeat(self.name, now_ms(), statuses))
        await self.send(destination, [], [{"edu_type": heartbeats.TYPE, "content": said}])

    def keep_beating(self, destination: str, every: float) -> None:
        """Send heartbeats until it falls silent."""
        self._is_silent.clear()
        self._beating = asyncio.create_task(self._beat_on(destination, every))

    async def _beat_on(self, destination: str, every: float) -> None:
        while not self._is_silent.is_set():
            with contextlib.suppress(PeerError):  # it is being restarted
                await self.beat(destination)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(every):
                    await self._is_silent.wait()

    async def fall_silent(self) -> None:
        """Stop after the heartbeat in flight."""
        self._is_silent.set()
        beating, self._beating = self._beating, None
        if beating is not None:
            await beating

    async def _make_join(self, request: web.Request) -> web.Response:
        await self.is_open.wait()
        return await super()._make_join(request)


class Crowd:
    """All simulated nodes."""

    def __init__(self, nodes: Sequence[PlayedNode]) -> None:
        self._nodes = nodes

    async def answer(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Execute the command of a line; the answer has the time at which it was done."""
        match command:
            case {"do": "make", "agents": int(agents)}:
                for node in self._nodes:
                    node.make_rooms(agents)
            case {"do": "open"}:
                for node in self._nodes:
                    node.is_open.set()
            case {"do": "beat", "to": str(to)}:
                for node in self._nodes:
                    await node.beat(to)
            case {"do": "keep beating", "to": str(to), "every": float(every)}:
                for node in self._nodes:
                    node.keep_beating(to, every)
            case {"do": "fall silent", "to": str(to)}:
                await self._nodes[-1].fall_silent()
                await self._nodes[-1].beat(to)
            case other:
                raise AssertionError(f"unknown command {other}")
        return {"at": now_ms()}

    async def close(self) -> None:
        """Stop all heartbeats."""
        for node in self._nodes:
            await node.fall_silent()


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings that are needed before the start."""

    nodes: Sequence[str]
    certificate: str
    key: str
    authority: str

    def as_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))


@contextlib.asynccontextmanager
async def crowd(settings: Settings) -> AsyncIterator[Crowd]:
    """The nodes respond until the block ends."""
    rooms: dict[str, PlayedRoom] = {}
    async with AsyncExitStack() as stack:
        nodes = [PlayedNode(name, rooms, Path(settings.authority)) for name in settings.nodes]
        for node in nodes:
            await stack.enter_async_context(node.running(Path(settings.certificate), Path(settings.key)))
        played = Crowd(nodes)
        stack.push_async_callback(played.close)
        yield played


async def run(settings: Settings) -> None:
    """Run until the benchmark ends."""
    async with crowd(settings) as played:
        tell_parent(ready=True)
        async for line in lines_from_parent():
            tell_parent(**await played.answer(json.loads(line)))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(Settings(**json.loads(sys.argv[1]))))
