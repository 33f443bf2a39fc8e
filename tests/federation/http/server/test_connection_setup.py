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

# Somewhere else than loopback, so that these tests are not among the peers that may speak plain HTTP.
ELSEWHERE = (ip_network("192.0.2.0/24"),)
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


async def test_plain_http_from_elsewhere_is_refused_with_the_reason(tls_files: TlsFiles) -> None:
    """403 in JSON and a clean end; nothing that was sent is read as HTTP."""
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


async def test_the_refusal_is_read_although_the_peer_goes_on_sending(tls_files: TlsFiles) -> None:
    """A reset would take the answer with it."""
    async with running(tls=Tls(tls_files), plain_networks=ELSEWHERE) as node, await node.connect() as client:
        client.writer.write(b"PUT / HTTP/1.1\r\n" + b"x" * 500_000)
        assert (await client.answer()).status == 403
        assert await client.is_closed()


async def test_tls_from_elsewhere_is_let_in(tls_files: TlsFiles, authority: Authority) -> None:
    """The networks are about plain HTTP alone."""
    async with (
        running(tls=Tls(tls_files), plain_networks=ELSEWHERE) as node,
        await node.connect(client_context(authority)) as client,
    ):
        assert (await client.ask()).status == 200


async def test_tls_is_refused_where_there_is_no_certificate() -> None:
    """Behind a proxy that ends TLS. There is no way to say so to a peer that speaks TLS."""
    async with running() as node:
        async with await node.connect() as client:
            await client.send(HELLO)
            assert await client.rest() == b""
        assert node.seen.refused == ["tls_not_offered"]


async def test_a_silent_connection_is_closed(tls_files: TlsFiles) -> None:
    """Nobody may hold a place without saying a word."""
    async with running(tls=Tls(tls_files), limits=replace(PATIENT, first_byte_timeout=0.01)) as node:
        async with await node.connect() as client:
            assert await client.is_closed()
        assert node.seen.refused == ["silent"]


async def test_a_peer_that_only_looks_in_is_no_failure(tls_files: TlsFiles) -> None:
    """Load balancers and scanners connect and leave."""
    async with running(tls=Tls(tls_files)) as node:
        async with await node.connect():
            pass
        await node.seen.until(lambda seen: seen.refused == ["gone"])


async def test_half_a_handshake_is_closed(tls_files: TlsFiles) -> None:
    """A peer that says hello in TLS and then nothing."""
    async with running(tls=Tls(tls_files), limits=replace(PATIENT, handshake_timeout=0.01)) as node:
        async with await node.connect() as client:
            await client.send(HELLO)
            assert await client.rest() == b""
        await node.seen.until(lambda seen: seen.failed == ["timeout"])


@pytest.mark.parametrize("ends_with_reset", [True, False])
async def test_a_handshake_that_the_peer_leaves_is_counted(
    tls_files: TlsFiles, ends_with_reset: bool
) -> None:
    """However it leaves."""
    async with running(tls=Tls(tls_files)) as node, await node.connect() as client:
        await client.send(HELLO)
        if ends_with_reset:
            client.writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
        client.writer.close()
        await node.seen.until(lambda seen: seen.failed == ["closed"])


async def test_junk_in_place_of_a_handshake_is_counted(tls_files: TlsFiles) -> None:
    """It began like TLS and was not."""
    async with running(tls=Tls(tls_files)) as node, await node.connect() as client:
        await client.send(b"\x16GET / HTTP/1.1\r\n\r\n")
        await client.rest()
        await node.seen.until(lambda seen: seen.failed == ["protocol"])


async def test_a_peer_that_does_not_trust_our_certificate_is_counted(tls_files: TlsFiles) -> None:
    """It says so in an alert, and the operator can see that it was our certificate."""

    def connect(port: int) -> None:
        context = client_context(Authority("Somebody else"))
        with (
            socket.create_connection(("127.0.0.1", port)) as connection,
            pytest.raises(ssl.SSLCertVerificationError),
        ):
            context.wrap_socket(connection, server_hostname="localhost")

    async with running(tls=Tls(tls_files)) as node:
        await asyncio.to_thread(connect, node.port)
        await node.seen.until(lambda seen: seen.failed == ["our_certificate"])


async def test_a_connection_too_many_is_told_so() -> None:
    """503 with the time to come back; a place that is given back can be taken."""
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


async def test_a_connection_too_many_from_one_address_is_told_so() -> None:
    """429: others may still come."""
    async with running(limits=replace(PATIENT, max_connections_per_address=1)) as node:
        async with await node.connect() as first, await node.connect() as second:
            assert (await first.ask()).status == 200
            answer = await second.ask()
            assert (answer.status, answer.json["errcode"]) == (429, "M_LIMIT_EXCEEDED")
            assert await second.is_closed()
        assert node.seen.refused == ["too_many_connections_from_address"]


async def test_a_connection_too_many_that_speaks_tls_is_closed(
    tls_files: TlsFiles, authority: Authority
) -> None:
    """A handshake is what there is no place for."""
    async with running(tls=Tls(tls_files), limits=replace(PATIENT, max_connections=1)) as node:
        async with await node.connect() as first:
            assert (await first.ask()).status == 200
            with pytest.raises(CUT_OFF):
                await node.connect(client_context(authority))
        assert node.seen.refused == ["too_many_connections"]


