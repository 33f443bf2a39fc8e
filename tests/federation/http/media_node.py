"""A listener with media, and a peer that requests it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from federation.client.requests import authorization
from federation.http.app import make_app
from federation.http.endpoints import media as media_download
from federation.http.endpoints import media as media_thumbnail
from federation.http.endpoints import media as media_unauthenticated
from federation.http.server.listener import Bind, Listener, ListenerSettings
from federation.http.server.tls import Tls
from federation.http.services import MEDIA, MediaServices, Node, Readiness
from federation.keys.key_ring import KeyRing
from federation.keys.server_keys import LocalKey
from federation.matrix.networks import LOOPBACK, AdmissionRules
from federation.media.media import MediaSettings
from federation.media.repository import MediaRepository
from federation.peers.request_authenticator import RequestAuthenticator
from storage.database import Database
from tests.federation.http.running import KEYS, PATIENT, Answer, Client, Recorder, Running
from tests.federation.media.repository import Repository, repository
from tests.support.key_server import key_server
from tests.support.loopback_server import Certificates
from tests.support.name_server import NameServer
from tests.support.neighbourhood import OWN_KEYS, OWN_NAME, Neighbourhood
from tests.support.server_keys import NOW, key

PEER_KEY = key("1")
DOWNLOAD = "/_matrix/federation/v1/media/download"
THUMBNAIL = "/_matrix/federation/v1/media/thumbnail"
ROUTES = (*media_download.ROUTES, *media_thumbnail.ROUTES, *media_unauthenticated.ROUTES)


@dataclass
class MediaNode:
    """`peer` is the name of a server whose key is known."""

    running: Running
    media: MediaRepository
    shared: MediaServices
    repository: Repository
    neighbourhood: Neighbourhood
    peer: str

    def signed(self, path: str, *, signer: LocalKey = PEER_KEY, origin: str | None = None) -> Mapping[str, str]:
        return {"Authorization": authorization("GET", path, origin or self.peer, OWN_NAME, None, signer)}

    async def ask(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        async with await self.running.connect() as client:
            return await client.ask(path, headers=self.signed(path) if headers is None else headers)

    async def connect(self) -> Client:
        return await self.running.connect()


@asynccontextmanager
async def media_node(
    database: Database,
    directory: Path,
    *,
    settings: MediaSettings | None = None,
    max_concurrent: int = 32,
    tls: Tls | None = None,
) -> AsyncIterator[MediaNode]:
    """Run the node. Any reported problem fails the test."""
    async with AsyncExitStack() as stack:
        names = await stack.enter_async_context(NameServer().running())
        neighbourhood = Neighbourhood(names, Certificates(directory), stack)
        peer = await key_server(neighbourhood, "a.test", PEER_KEY)
        ring = KeyRing(OWN_NAME, lambda: OWN_KEYS, neighbourhood.reach().client, database, now_ms=lambda: NOW)
        stack.push_async_callback(ring.close)
        kept = repository(database, directory)
        media = kept.media(settings=settings)
        stack.push_async_callback(media.close)
        authenticator = RequestAuthenticator(OWN_NAME, ring, is_allowed=lambda _: True)
        shared = MediaServices(media, authenticator, max_concurrent=max_concurrent)
        app = make_app(Node(lambda: KEYS, Readiness, "1.2.3", AdmissionRules(LOOPBACK)), PATIENT, ROUTES)
        app[MEDIA] = shared
        seen = Recorder()
        listener = Listener(app, ListenerSettings((Bind("127.0.0.1"),), 0, LOOPBACK, PATIENT), tls, seen)
        [address] = await listener.start()
        stack.push_async_callback(listener.close, 1.0)
        yield MediaNode(Running(listener, address.port, seen, tls), media, shared, kept, neighbourhood, peer.name)
    assert seen.problems == []


def two_parts(answer: Answer) -> tuple[Mapping[str, str], bytes]:
    """Return the headers of the second part, and its bytes."""
    assert answer.status == 200, answer.body
    kind, _, boundary = answer.headers["content-type"].partition("; boundary=")
    assert kind == "multipart/mixed"
    nothing, first, media, end = (b"\r\n" + answer.body).split(f"\r\n--{boundary}".encode())
    assert (nothing, first, end) == (b"", b"\r\nContent-Type: application/json\r\n\r\n{}", b"--\r\n")
    head, _, data = media.removeprefix(b"\r\n").partition(b"\r\n\r\n")
    fields = (line.partition(": ") for line in head.decode().split("\r\n"))
    return {name.lower(): value for name, _, value in fields}, data
