"""Setting up connections: TLS and plain HTTP, limits, client certificates."""

import asyncio
import gc
import socket
import ssl
import struct
import threading
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path

import pytest
from aiohttp import web

from federation.http.responses import json_response
from federation.http.server.connection import client_certificate
from federation.http.server.tls import Tls, TlsFiles
from tests.federation.http.running import CUT_OFF, PATIENT, TIMEOUT, Running, client_context, running
from tests.support.tls import Authority, self_signed, signed_by_leaf

# Not loopback, so that these tests are not in the networks that may use plain HTTP.
ELSEWHERE = (ip_network("192.0.2.0/24"),)
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


async def test_plain_http_from_other_networks_is_refused(tls_files: TlsFiles) -> None:
    """With a 403 in JSON; the request is not parsed."""
    async with running(tls=Tls(tls_files), plain_networks=ELSEWHERE) as node:
        async with await node.connect() as client:
            answer = await client.ask("/_matrix/key/v2/server")
            assert answer.status == 403
            assert answer.json["errcode"] == "M_FORBIDDEN"
            assert "https" in answer.json["error"]
            assert answer.headers["connection"] == "close"
            assert await client.is_closed()
        assert node.seen.refused == ["plain_not_allowed"]
        assert node.seen.opened == []
        assert node.seen.answered == []


async def test_the_refusal_is_read_while_the_peer_sends(tls_files: TlsFiles) -> None:
    """A reset would discard it."""
    async with running(tls=Tls(tls_files), plain_networks=ELSEWHERE) as node, await node.connect() as client:
        client.writer.write(b"PUT / HTTP/1.1\r\n" + b"x" * 500_000)
        assert (await client.answer()).status == 403
        assert await client.is_closed()


async def test_tls_is_accepted_from_all_networks(tls_files: TlsFiles, authority: Authority) -> None:
    """The configured networks concern plain HTTP only."""
    async with (
        running(tls=Tls(tls_files), plain_networks=ELSEWHERE) as node,
        await node.connect(client_context(authority)) as client,
    ):
        assert (await client.ask()).status == 200


async def test_tls_is_refused_without_a_certificate() -> None:
    """Behind a proxy that terminates TLS. There is no response to a TLS client."""
    async with running() as node:
        async with await node.connect() as client:
            await client.send(HELLO)
            assert await client.rest() == b""
        assert node.seen.refused == ["tls_not_offered"]


async def test_a_silent_connection_is_closed(tls_files: TlsFiles) -> None:
    """It must not hold a slot."""
    async with running(tls=Tls(tls_files), limits=replace(PATIENT, first_byte_timeout=0.01)) as node:
        async with await node.connect() as client:
            assert await client.is_closed()
        assert node.seen.refused == ["silent"]


async def test_a_peer_that_connects_and_closes_is_not_reported(tls_files: TlsFiles) -> None:
    """Load balancers and scanners do so."""
    async with running(tls=Tls(tls_files)) as node:
        async with await node.connect():
            pass
        await node.seen.until(lambda seen: seen.refused == ["gone"])


async def test_an_incomplete_handshake_is_closed(tls_files: TlsFiles) -> None:
    """After a ClientHello."""
    async with running(tls=Tls(tls_files), limits=replace(PATIENT, handshake_timeout=0.01)) as node:
        async with await node.connect() as client:
            await client.send(HELLO)
            assert await client.rest() == b""
        await node.seen.until(lambda seen: seen.failed == ["timeout"])


@pytest.mark.parametrize("ends_with_reset", [True, False])
async def test_an_aborted_handshake_is_counted(tls_files: TlsFiles, ends_with_reset: bool) -> None:
    """Whether closed or reset."""
    async with running(tls=Tls(tls_files)) as node, await node.connect() as client:
        await client.send(HELLO)
        if ends_with_reset:
            client.writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
        client.writer.close()
        await node.seen.until(lambda seen: seen.failed == ["closed"])


async def test_an_invalid_handshake_is_counted(tls_files: TlsFiles) -> None:
    """After a first byte of TLS."""
    async with running(tls=Tls(tls_files)) as node, await node.connect() as client:
        await client.send(b"\x16GET / HTTP/1.1\r\n\r\n")
        await client.rest()
        await node.seen.until(lambda seen: seen.failed == ["protocol"])


async def test_a_peer_that_refuses_the_certificate_is_counted(tls_files: TlsFiles) -> None:
    """By its alert, as a problem of this server's certificate."""

    def connect(port: int) -> None:
        context = client_context(Authority("Somebody else"))
        with socket.create_connection(("127.0.0.1", port)) as connection, pytest.raises(ssl.SSLCertVerificationError):
            context.wrap_socket(connection, server_hostname="localhost")

    async with running(tls=Tls(tls_files)) as node:
        await asyncio.to_thread(connect, node.port)
        await node.seen.until(lambda seen: seen.failed == ["our_certificate"])


