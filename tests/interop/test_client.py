"""Requests between a node and a real Synapse, both ways: keys, signatures and discovery, without rooms."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest
from aiohttp import web

from federation.client.client import FederationClient
from federation.client.connections import PeerConnections
from federation.client.dns import Dns
from federation.client.errors import PeerRefused
from federation.client.peer_settings import CertificateFiles, ConfiguredPeers
from federation.client.requests import request_target
from federation.client.resolver import Resolver
from federation.keys.key_ring import KeyRing
from federation.keys.server_keys import KeyNeed, LocalKeys, key_from_seed, make_key_document, rotate
from federation.matrix.errors import MatrixError
from federation.peers.request_authenticator import AuthenticatedRequest, RequestAuthenticator
from storage.database import Database
from tests.support.loopback_server import LoopbackServer
from tests.support.synapse import Synapse
from tests.support.tls import Authority

pytestmark = pytest.mark.interop

KEY_SERVER = request_target("/_matrix/key/v2/server")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Us:
    """The part of a server that is needed for authentication: keys, a client, and a check of requests."""

    server: LoopbackServer
    keys: LocalKeys = field(default_factory=lambda: LocalKeys(key_from_seed("first", b"1" * 32)))
    came: list[AuthenticatedRequest] = field(default_factory=list)
    refused: list[MatrixError] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"localhost:{self.server.port}"

    def use(self, client: FederationClient, ring: KeyRing) -> None:
        self.client, self.ring = client, ring
        self.authenticator = RequestAuthenticator(self.name, ring, is_allowed=lambda _: True)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path.startswith("/_matrix/key/v2/server"):
            return web.json_response(make_key_document(self.name, self.keys, now_ms()))
        try:
            self.came.append(await self.authenticator.authenticate(request))
        except MatrixError as error:
            self.refused.append(error)
            return web.json_response(error.body(), status=error.status)
        return web.json_response({"room_id": f"!found:{self.name}", "servers": [self.name]})


@pytest.fixture
async def us(authority: Authority, database: Database, tmp_path: Path) -> AsyncIterator[Us]:
    async with AsyncExitStack() as stack:

        async def handle(request: web.Request) -> web.StreamResponse:
            return await made.handle(request)

        files = CertificateFiles(*authority.issue("localhost").write(tmp_path, "us"))
        server = await stack.enter_async_context(LoopbackServer(handle).running(files))
        made = Us(server)
        dns, peers = Dns(), ConfiguredPeers()
        connections = PeerConnections(
            dns, peers, user_agent="palaver-test", authorities=authority.write(tmp_path, "ca")
        )
        stack.push_async_callback(connections.close)
        resolver = Resolver(connections, dns, peers)
        stack.push_async_callback(resolver.close)
        client = FederationClient(made.name, lambda: made.keys, resolver, connections, may_contact=lambda _: True)
        ring = KeyRing(made.name, lambda: made.keys, client, database, now_ms=now_ms)
        stack.push_async_callback(ring.close)
        made.use(client, ring)
        yield made


async def test_the_version_is_read(synapse: Synapse, us: Us) -> None:
    """Over TLS with its certificate checked."""
    target = request_target("/_matrix/federation/v1/version")
    answer = await us.client.request("GET", synapse.server_name, target, signed=False)
    assert answer["server"]["name"] == "Synapse"


async def test_its_keys_are_accepted(synapse: Synapse, us: Us) -> None:
    """Its document is signed correctly, and its key is valid now."""
    document = await us.client.request("GET", synapse.server_name, KEY_SERVER, signed=False)
    [key_id] = document["verify_keys"]
    keys = await us.ring.keys_for([KeyNeed(synapse.server_name, key_id, now_ms())])
    assert keys[synapse.server_name][key_id].is_valid_at(now_ms(), now_ms())
    assert set(await us.ring.request_keys(synapse.server_name, [key_id])) == {key_id}


async def test_it_accepts_our_signatures(synapse: Synapse, us: Us) -> None:
    """With escapes in path and query, with and without a body, and with a key that was rotated just
    before."""
    person = await synapse.person()
    await person.set_display_name("Äda")
    profile = request_target(
        "/_matrix/federation/v1/query/{queryType}",
        query=[("user_id", person.user_id), ("field", "displayname")],
        queryType="profile",
    )
    assert await us.client.request("GET", synapse.server_name, profile) == {"displayname": "Äda"}
    devices = request_target("/_matrix/federation/v1/user/devices/{userId}", userId=person.user_id)
    assert (await us.client.request("GET", synapse.server_name, devices))["user_id"] == person.user_id
    claim = request_target("/_matrix/federation/v1/user/keys/query")
    question = {"device_keys": {person.user_id: []}}
    assert "device_keys" in await us.client.request("POST", synapse.server_name, claim, question)

    us.keys = rotate(us.keys, key_from_seed("second", b"2" * 32), now_ms())
    assert await us.client.request("GET", synapse.server_name, profile) == {"displayname": "Äda"}


async def test_it_accepts_a_transaction(synapse: Synapse, us: Us) -> None:
    """The signed bytes were encoded only once."""
    target = request_target("/_matrix/federation/v1/send/{txnId}", txnId="1 / ä")
    content = orjson.dumps(
        {"edus": [], "origin": us.name, "origin_server_ts": now_ms(), "pdus": []}, option=orjson.OPT_SORT_KEYS
    )
    assert await us.client.request("PUT", synapse.server_name, target, content) == {"pdus": {}}


async def test_its_errors_are_read(synapse: Synapse, us: Us) -> None:
    """As the peer's refusal, with its errcode."""
    profile = request_target(
        "/_matrix/federation/v1/query/{queryType}",
        query=[("user_id", f"@nobody:{synapse.server_name}")],
        queryType="profile",
    )
    with pytest.raises(PeerRefused) as refused:
        await us.client.request("GET", synapse.server_name, profile)
    assert (refused.value.status, refused.value.errcode) == (404, "M_NOT_FOUND")
    with pytest.raises(PeerRefused) as refused:
        await us.client.request("GET", synapse.server_name, profile, signed=False)
    assert (refused.value.status, refused.value.errcode) == (401, "M_UNAUTHORIZED")


