"""Whole federating nodes on loopback: room graph, outbox, memberships and port."""

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from federation.client.client import FederationClient
from federation.client.peer_settings import PeerSettings
from federation.events import Signer
from federation.events.room_event import NewEvent
from federation.homeserver import Homeserver, HomeserverSettings, open_homeserver
from federation.http.app import make_app, serve
from federation.http.server.capacity import Limits
from federation.http.server.listener import Bind, Listener, ListenerSettings
from federation.http.server.tls import Tls, TlsFiles
from federation.http.services import Node as WireNode
from federation.http.services import Readiness
from federation.keys.server_keys import LocalKeys, key_from_seed, make_key_document
from federation.local_users.local_users import LocalUsers
from federation.matrix.errors import MatrixError
from federation.matrix.networks import LOOPBACK, AdmissionRules
from federation.matrix.room_version import ROOM_VERSIONS
from federation.memberships.outgoing import MembershipService
from federation.memberships.send_join_response import MAX_MEMBERS_IN_FULL
from federation.observer import HomeserverObserver
from federation.outbox.outbox import Outbox
from federation.peers.policy import policy
from federation.rooms.engine import RoomGraph
from federation.transactions.edu_dispatcher import EduUpdate
from federation.transactions.inbox import Inbox
from storage.database import Database
from tests.federation.http.running import Recorder
from tests.support.ports import lasting_port, loopback_addresses
from tests.support.postgres import Server, pool_on

TIMEOUT = 30.0
PEOPLE = ("alice", "bob", "carol", "eve", "fay", "mallory")
TOLD = ("m.typing", "m.receipt", "m.presence", "m.device_list_update", "m.signing_key_update", "m.direct_to_device")


def keys_of(name: str) -> LocalKeys:
    return LocalKeys(key_from_seed("test", name.encode().ljust(32, b".")))


def signer_of(name: str) -> Signer:
    key = keys_of(name).current
    return Signer(name, key.key_id, key.signing_key)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Heard:
    """Collects the EDUs that the listeners of a node receive."""

    edus: list[EduUpdate] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, said: EduUpdate) -> None:
        self.edus.append(said)
        self._changed.set()

    async def until(self, condition: Callable[[EduUpdate], object]) -> None:
        """Such a thing has come."""
        while not any(map(condition, self.edus)):
            self._changed.clear()
            await self._changed.wait()


@dataclass
class Node:
    name: str
    database: Database
    homeserver: Homeserver
    heard: Heard
    seen: Recorder
    refuses_invites: set[str] = field(default_factory=set)
    """Users who want none."""
    is_down: bool = False

    @property
    def client(self) -> FederationClient:
        return self.homeserver.client

    @property
    def graph(self) -> RoomGraph:
        return self.homeserver.graph

    @property
    def outbox(self) -> Outbox:
        return self.homeserver.outbox

    @property
    def inbox(self) -> Inbox:
        return self.homeserver.inbox

    @property
    def membership(self) -> MembershipService:
        return self.homeserver.membership

    @property
    def rooms(self) -> LocalUsers:
        return self.homeserver.local_users

    def user(self, localpart: str) -> str:
        """Return a user id; local users of `PEOPLE` exist."""
        return f"@{localpart}:{self.name}"

    async def create(
        self,
        version: str,
        creator: str,
        join_rule: Mapping[str, Any] | str = "public",
        levels: Mapping[str, Any] | None = None,
    ) -> str:
        """Create a room; return its id."""
        switches = ROOM_VERSIONS[version]
        rule = {"join_rule": join_rule} if isinstance(join_rule, str) else join_rule
        users = {} if switches.creators_have_infinite_power else {creator: 100}
        events = [
            NewEvent("m.room.create", creator, {}, ""),
            NewEvent("m.room.member", creator, {"membership": "join"}, creator),
            NewEvent("m.room.power_levels", creator, {"users": users, **(levels or {})}, ""),
            NewEvent("m.room.join_rules", creator, rule, ""),
        ]
        number = now_ms()
        named = None if switches.create_event_is_room_id else f"!room{number}:{self.name}"
        made = await self.graph.create_room(switches, events, room_id=named)
        return made[0].room_id

    async def say(self, room_id: str, user: str, body: str) -> str:
        content = {"msgtype": "m.text", "body": body}
        return (await self.graph.send_event(room_id, "m.room.message", content, user)).event_id

    async def membership_of(self, room_id: str, user: str) -> object:
        """Return the membership as this node sees it."""
        key = ("m.room.member", user)
        member = (await self.graph.current_events(room_id, [key])).get(key)
        return None if member is None else member.membership

    async def until_member(self, room_id: str, user: str, membership: str) -> None:
        """Wait until this node sees the membership."""
        position = await self.graph.stream.last_position()
        async with asyncio.timeout(TIMEOUT):
            while await self.membership_of(room_id, user) != membership:
                position = (await self.graph.stream.reader(position).next())[-1].position

    async def until(self, condition: Callable[[str, str], bool], after: int = 0) -> None:
        """Wait for an event that satisfies the condition, which gets its id and its membership or body."""
        position = after
        while True:
            for entry in await self.graph.stream.reader(position).next():
                position = entry.position
                said = entry.event.content.get("membership") or entry.event.content.get("body") or ""
                if condition(entry.event.event_id, str(said)):
                    return


