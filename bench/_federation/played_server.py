"""A homeserver of the load generator: it sends events, and answers requests about them."""

import contextlib
import itertools
import ssl
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from bench._federation.played_room import PlayedRoom
from federation.client.client import FederationClient
from federation.client.connections import PeerConnections
from federation.client.dns import Dns
from federation.client.peer_settings import ConfiguredPeers
from federation.client.requests import request_target
from federation.client.resolver import Resolver
from federation.events import Pdu, Signer, parse
from federation.keys.server_keys import LocalKeys, key_from_seed, make_key_document
from federation.matrix.canonical_json import encode
from federation.outbox.transaction_body import encode_body, pdu_errors
from tests.support.ports import loopback_addresses

V1, V2 = "/_matrix/federation/v1", "/_matrix/federation/v2"
MOST_BYTES = 16 * 1024 * 1024


class Objected(Exception):
    """The measured server refused an event, so there is nothing to measure."""


class PlayedServer:
    """`rooms` are those of all simulated servers: each of them may be asked for any."""

    def __init__(self, name: str, rooms: dict[str, PlayedRoom], authority: Path) -> None:
        self.name = name
        self.keys = LocalKeys(key_from_seed("load", name.encode().ljust(32, b".")))
        self.signer = Signer(name, self.keys.current.key_id, self.keys.current.signing_key)
        self._rooms = rooms
        self._dns = Dns()
        peers = ConfiguredPeers({})
        self._connections = PeerConnections(self._dns, peers, user_agent="load", authorities=authority)
        self._resolver = Resolver(self._connections, self._dns, peers)
        self._client = FederationClient(
            name, lambda: self.keys, self._resolver, self._connections, may_contact=lambda _: True
        )
        self._numbers = itertools.count(now_ms())

    @contextlib.asynccontextmanager
    async def running(self, certificate: Path, key: Path) -> AsyncIterator["PlayedServer"]:
        """Serve on the port in its name."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        runner = web.AppRunner(self._app(), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            for address in loopback_addresses():
                await web.TCPSite(runner, address, int(self.name.rpartition(":")[2]), ssl_context=context).start()
            yield self
        finally:
            await runner.cleanup()
            await self._connections.close()
            await self._resolver.close()

    async def send(self, destination: str, pdus: Sequence[Pdu], edus: Sequence[dict[str, Any]] = ()) -> None:
        """Send one transaction; return when it has been answered."""
        transaction = encode_body(self.name, now_ms(), [pdu.canonical for pdu in pdus], list(edus))
        target = request_target(f"{V1}/send/{{txnId}}", txnId=str(next(self._numbers)))
        answer = await self._client.request("PUT", destination, target, transaction)
        if refused := pdu_errors(answer):
            raise Objected(f"{destination} objects to {len(refused)} events: {next(iter(refused.values()))}")

    # -- what it answers --

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=MOST_BYTES)
        room, event = "{room_id:[^/]+}", "{event_id:[^/]+}"
        app.add_routes(
            [
                web.get("/_matrix/key/v2/server", self._keys),
                web.put(f"{V1}/send/{{txn_id:[^/]+}}", self._take_anything),
                web.get(f"{V1}/make_join/{room}/{{user_id:[^/]+}}", self._make_join),
                web.put(f"{V2}/send_join/{room}/{event}", self._send_join),
                web.get(f"{V1}/event/{event}", self._event),
                web.get(f"{V1}/event_auth/{room}/{event}", self._event_auth),
                web.get(f"{V1}/state_ids/{room}", self._state_ids),
                web.get(f"{V1}/state/{room}", self._state),
                web.get(f"{V1}/backfill/{room}", self._backfill),
                web.post(f"{V1}/get_missing_events/{room}", self._missing_events),
                web.get(f"{V1}/user/devices/{{user_id:[^/]+}}", self._devices),
                web.route("*", "/{path:.*}", _unrecognized),
            ]
        )
        return app

    def _room(self, request: web.Request) -> PlayedRoom:
        return self._rooms[request.match_info["room_id"]]

    async def _keys(self, request: web.Request) -> web.Response:
        return _json(make_key_document(self.name, self.keys, now_ms()))

    async def _take_anything(self, request: web.Request) -> web.Response:
        await request.read()
        return _json({"pdus": {}})

    async def _make_join(self, request: web.Request) -> web.Response:
        room = self._room(request)
        template = room.join_template(request.match_info["user_id"], now_ms())
        return _json({"room_version": room.version.id, "event": template})

    async def _send_join(self, request: web.Request) -> web.Response:
        room = self._room(request)
        join = parse(orjson.loads(await request.read()), room.version)
        assert isinstance(join, Pdu), f"the server that is measured joins with a valid event: {join}"
        if join.event_id not in room.events:
            room.take_in(join)
        return _json(room.send_join(join, omit_members=request.query.get("omit_members") == "true"))

    async def _event(self, request: web.Request) -> web.Response:
        event_id = request.match_info["event_id"]
        for room in self._rooms.values():
            if event_id in room.events:
                return self._pdus([room.events[event_id]])
        return await _unrecognized(request)

    async def _event_auth(self, request: web.Request) -> web.Response:
        room = self._room(request)
        chain = room.auth_chain([room.events[request.match_info["event_id"]]])
        return _json({"auth_chain": [pdu.event for pdu in chain]})

    async def _state_ids(self, request: web.Request) -> web.Response:
        state, chain = self._state_and_chain(request)
        return _json({"pdu_ids": [pdu.event_id for pdu in state], "auth_chain_ids": [pdu.event_id for pdu in chain]})

    async def _state(self, request: web.Request) -> web.Response:
        state, chain = self._state_and_chain(request)
        return _json({"pdus": [pdu.event for pdu in state], "auth_chain": [pdu.event for pdu in chain]})

    def _state_and_chain(self, request: web.Request) -> tuple[list[Pdu], list[Pdu]]:
        room = self._room(request)
        state = list(room.state_before(request.query["event_id"]).values())
        return state, room.auth_chain(state)

    async def _backfill(self, request: web.Request) -> web.Response:
        limit = int(request.query.get("limit", "10"))
        return self._pdus(self._room(request).backfill(request.query.getall("v"), limit))

    async def _missing_events(self, request: web.Request) -> web.Response:
        asked = orjson.loads(await request.read())
        found = self._room(request).missing_events(
            asked["earliest_events"], asked["latest_events"], asked.get("limit", 10)
        )
        return _json({"events": [pdu.event for pdu in found]})

    async def _devices(self, request: web.Request) -> web.Response:
        return _json({"user_id": request.match_info["user_id"], "stream_id": 1, "devices": []})

    def _pdus(self, pdus: Sequence[Pdu]) -> web.Response:
        events = [pdu.event for pdu in pdus]
        return _json({"origin": self.name, "origin_server_ts": now_ms(), "pdus": events})


def now_ms() -> int:
    """Return the time in Matrix's unit."""
    return time.time_ns() // 1_000_000


async def _unrecognized(request: web.Request) -> web.Response:
    return _json({"errcode": "M_UNRECOGNIZED", "error": "The load generator does not play that."}, 404)


def _json(content: Mapping[str, Any], status: int = 200) -> web.Response:
    return web.Response(body=encode(dict(content)), status=status, content_type="application/json")