async def test_too_many_connections_are_answered_503() -> None:
    """With Retry-After; a released slot can be used again."""
    async with running(limits=replace(PATIENT, max_connections=1)) as node:
        async with await node.connect() as first:
            assert (await first.ask()).status == 200
            async with await node.connect() as second:
                answer = await second.ask()
                assert (answer.status, answer.json["errcode"]) == (503, "M_LIMIT_EXCEEDED")
                assert answer.json["retry_after_ms"] == 5000
                assert answer.headers["retry-after"] == "5"
                assert await second.is_closed()
        assert node.seen.refused == ["too_many_connections"]
        await node.seen.until(lambda seen: seen.closed)
        async with await node.connect() as third:
            assert (await third.ask()).status == 200


async def test_too_many_connections_of_an_address_are_answered_429() -> None:
    """Other addresses may still connect."""
    async with running(limits=replace(PATIENT, max_connections_per_address=1)) as node:
        async with await node.connect() as first, await node.connect() as second:
            assert (await first.ask()).status == 200
            answer = await second.ask()
            assert (answer.status, answer.json["errcode"]) == (429, "M_LIMIT_EXCEEDED")
            assert await second.is_closed()
        assert node.seen.refused == ["too_many_connections_from_address"]


async def test_too_many_tls_connections_are_closed(tls_files: TlsFiles, authority: Authority) -> None:
    """A handshake would need a slot."""
    async with running(tls=Tls(tls_files), limits=replace(PATIENT, max_connections=1)) as node:
        async with await node.connect() as first:
            assert (await first.ask()).status == 200
            with pytest.raises(CUT_OFF):
                await node.connect(client_context(authority))
        assert node.seen.refused == ["too_many_connections"]


async def test_a_flood_is_closed_without_responses() -> None:
    """Responding needs resources, so only a few get a response."""
    async with (
        running(limits=replace(PATIENT, max_connections=1, max_refusal_responses=1)) as node,
        await node.connect() as first,
    ):
        assert (await first.ask()).status == 200
        async with await node.connect() as told:
            await node.seen.until(lambda seen: len(seen.refused) == 1)
            async with await node.connect() as untold:
                assert await untold.rest() == b""
            assert (await told.ask()).status == 503


async def test_a_silent_connection_beyond_the_limit_is_closed() -> None:
    """It must not hold resources."""
    async with (
        running(limits=replace(PATIENT, max_connections=1, linger_timeout=0.01)) as node,
        await node.connect() as first,
    ):
        assert (await first.ask()).status == 200
        async with await node.connect() as second:
            assert await second.is_closed()


async def test_a_new_connection_is_closed_on_close(tls_files: TlsFiles) -> None:
    """Even before its task has begun."""
    async with running(tls=Tls(tls_files)) as node:
        theirs, ours = socket.socketpair()
        with theirs:
            ours.setblocking(False)
            node.entrance.handle_socket(ours, "127.0.0.1")
            await node.entrance.close()
            assert ours.fileno() == -1


async def test_tls_shutdown_has_a_timeout(tls_files: TlsFiles, authority: Authority) -> None:
    """A peer that does not complete it is disconnected."""
    limits = replace(PATIENT, idle_timeout=0.01, tls_shutdown_timeout=0.01)

    def ask(port: int) -> None:
        with (
            socket.create_connection(("127.0.0.1", port)) as connection,
            client_context(authority).wrap_socket(connection, server_hostname="localhost") as tls,
        ):
            tls.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            # It neither reads nor closes until the other side has given up.
            assert ended.wait(TIMEOUT)

    ended = threading.Event()
    async with running(tls=Tls(tls_files), limits=limits) as node:
        asking = asyncio.create_task(asyncio.to_thread(ask, node.port))
        await node.seen.until(lambda seen: seen.closed)
        ended.set()
        await asking


async def test_slots_and_files_are_released_in_all_cases(tls_files: TlsFiles, authority: Authority) -> None:
    """After requests, partial handshakes, refusals and silence."""
    limits = replace(PATIENT, max_connections=40, first_byte_timeout=0.05, handshake_timeout=0.05)
    async with running(tls=Tls(tls_files), limits=limits) as node:
        context = client_context(authority)
        await _every_way_in(node, context)
        before = _open_files()
        for _ in range(5):
            await _every_way_in(node, context)
        assert node.entrance._capacity.used == 0
        assert _open_files() <= before


async def _every_way_in(node: Running, context: ssl.SSLContext) -> None:
    async with await node.connect() as plain:
        assert (await plain.ask()).status == 200
    async with await node.connect(context) as tls:
        assert (await tls.ask()).status == 200
    for said in (b"", HELLO, b"\x16junk" * 10, b"junk\r\n\r\n"):
        async with await node.connect() as client:
            await client.send(said)
            await client.rest()
    for said in (b"", HELLO):
        async with await node.connect() as client:
            await client.send(said)
    # Their remains are released within a few iterations of the event loop.
    await node.entrance._setups.drain(60)
    while node.entrance._capacity.used:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0)


def _open_files() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