async def test_an_unknown_event_is_not_found(synapse: Synapse, us: Us) -> None:
    """The check for delivered events uses this; the response has no errcode."""
    target = request_target("/_matrix/federation/v1/event/{eventId}", eventId="$nothing")
    with pytest.raises(PeerRefused) as refused:
        await us.client.request("GET", synapse.server_name, target)
    assert refused.value.status == 404


async def test_its_requests_are_authenticated(synapse: Synapse, us: Us) -> None:
    """A person looks up an alias of this node; Synapse signs the request, and the signature is verified."""
    person = await synapse.person()
    answer = await person.resolve(f"#röom/1:{us.name}")
    assert answer["room_id"] == f"!found:{us.name}"
    assert us.came == [AuthenticatedRequest(synapse.server_name, None)]
    assert us.refused == []


async def test_it_acts_as_a_notary(synapse: Synapse, us: Us, database: Database) -> None:
    """For keys of a server that may not be asked directly."""
    other = KeyRing(
        "elsewhere.test",
        lambda: us.keys,
        FederationClient(
            "elsewhere.test",
            lambda: us.keys,
            us.client._resolver,
            us.client._connections,
            may_contact=lambda name: name == synapse.server_name,
        ),
        database,
        now_ms=now_ms,
        notaries=[synapse.server_name],
    )
    keys = await other.keys_for([KeyNeed(us.name, us.keys.current.key_id, now_ms())])
    assert keys[us.name][us.keys.current.key_id].public == bytes(us.keys.current.signing_key.verify_key)
    [document] = await other.documents(us.name, [us.keys.current.key_id])
    assert orjson.loads(document)["server_name"] == us.name
    await other.close()
