"""A whole node, a malicious server whose keys are known, and their rooms."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson
from aiohttp import web

from federation.client.peer_settings import PeerSettings
from federation.events.event_signatures import hash_and_sign
from federation.events.hashes import event_id
from federation.events.room_event import NewEvent
from federation.homeserver import Homeserver, HomeserverSettings, open_homeserver
from federation.http.app import make_app, serve
from federation.http.server.capacity import Limits
from federation.http.server.listener import Bind, Listener, ListenerSettings
from federation.http.services import Node as WireNode
from federation.http.services import Readiness
from federation.keys.request_verification import Claim, parse_request
from federation.keys.server_keys import make_key_document
from federation.keys.x_matrix import XMatrix, render
from federation.local_users.local_users import LocalUsers
from federation.matrix.canonical_json import NotCanonical
from federation.matrix.errors import MatrixError
from federation.matrix.networks import LOOPBACK, AdmissionRules
from federation.matrix.room_version import ROOM_VERSIONS
from federation.matrix.signatures import make_signature
from federation.observer import HomeserverObserver
from federation.peers.limits import PeerLimits, Rate
from federation.peers.policy import policy
from storage.database import Database
from tests.federation.http import well_meant
from tests.federation.http.running import TIMEOUT, Answer, Client, Recorder
from tests.federation.http.well_meant import ALICE, BOB, EVIL, GOOD, HASH
from tests.federation.nodes import Node, Nodes, keys_of, now_ms, signer_of
from tests.support.name_server import NameServer
from tests.support.ports import lasting_port
from tests.support.postgres import Server, pool_on

ENDLESS: Final = Rate(1e6, 10**6)
LIMITS: Final = PeerLimits(ENDLESS, ENDLESS, ENDLESS, ENDLESS, ENDLESS, ENDLESS, ENDLESS)
"""What is limited is not looked at."""
COUNTED: Final = (
    "SELECT (SELECT coalesce(sum(generation), 0) FROM rooms), (SELECT count(*) FROM events),"
    " (SELECT count(*) FROM room_stream), (SELECT count(*) FROM outside_memberships),"
    " (SELECT count(*) FROM receipts)"
)


@dataclass
class Watching(HomeserverObserver):
    """Records the problems that are reported to the operator."""

    problems: list[tuple[str, BaseException | None]] = field(default_factory=list)

    def problem(self, sentence: str, error: BaseException | None) -> None:
        self.problems.append((sentence, error))


@dataclass
class Besieged:
    homeserver: Homeserver
    database: Database
    app: web.Application
    port: int
    seen: Recorder
    watching: Watching
    evil: Node
    _number: int = 0
    _client: Client | None = None
    _unchanged: tuple[Any, ...] | None = None
    """What there is, as long as only refusals were given since it was counted."""

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The form that Hypothesis prints."""
        printer.text("the siege")

    def next_number(self) -> int:
        """A number for a new transaction."""
        self._number += 1
        return self._number

    def routes(self) -> list[tuple[str, str]]:
        """Return method and template of each served route."""
        return sorted(
            {
                (route.method, route.resource.canonical)
                for route in self.app.router.routes()
                if route.resource is not None
            }
        )

    def signed(self, method: str, target: str, body: bytes | None) -> Mapping[str, str]:
        """Return the Authorization header of the malicious server, or an invalid one if the request cannot
        be signed."""
        key = keys_of(EVIL).current
        try:
            signed = parse_request(Claim(EVIL, {}), method, target, body or b"", GOOD).signed
        except MatrixError:
            signed = b""
        made = make_signature(signed, key.signing_key)
        return {"Authorization": render(XMatrix(EVIL, key.key_id, made, GOOD))}

    async def throw(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        is_signed: bool = True,
    ) -> Answer:
        """Send a request. Assert that the response is a valid one without a server error, and that a
        refusal changes nothing."""
        said = dict(headers or {})
        if is_signed:
            said |= self.signed(method, target, body)
        before = self._unchanged or await self._count()
        self._unchanged = None
        answer = await self._ask(method, target, body or b"", said)
        said_in_words = f"{method} {target[:200]} {(body or b'')[:2000]!r}"
        what = f"{answer.status} {answer.body[:500]!r} {self.problems()} to {said_in_words}"
        assert answer.status < 500, what
        if method != "HEAD":
            assert answer.headers["content-type"] == "application/json", what
            content = json.loads(answer.body)
            if answer.status >= 400:
                assert isinstance(content["errcode"], str), what
                assert isinstance(content["error"], str), what
        if answer.status >= 400:
            self._unchanged = await self._count()
            assert self._unchanged == before, what
        assert self.problems() == [], what
        return answer

    async def _ask(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send on the open connection, or on a new one after the last response."""
        client = self._client or await self._connect()
        try:
            answer = await client.ask(target, method, body, headers)
        except (ConnectionError, asyncio.IncompleteReadError):
            if self._client is None:
                raise
            client = await self._connect()
            answer = await client.ask(target, method, body, headers)
        self._client = client
        if answer.headers.get("connection") == "close":
            await self.hang_up()
        return answer

    async def _connect(self) -> Client:
        await self.hang_up()
        return Client(*await asyncio.open_connection("127.0.0.1", self.port))

    async def hang_up(self) -> None:
        if self._client is not None:
            await self._client.__aexit__()
        self._client = None

    async def _count(self) -> tuple[Any, ...]:
        async with self.database.transaction(readonly=True) as connection:
            return tuple(await connection.fetchrow(COUNTED))

    @property
    def people(self) -> LocalUsers:
        """Run operations of local users, which may change the state."""
        self._unchanged = None
        return self.homeserver.local_users

    def problems(self) -> list[tuple[str, BaseException | None]]:
        return [*self.seen.problems, *self.watching.problems]

    async def make_room(self, version: str) -> "Room":
        """Create a room of Alice with Bob, who has the same power."""
        self._unchanged = None
        switches = ROOM_VERSIONS[version]
        users = {BOB: 100} if switches.creators_have_infinite_power else {ALICE: 100, BOB: 100}
        events = [
            NewEvent("m.room.create", ALICE, {}, ""),
            NewEvent("m.room.member", ALICE, {"membership": "join"}, ALICE),
            NewEvent("m.room.power_levels", ALICE, {"users": users}, ""),
            NewEvent("m.room.join_rules", ALICE, {"join_rule": "public"}, ""),
        ]
        named = None if switches.create_event_is_room_id else f"!room{self.next_number()}:{GOOD}"
        made = await self.homeserver.graph.create_room(switches, events, room_id=named)
        await self.evil.membership.join(made[0].room_id, BOB, [GOOD])
        return Room(version, made[0].room_id, made[1].event_id)

    async def template(self, room: "Room", membership: str | None = None) -> dict[str, Any]:
        """Return an event of Bob as his server would build it: a message unless a membership is given."""
        prepare = partial(self.evil.graph.prepare_event, room.room_id)
        message = NewEvent("m.room.message", BOB, {"msgtype": "m.text", "body": "b"})
        if membership is None:
            return await prepare(message)
        key = ALICE if membership == "invite" else BOB
        try:
            return await prepare(NewEvent("m.room.member", BOB, {"membership": membership}, key))
        except MatrixError:
            # A malicious server sends events that are not allowed too.
            content = {"membership": membership}
            return {**await prepare(message), "type": "m.room.member", "content": content, "state_key": key}

    def next_transaction(self) -> str:
        """Return the path of a new transaction."""
        return f"/_matrix/federation/v1/send/{self.next_number()}"

    async def read(self, room: "Room") -> None:
        """Request all endpoints about the room."""
        for method, template in self.routes():
            if method == "GET" and "room" in template:
                target = well_meant.filled(template, room.room_id, room.event_id)
                await self.throw("GET", f"{target}?{well_meant.query(room.version, room.event_id)}")


@dataclass(frozen=True)
class Room:
    version: str
    room_id: str
    event_id: str
    """One that is in it."""


def signed_event(event: Mapping[str, Any], version: str) -> tuple[dict[str, Any], str]:
    """Return an event signed by the malicious server if possible, and its id."""
    signer, switches = signer_of(EVIL), ROOM_VERSIONS[version]
    try:
        made = hash_and_sign(event, switches, signer.server, signer.key_id, signer.key)
        return made, event_id(made, switches)
    except (NotCanonical, TypeError, KeyError, AttributeError, ValueError, RecursionError):
        return {**event, "signatures": {EVIL: {"ed25519:test": HASH}}, "hashes": {"sha256": HASH}}, f"${HASH}"


@asynccontextmanager
async def besieged(server: Server, template: str, directory: Path) -> AsyncIterator[Besieged]:
    async with AsyncExitStack() as stack:
        names = await stack.enter_async_context(NameServer().running())
        port = lasting_port()
        others = Nodes(server, template, stack)
        others._addresses[GOOD] = PeerSettings(f"127.0.0.1:{port}", plain=True)
        (evil,) = await others.start(EVIL)
        address = await server.create(template)
        stack.push_async_callback(server.drop, address)
        database = await stack.enter_async_context(pool_on(address))
        watching = Watching()
        settings = HomeserverSettings(
            GOOD,
            "test",
            directory,
            peers=others._addresses,
            policy=policy((), is_open=True),
            name_servers=(("127.0.0.1", names.port),),
            peer_limits=LIMITS,
        )
        homeserver = await stack.enter_async_context(
            open_homeserver(settings, database, lambda: keys_of(GOOD), now_ms=now_ms, observer=watching)
        )
        await homeserver.profiles.ensure_user(ALICE)
        app = make_app(WireNode(_document, Readiness, "test", AdmissionRules(LOOPBACK)), Limits())
        serve(app, homeserver)
        seen = Recorder()
        listener = Listener(app, ListenerSettings((Bind("127.0.0.1"),), port, LOOPBACK, Limits()), None, seen)
        await listener.start()
        stack.push_async_callback(listener.close, TIMEOUT)
        made = Besieged(homeserver, database, app, port, seen, watching, evil)
        yield made
        await made.hang_up()
    # Including the entries written at the end.
    assert made.problems() == []


def _document() -> bytes:
    return orjson.dumps(make_key_document(GOOD, keys_of(GOOD), now_ms()))