class Nodes:
    """Starts nodes that know each other as peers, each with its own database."""

    def __init__(
        self,
        server: Server,
        template: str,
        stack: AsyncExitStack,
        tls: TlsFiles | None = None,
        authorities: Path | None = None,
        in_full: int = MAX_MEMBERS_IN_FULL,
        clock: Callable[[], int] = now_ms,
        **more: Any,
    ) -> None:
        """`more` are further `HomeserverSettings` of each node."""
        self._clock = clock
        self._more = more
        self._in_full = in_full
        self._tls = tls
        self._authorities = authorities
        self._server = server
        self._template = template
        self._stack = stack
        self._addresses: dict[str, PeerSettings] = {}

    async def start(self, *names: str) -> list[Node]:
        for name in names:
            self._addresses[name] = PeerSettings(f"127.0.0.1:{lasting_port()}", plain=True)
        return [await self._start(name) for name in names]

    async def start_over_tls(self, name: str | None = None) -> Node:
        """Start a node under a name that resolves to it, so that Synapse can reach it."""
        return await self._start(name or f"localhost:{lasting_port()}")

    async def _start(self, name: str) -> Node:
        address = await self._server.create(self._template)
        self._stack.push_async_callback(self._server.drop, address)
        database = await self._stack.enter_async_context(pool_on(address))
        return await self._run(name, database)

    async def _run(self, name: str, database: Database) -> Node:
        keys = keys_of(name)
        heard, seen = Heard(), Recorder()
        node: Node

        async def may_be_invited(user: str, sender: str, room_id: str) -> None:
            if user in node.refuses_invites:
                raise MatrixError("M_INVITE_BLOCKED", "No, thanks.", 403)

        media = await asyncio.to_thread(tempfile.mkdtemp)
        self._stack.callback(shutil.rmtree, media)
        settings = self._settled(
            HomeserverSettings(
                name,
                "test",
                Path(media),
                peers=self._addresses,
                policy=policy((), is_open=True),
                authorities=self._authorities,
                blocked=(),
                members_in_full=self._in_full,
                **self._more,
            )
        )
        opening = open_homeserver(
            settings,
            database,
            lambda: keys,
            now_ms=self._clock,
            observer=HomeserverObserver(),
            may_be_invited=may_be_invited,
        )
        homeserver = await self._stack.enter_async_context(opening)
        for localpart in PEOPLE:
            await homeserver.profiles.ensure_user(f"@{localpart}:{name}")
        for edu_type in TOLD:
            homeserver.local_users.listen(edu_type, heard)
        node = Node(name, database, homeserver, heard, seen)
        port = int((self._address_of(name)).rpartition(":")[2])
        listening = ListenerSettings(tuple(map(Bind, loopback_addresses())), port, LOOPBACK, Limits())
        listener = Listener(self._app(node, keys), listening, None if self._tls is None else Tls(self._tls), seen)
        await listener.start()
        self._stack.push_async_callback(listener.close, 1.0)
        return node

    def _settled(self, settings: HomeserverSettings) -> HomeserverSettings:
        """Give a node its peer settings, for tests in which nodes do not know each other at the start."""
        return settings

    def _address_of(self, name: str) -> str:
        known = self._addresses.get(name)
        return name if known is None or known.address is None else known.address

    def _app(self, node: Node, keys: LocalKeys) -> web.Application:
        @web.middleware
        async def gate(request: web.Request, handler: Any) -> web.StreamResponse:
            if node.is_down:
                raise MatrixError("M_UNKNOWN", "Down.", 503)
            response: web.StreamResponse = await handler(request)
            return response

        def document() -> bytes:
            return orjson.dumps(make_key_document(node.name, keys, now_ms()))

        app = make_app(WireNode(document, Readiness, "test", AdmissionRules(LOOPBACK)), Limits())
        app.middlewares.append(gate)
        serve(app, node.homeserver)
        return app


@contextlib.asynccontextmanager
async def nodes(
    server: Server, template: str, tls: TlsFiles | None = None, authorities: Path | None = None, **how: Any
) -> AsyncIterator[Nodes]:
    async with AsyncExitStack() as stack:
        yield Nodes(server, template, stack, tls, authorities, **how)
