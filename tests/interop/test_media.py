"""Media between a real Synapse and a node, both ways, through the real listener and client."""

import hashlib
import io
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from PIL import Image

from federation.client.client import FederationClient
from federation.client.connections import PeerConnections
from federation.client.dns import Dns
from federation.client.peer_settings import ConfiguredPeers
from federation.client.public_web import PublicWeb
from federation.client.resolver import Resolver
from federation.http.app import make_app
from federation.http.endpoints import media as media_download
from federation.http.endpoints import media as media_thumbnail
from federation.http.endpoints import media as media_unauthenticated
from federation.http.server.capacity import Limits
from federation.http.server.listener import Bind, Listener, ListenerSettings
from federation.http.server.tls import Tls, TlsFiles
from federation.http.services import MEDIA, MediaServices, Node, Readiness
from federation.keys.key_ring import KeyRing
from federation.keys.server_keys import LocalKeys, key_from_seed, make_key_document
from federation.matrix.errors import MatrixError
from federation.matrix.networks import LOOPBACK, AdmissionRules
from federation.media.fetcher import MediaFetcher
from federation.media.media import MediaSettings
from federation.media.repository import MediaRepository
from federation.media.store import MediaStore
from federation.media.thumbnail_size import Method
from federation.peers.request_authenticator import RequestAuthenticator
from storage.database import Database
from storage.media.files import MediaFiles
from tests.federation.http.running import Recorder
from tests.federation.media.repository import read
from tests.federation.pictures import SVG, picture
from tests.support.matrix_client import Refused
from tests.support.ports import lasting_port, loopback_addresses
from tests.support.synapse import Synapse
from tests.support.tls import Authority

pytestmark = pytest.mark.interop

KEYS = LocalKeys(key_from_seed("first", b"m" * 32))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Us:
    """The part of a node that media needs."""

    name: str
    media: MediaRepository
    seen: Recorder

    @property
    def alice(self) -> str:
        return f"@alice:{self.name}"


@pytest.fixture
async def us(authority: Authority, database: Database, tmp_path: Path) -> AsyncIterator[Us]:
    async with AsyncExitStack() as stack:
        port, trusted, dns, peers = lasting_port(), authority.write(tmp_path, "ca"), Dns(), ConfiguredPeers()
        name = f"localhost:{port}"
        connections = PeerConnections(dns, peers, user_agent="palaver-test", authorities=trusted)
        stack.push_async_callback(connections.close)
        resolver = Resolver(connections, dns, peers)
        stack.push_async_callback(resolver.close)
        client = FederationClient(name, lambda: KEYS, resolver, connections, may_contact=lambda _: True)
        ring = KeyRing(name, lambda: KEYS, client, database, now_ms=now_ms)
        stack.push_async_callback(ring.close)
        web = PublicWeb(dns, user_agent="palaver-test")
        stack.push_async_callback(web.close)

        settings = MediaSettings()
        store = MediaStore(database, MediaFiles(tmp_path / "media"), now_ms)
        media = MediaRepository(name, store, MediaFetcher(store, client, web, settings.max_remote_size), settings)
        await media.start()
        stack.push_async_callback(media.close)

        limits, seen = Limits(), Recorder()
        node = Node(
            lambda: orjson.dumps(make_key_document(name, KEYS, now_ms())), Readiness, "1.2.3", AdmissionRules(LOOPBACK)
        )
        app = make_app(node, limits, (*media_download.ROUTES, *media_thumbnail.ROUTES, *media_unauthenticated.ROUTES))
        app[MEDIA] = MediaServices(media, RequestAuthenticator(name, ring, is_allowed=lambda _: True))
        certificate = TlsFiles(*authority.issue("localhost").write(tmp_path, "us"))
        binds = tuple(Bind(address) for address in loopback_addresses())
        listener = Listener(app, ListenerSettings(binds, port, LOOPBACK, limits), Tls(certificate), seen)
        await listener.start()
        stack.push_async_callback(listener.close, 1.0)
        yield Us(name, media, seen)
    assert seen.problems == []


@pytest.mark.parametrize("size", [1, 300_000, 20_000_000])
async def test_a_synapse_user_downloads_local_media(synapse: Synapse, us: Us, size: int) -> None:
    """Byte for byte, with its type and name; small, and larger than one write."""
    bob = await synapse.person()
    data = hashlib.shake_256(b"noise").digest(size)
    info = await us.media.upload(us.alice, data, "video/mp4", "Grüße.mp4")
    got = await bob.download(str(info.mxc))
    assert (got.data == data, got.content_type) == (True, "video/mp4")
    assert "Gr%C3%BC%C3%9Fe.mp4" in got.headers["Content-Disposition"]
    answered = ("/_matrix/federation/v1/media/download/{media_id}", "GET", 200)
    assert answered in us.seen.answered


async def test_a_synapse_user_gets_a_thumbnail_of_local_media(synapse: Synapse, us: Us) -> None:
    """Synapse makes it from what it downloads."""
    bob = await synapse.person()
    info = await us.media.upload(us.alice, picture(), "image/png", "a.png")
    got = await bob.thumbnail(str(info.mxc), 96, 96, method="crop")
    with Image.open(io.BytesIO(got.data)) as image:
        assert image.size == (96, 96)


async def test_missing_local_media_is_not_found(synapse: Synapse, us: Us) -> None:
    """Nor is media in quarantine; Synapse tries no other endpoint."""
    bob = await synapse.person()
    hidden = await us.media.upload(us.alice, b"hidden", "text/plain")
    await us.media.quarantine(hidden.mxc)
    for mxc in (f"mxc://{us.name}/nothing", str(hidden.mxc)):
        with pytest.raises(Refused) as refused:
            await bob.download(mxc)
        assert refused.value.errcode == "M_NOT_FOUND"
    assert {route for route, _, status in us.seen.answered if status == 404} == {
        "/_matrix/federation/v1/media/download/{media_id}"
    }


async def test_remote_media_is_downloaded(synapse: Synapse, us: Us) -> None:
    """With its hash and a local thumbnail; the second time from the cache."""
    bob = await synapse.person()
    mxc = await bob.upload(picture(), "image/png", filename="Grüße.png")
    for _ in range(2):
        async with us.media.open(mxc) as opened:
            assert await read(opened) == picture()
    assert opened.info.sha256 == hashlib.sha256(picture()).hexdigest()
    assert (opened.info.content_type, opened.info.file_name) == ("image/png", "Grüße.png")
    assert (await us.media.thumbnail(mxc, 32, 32, Method.CROP)).info.content_type == "image/jpeg"


async def test_any_remote_media_is_downloaded(synapse: Synapse, us: Us) -> None:
    """Large files, and active content, which is never shown inline."""
    bob = await synapse.person()
    large = hashlib.shake_256(b"more noise").digest(1_000_000)
    async with us.media.open(await bob.upload(large, "application/zip")) as opened:
        assert await read(opened) == large
    async with us.media.open(await bob.upload(SVG, "image/png")) as opened:
        assert opened.info.content_type == "application/octet-stream"


async def test_missing_remote_media_is_not_found(synapse: Synapse, us: Us) -> None:
    """With Synapse's error."""
    with pytest.raises(MatrixError) as refused:
        async with us.media.open(f"mxc://{synapse.server_name}/nothing"):
            pass
    assert (refused.value.status, refused.value.errcode) == (404, "M_NOT_FOUND")
