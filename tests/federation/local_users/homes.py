"""Whole homeservers on loopback, each with a port and a database."""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from federation.client.peer_settings import PeerSettings
from federation.events.room_event import RoomEvent, StreamedEvent
from federation.homeserver import Homeserver, HomeserverSettings, open_homeserver
from federation.http.app import make_app, serve
from federation.http.server.capacity import Limits
from federation.http.server.listener import Bind, Listener, ListenerSettings
from federation.http.services import Node as WireNode
from federation.http.services import Readiness
from federation.keys.server_keys import make_key_document
from federation.local_users.local_users import LocalUsers
from federation.matrix.errors import MatrixError
from federation.matrix.networks import LOOPBACK, AdmissionRules
from federation.observer import HomeserverObserver
from federation.peers.policy import policy
from federation.rooms.creation import CreateRoomRequest
from federation.rooms.engine import RoomGraph
from storage.connect import DatabaseAddress
from storage.database import Database
from tests.federation.http.running import Recorder
from tests.federation.nodes import keys_of, now_ms
from tests.support.ports import lasting_port, loopback_addresses
from tests.support.postgres import Server, pool_on

TIMEOUT = 30.0


@dataclass
class Home:
    name: str
    database: Database
    homeserver: Homeserver
    refuses_invites: set[str]
    """Local users whose invites are refused."""
    media: Path
    """The directory of its media files."""
    seen: Recorder = field(default_factory=Recorder)

    @property
    def rooms(self) -> LocalUsers:
        return self.homeserver.local_users

    @property
    def graph(self) -> RoomGraph:
        return self.homeserver.graph

    async def user(self, localpart: str, displayname: str | None = None) -> str:
        """Create a user."""
        user = f"@{localpart}:{self.name}"
        await self.rooms.ensure_user(user)
        if displayname is not None:
            await self.rooms.set_profile(user, displayname=displayname)
        return user

    async def room(self, creator: str, **request: Any) -> str:
        """Create a room, which anyone may join unless `request` says otherwise."""
        asked = {"preset": "public_chat", **request}
        return (await self.rooms.create_room(CreateRoomRequest(creator=creator, **asked))).room_id

    async def say(self, room_id: str, user: str, body: str, **how: Any) -> str:
        content = {"msgtype": "m.text", "body": body}
        return await self.rooms.send(room_id, user, "m.room.message", content, **how)

    async def state(self, room_id: str, type_: str, state_key: str = "") -> Any:
        """Return the content of a state event, or None."""
        event = await self.rooms.state_event(room_id, type_, state_key)
        return None if event is None else event.content

    async def until(self, condition: Callable[[RoomEvent], object]) -> StreamedEvent:
        """Wait for an event that satisfies the condition."""
        name = f"test {id(condition)}"
        async with asyncio.timeout(TIMEOUT), self.rooms.subscription(name) as subscription:
            while True:
                entries = await subscription.next()
                for entry in entries:
                    if condition(entry.event):
                        return entry
                async with self.database.transaction() as connection:
                    await subscription.advance(connection, entries[-1].position)

    async def until_event(self, event_id: str) -> StreamedEvent:
        return await self.until(lambda event: event.event_id == event_id)

    async def until_member(self, room_id: str, user: str, membership: str) -> None:
        """Wait until this homeserver sees the membership."""
        position = await self.graph.stream.last_position()
        async with asyncio.timeout(TIMEOUT):
            while await self.rooms.membership(room_id, user) != membership:
                position = (await self.graph.stream.reader(position).next())[-1].position


class Homes:
    """Starts homeservers that know each other as peers."""

    def __init__(self, server: Server, template: str, stack: AsyncExitStack) -> None:
        self._server = server
        self._template = template
        self._stack = stack
        self._addresses: dict[str, PeerSettings] = {}

    @property
    def addresses(self) -> dict[str, PeerSettings]:
        """The peer settings of each homeserver."""
        return self._addresses

    async def start(self, *names: str) -> list[Home]:
        for name in names:
            self._addresses[name] = PeerSettings(f"127.0.0.1:{lasting_port()}", plain=True)
        return [await self._start(name) for name in names]

    async def _start(self, name: str) -> Home:
        address = await self._server.create(self._template)
        self._stack.push_async_callback(self._server.drop, address)
        database = await self._stack.enter_async_context(pool_on(address))
        home = await self._stack.enter_async_context(homeserver_without_port(name, database, self._addresses))
        app = make_app(
            WireNode(
                lambda: orjson.dumps(make_key_document(name, keys_of(name), now_ms())),
                Readiness,
                "test",
                AdmissionRules(LOOPBACK),
            ),
            Limits(),
        )
        serve(app, home.homeserver)
        port = int((self._addresses[name].address or "").rpartition(":")[2])
        listening = ListenerSettings(tuple(map(Bind, loopback_addresses())), port, LOOPBACK, Limits())
        listener = Listener(app, listening, None, home.seen)
        await listener.start()
        self._stack.push_async_callback(listener.close, 1.0)
        return home


@contextlib.asynccontextmanager
async def homeserver_without_port(
    name: str, database: Database, peers: "dict[str, PeerSettings] | None" = None, media: Path | None = None
) -> AsyncIterator[Home]:
    """A homeserver without a port. `media` is the directory of its files."""
    refuses: set[str] = set()

    async def may_be_invited(user: str, sender: str, room_id: str) -> None:
        if user in refuses:
            raise MatrixError("M_INVITE_BLOCKED", "No, thanks.", 403)

    async with AsyncExitStack() as stack:
        if media is None:
            media = Path(await asyncio.to_thread(tempfile.mkdtemp))
            stack.callback(shutil.rmtree, media)
        settings = HomeserverSettings(
            name, "test", media, peers=peers or {}, policy=policy((), is_open=True), blocked=()
        )
        opening = open_homeserver(
            settings,
            database,
            lambda: keys_of(name),
            now_ms=now_ms,
            observer=HomeserverObserver(),
            may_be_invited=may_be_invited,
        )
        homeserver = await stack.enter_async_context(opening)
        yield Home(name, database, homeserver, refuses, media)


@contextlib.asynccontextmanager
async def homes(server: Server, template: str) -> AsyncIterator[Homes]:
    async with AsyncExitStack() as stack:
        yield Homes(server, template, stack)


@contextlib.asynccontextmanager
async def home_on(address: DatabaseAddress, name: str = "here.test") -> AsyncIterator[Home]:
    """Start a homeserver on an existing database, as after a kill."""
    async with pool_on(address) as database, homeserver_without_port(name, database) as home:
        yield home


def bodies(events: Iterable[RoomEvent]) -> list[object]:
    """Return the bodies of the messages among the events."""
    return [event.content.get("body") for event in events if event.type == "m.room.message"]