class Peers:
    """A server name for each way to configure a client certificate, and the certificates that it has."""

    def __init__(self, directory: Path, server: TlsFiles) -> None:
        self.directory = directory
        kitchen, garden, shared = Authority("Kitchen"), Authority("Garden"), Authority("Shared")
        self.shown = {
            "leaf.example": kitchen.issue("leaf.example"),
            "self.example": self_signed("self.example"),
            "authority.example": garden.issue("anything"),
            "one.example": shared.issue("one.example"),
            "two.example": shared.issue("two.example"),
        }
        configured = {
            "leaf.example": self.shown["leaf.example"].pem,
            "self.example": self.shown["self.example"].pem,
            "authority.example": garden.pem,
            "one.example": shared.pem,
            "two.example": shared.pem,
        }
        files = {}
        for peer, pem in configured.items():
            files[peer] = directory / f"{peer}.configured.pem"
            files[peer].write_bytes(pem)
        self.tls = Tls(TlsFiles(server.certificate, server.private_key, files))
        self.unknown = kitchen.issue("leaf.example")
        self.forged = signed_by_leaf(self.shown["self.example"], "self.example")


NAMES = ["leaf.example", "self.example", "authority.example", "one.example", "two.example"]


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory, tls_files: TlsFiles) -> Peers:
    return Peers(tmp_path_factory.mktemp("peers"), tls_files)


async def whoami(request: web.Request) -> web.Response:
    certificate = client_certificate(request)
    return json_response(sorted(certificate.peers) if certificate else None)


def claiming(origin: str) -> dict[str, str]:
    return {"Authorization": f'X-Matrix origin="{origin}",destination="localhost",key="ed25519:x",sig="c2ln"'}


@pytest.mark.parametrize("shown", [None, *NAMES])
async def test_a_peer_must_present_its_certificate(peers: Peers, authority: Authority, shown: str | None) -> None:
    """For each peer and certificate: only its own permits a request in its name."""
    context = client_context(authority, peers.shown[shown] if shown else None, peers.directory)
    async with (
        running(tls=peers.tls, routes=[web.get("/whoami", whoami)]) as node,
        await node.connect(context) as client,
    ):
        assert (await client.ask("/whoami")).json == ([shown] if shown else None)
        for origin in NAMES:
            answer = await client.ask("/whoami", headers=claiming(origin))
            assert answer.status == (200 if origin == shown else 401), origin
            if origin != shown:
                assert answer.json["errcode"] == "M_UNAUTHORIZED"
        # A peer without a configured certificate needs none, whatever the connection presents.
        assert (await client.ask("/whoami", headers=claiming("other.example"))).status == 200


async def test_plain_http_has_no_certificate(peers: Peers) -> None:
    """So these peers' names are refused there in each form of the header."""
    async with running(tls=peers.tls, routes=[web.get("/whoami", whoami)]) as node, await node.connect() as client:
        assert (await client.ask("/whoami", headers=claiming("LEAF.example"))).status == 401
        header = {"authorization": "x-matrix sig=c2ln,key=ed25519:x,ORIGIN=leaf.example"}
        assert (await client.ask("/whoami", headers=header)).status == 401
        assert (await client.ask("/whoami", headers=claiming("other.example"))).status == 200


@pytest.mark.parametrize("which", ["unknown", "forged"])
async def test_an_unknown_certificate_ends_the_handshake(peers: Peers, authority: Authority, which: str) -> None:
    """One that is not configured, and one signed with a leaf certificate."""
    context = client_context(authority, getattr(peers, which), peers.directory)
    async with running(tls=peers.tls) as node:
        # With TLS 1.3 the client's handshake ends before the server has checked its certificate.
        with pytest.raises(CUT_OFF):
            async with await node.connect(context) as client:
                await client.ask()
        await node.seen.until(lambda seen: seen.failed == ["their_certificate"])
        assert node.seen.answered == []


async def test_other_authorization_is_ignored(peers: Peers) -> None:
    """A client's token, or an invalid X-Matrix header: the endpoint decides."""
    async with running(tls=peers.tls) as node, await node.connect() as client:
        for header in ("Bearer token", "X-Matrix nonsense", ""):
            assert (await client.ask(headers={"Authorization": header})).status == 200


async def test_a_resumed_session_has_its_certificate(peers: Peers, authority: Authority) -> None:
    """TLS keeps the verified certificate with the session."""
    context = client_context(authority, peers.shown["leaf.example"], peers.directory)
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    def twice(port: int) -> list[bytes]:
        answers, session = [], None
        for _ in range(2):
            with (
                socket.create_connection(("127.0.0.1", port)) as connection,
                context.wrap_socket(connection, server_hostname="localhost", session=session) as tls,
            ):
                tls.sendall(b"GET /whoami HTTP/1.0\r\n\r\n")
                answers.append(tls.recv(4096).rpartition(b"\r\n")[2] + bytes([tls.session_reused or False]))
                session = tls.session
        return answers

    async with running(tls=peers.tls, routes=[web.get("/whoami", whoami)]) as node:
        assert await asyncio.to_thread(twice, node.port) == [b'["leaf.example"]\x00', b'["leaf.example"]\x01']