async def test_a_flood_is_closed_without_a_word() -> None:
    """To tell somebody takes a place, so only a few are told."""
    async with (
        running(limits=replace(PATIENT, max_connections=1, max_farewells=1)) as node,
        await node.connect() as first,
    ):
        assert (await first.ask()).status == 200
        async with await node.connect() as told:
            await node.seen.until(lambda seen: len(seen.refused) == 1)
            async with await node.connect() as untold:
                assert await untold.rest() == b""
            assert (await told.ask()).status == 503


async def test_one_too_many_that_says_nothing_is_closed() -> None:
    """The few who are told do not keep their place in silence."""
    async with (
        running(limits=replace(PATIENT, max_connections=1, linger_timeout=0.01)) as node,
        await node.connect() as first,
    ):
        assert (await first.ask()).status == 200
        async with await node.connect() as second:
            assert await second.is_closed()


async def test_a_connection_that_has_only_just_come_is_closed_too(tls_files: TlsFiles) -> None:
    """Although nothing has begun to look after it."""
    async with running(tls=Tls(tls_files)) as node:
        theirs, ours = socket.socketpair()
        with theirs:
            ours.setblocking(False)
            node.entrance.handle_socket(ours, "127.0.0.1")
            await node.entrance.close()
            assert ours.fileno() == -1


async def test_a_peer_that_does_not_end_its_tls_is_not_waited_for(
    tls_files: TlsFiles, authority: Authority
) -> None:
    """Both sides are to say that they end; one that does not is cut off."""
    limits = replace(PATIENT, idle_timeout=0.01, tls_shutdown_timeout=0.01)

    def ask(port: int) -> None:
        with (
            socket.create_connection(("127.0.0.1", port)) as connection,
            client_context(authority).wrap_socket(connection, server_hostname="localhost") as tls,
        ):
            tls.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            # It reads no more, and does not close, until the other side has given up.
            assert ended.wait(TIMEOUT)

    ended = threading.Event()
    async with running(tls=Tls(tls_files), limits=limits) as node:
        asking = asyncio.create_task(asyncio.to_thread(ask, node.port))
        await node.seen.until(lambda seen: seen.closed)
        ended.set()
        await asking


async def test_every_way_in_gives_its_place_and_its_file_back(
    tls_files: TlsFiles, authority: Authority
) -> None:
    """Whether it came to a request, to half a handshake, to a refusal, or to nothing."""
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
    # What is left of them goes within a few rounds of the loop.
    await node.entrance._setups.drain(60)
    while node.entrance._capacity.used:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0)


def _open_files() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


class Peers:
    """A server name for each way to configure a client certificate, and what its holder can show."""

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
async def test_a_peer_with_a_certificate_must_show_it(
    peers: Peers, authority: Authority, shown: str | None
) -> None:
    """For every peer and every certificate: only its own lets a request claim to come from that peer."""
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
        # A peer without one is not asked for any, whatever the connection shows.
        assert (await client.ask("/whoami", headers=claiming("other.example"))).status == 200


async def test_plain_http_shows_no_certificate(peers: Peers) -> None:
    """So none of these peers can be claimed there, however the claim is written."""
    async with (
        running(tls=peers.tls, routes=[web.get("/whoami", whoami)]) as node,
        await node.connect() as client,
    ):
        assert (await client.ask("/whoami", headers=claiming("LEAF.example"))).status == 401
        header = {"authorization": "x-matrix sig=c2ln,key=ed25519:x,ORIGIN=leaf.example"}
        assert (await client.ask("/whoami", headers=header)).status == 401
        assert (await client.ask("/whoami", headers=claiming("other.example"))).status == 200


@pytest.mark.parametrize("which", ["unknown", "forged"])
async def test_a_foreign_certificate_ends_the_handshake(
    peers: Peers, authority: Authority, which: str
) -> None:
    """One that nobody configured, and one that the holder of a leaf made itself."""
    context = client_context(authority, getattr(peers, which), peers.directory)
    async with running(tls=peers.tls) as node:
        # With TLS 1.3 the client is through before the server has looked.
        with pytest.raises(CUT_OFF):
            async with await node.connect(context) as client:
                await client.ask()
        await node.seen.until(lambda seen: seen.failed == ["their_certificate"])
        assert node.seen.answered == []


async def test_other_authorization_is_not_looked_at(peers: Peers) -> None:
    """A client's token, or an X-Matrix that cannot be read: the endpoint decides."""
    async with running(tls=peers.tls) as node, await node.connect() as client:
        for header in ("Bearer token", "X-Matrix nonsense", ""):
            assert (await client.ask(headers={"Authorization": header})).status == 200


async def test_a_resumed_session_still_shows_its_certificate(peers: Peers, authority: Authority) -> None:
    """TLS keeps what was verified with the session."""
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
        assert await asyncio.to_thread(twice, node.port) == [
            b'["leaf.example"]\x00',
            b'["leaf.example"]\x01',
        ]
