"""Requests to real servers on loopback, over TLS with verification."""

import asyncio
import gzip
from typing import Any

import pytest
from aiohttp import web

from federation.client.client import LARGE, SMALL, FederationClient
from federation.client.errors import PeerMalformed, PeerNotAllowed, PeerRefused, PeerTimedOut, PeerUnreachable
from federation.client.requests import request_target
from federation.keys.server_keys import LocalKeys, key_from_seed
from federation.keys.x_matrix import parse, signed_object
from federation.matrix.canonical_json import decode, encode
from federation.matrix.errors import PeerError
from federation.matrix.signatures import Verified, VerifyKey, verify
from federation.observer import Outcome
from tests.support.loopback_server import LoopbackServer, raw_server
from tests.support.neighbourhood import OWN_KEYS, OWN_NAME, Neighbourhood, Reach, answering

VERSION = request_target("/_matrix/federation/v1/version")
SEND = request_target("/_matrix/federation/v1/send/{txnId}", txnId="1")


async def one_server(neighbourhood: Neighbourhood, handler: Any) -> tuple[LoopbackServer, Reach, str]:
    """A server, a client, and the server's name with its port."""
    server = await neighbourhood.server(handler, "a.test")
    return server, neighbourhood.reach(), f"a.test:{server.port}"


def is_signed(request: web.Request, body: bytes, destination: str) -> bool:
    """Check as a server does: against the request line and the parsed body."""
    header = parse(request.headers["Authorization"])
    content = decode(body) if body else None
    signed = encode(signed_object(request.method, request.raw_path, header.origin, destination, content))
    signatures = {header.origin: {header.key: header.signature}}
    keys = {OWN_KEYS.current.key_id: VerifyKey(bytes(OWN_KEYS.current.signing_key.verify_key), 0)}
    assert (header.origin, header.destination) == (OWN_NAME, destination)
    return verify(signed, signatures, OWN_NAME, keys) == Verified()


async def test_a_get_is_signed_as_it_is_sent(neighbourhood: Neighbourhood) -> None:
    """Over the exact path and query, and without content."""
    server, reach, name = await one_server(neighbourhood, answering({"ok": True}))
    target = request_target(
        "/_matrix/federation/v1/state/{roomId}", query=[("event_id", "$a/b+c=")], roomId="!r:a.test/%2F ä"
    )
    assert await reach.client.request("GET", name, target) == {"ok": True}
    [request] = server.requests
    assert request.raw_path == target.uri
    assert is_signed(request, b"", name)
    assert request.headers["Host"] == name
    assert request.headers["User-Agent"] == "test"
    assert request.headers["Accept-Encoding"] == "identity"
    assert "Content-Type" not in request.headers
    assert server.names == ["a.test"]


@pytest.mark.parametrize("method", ["PUT", "POST"])
@pytest.mark.parametrize("content", [{}, {"b": 1, "a": {"ä": [None, "\u2028"]}}, b'{"pdus":[]}'])
async def test_a_body_is_signed_as_it_is_sent(
    neighbourhood: Neighbourhood, method: str, content: dict[str, Any] | bytes
) -> None:
    """Canonical JSON, an empty object included."""
    server, reach, name = await one_server(neighbourhood, answering({}))
    await reach.client.request(method, name, SEND, content)
    [request] = server.requests
    assert server.bodies == [content if isinstance(content, bytes) else encode(content)]
    assert is_signed(request, server.bodies[0], name)
    assert request.headers["Content-Type"] == "application/json"


async def test_a_large_body_is_sent_completely(neighbourhood: Neighbourhood) -> None:
    """A full transaction has a few megabytes."""
    server, reach, name = await one_server(neighbourhood, answering({}))
    content = {"pdus": ["x" * 60_000] * 50}
    await reach.client.request("PUT", name, SEND, content)
    assert server.bodies == [encode(content)]


async def test_an_unsigned_request(neighbourhood: Neighbourhood) -> None:
    """Keys are requested before a signature can be verified."""
    server, reach, name = await one_server(neighbourhood, answering({}))
    await reach.client.request("GET", name, VERSION, signed=False)
    assert "Authorization" not in server.requests[0].headers


async def test_after_srv_the_certificate_is_for_the_server_name(neighbourhood: Neighbourhood) -> None:
    """`Host`, SNI and certificate are the original name: DNS is not trusted with more."""
    server = await neighbourhood.server(answering({}), "c.test", files=neighbourhood.certificates.make("a.test"))
    neighbourhood.names.add("_matrix-fed._tcp.a.test", "SRV", f"0 0 {server.port} c.test.")
    await neighbourhood.reach().client.request("GET", "a.test", VERSION)
    assert server.requests[0].headers["Host"] == "a.test"
    assert server.names == ["a.test"]
    assert is_signed(server.requests[0], b"", "a.test")


async def test_after_a_delegation_the_signature_names_the_undelegated_server(neighbourhood: Neighbourhood) -> None:
    """ "the server names from before delegation would take place are used" """
    server = await neighbourhood.server(answering({}), "b.test")
    known = await neighbourhood.server(answering({"m.server": f"b.test:{server.port}"}), "a.test")
    await neighbourhood.reach(well_known_port=known.port).client.request("GET", "a.test", VERSION)
    assert server.requests[0].headers["Host"] == f"b.test:{server.port}"
    assert server.names == ["b.test"]
    assert is_signed(server.requests[0], b"", "a.test")


async def test_candidates_are_tried_in_their_order(neighbourhood: Neighbourhood) -> None:
    """After one that refuses connections, one with the wrong certificate, and one without an address."""
    wrong = await neighbourhood.server(answering({}), "wrong.test")
    right = await neighbourhood.server(
        answering({"right": True}), "right.test", files=neighbourhood.certificates.make("a.test")
    )
    last = await neighbourhood.server(answering({}), "a.test")
    neighbourhood.names.add(
        "_matrix-fed._tcp.a.test",
        "SRV",
        "1 0 1 right.test.",
        "2 0 443 nowhere.test.",
        f"3 0 {wrong.port} wrong.test.",
        f"4 0 {right.port} right.test.",
        f"5 0 {last.port} a.test.",
    )
    reach = neighbourhood.reach()
    assert await reach.client.request("GET", "a.test", VERSION) == {"right": True}
    assert wrong.requests == last.requests == []


async def test_a_connection_is_not_shared_by_two_server_names(neighbourhood: Neighbourhood) -> None:
    """Even at the same address and port."""
    server = await neighbourhood.server(answering({}), "a.test")
    neighbourhood.names.add("_matrix-fed._tcp.b.test", "SRV", f"0 0 {server.port} a.test.")
    reach = neighbourhood.reach()
    await reach.client.request("GET", f"a.test:{server.port}", VERSION)
    with pytest.raises(PeerUnreachable, match="certificate"):
        await reach.client.request("GET", "b.test", VERSION)
    assert len(server.requests) == 1


async def test_invalid_responses(neighbourhood: Neighbourhood) -> None:
    """Each is the peer's fault, and none of them hangs or is accepted."""
    server, reach, name = await one_server(neighbourhood, answering())
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    for content in (b"", b"<html>", b"[1]", b"null", b'{"a": NaN}', b'{"a": "\\ud800"}', b"\xff", deep):
        server.handler = answering(content)
        with pytest.raises(PeerMalformed):
            await reach.client.request("GET", name, VERSION)


async def test_the_size_of_a_response_is_limited(neighbourhood: Neighbourhood) -> None:
    """Whether its length is announced or not."""
    server, reach, name = await one_server(neighbourhood, answering({"a": "x" * SMALL}))
    with pytest.raises(PeerMalformed, match="more than"):
        await reach.client.request("GET", name, VERSION)
    assert len((await reach.client.request("GET", name, VERSION, limit=LARGE))["a"]) == SMALL

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        while True:
            await response.write(b" " * 65_536)

    server.handler = endless
    with pytest.raises(PeerMalformed, match="more than"):
        await reach.client.request("GET", name, VERSION)


async def test_compressed_responses_are_refused(neighbourhood: Neighbourhood) -> None:
    """A kilobyte could become a gigabyte."""
    _, reach, name = await one_server(neighbourhood, answering(gzip.compress(b"{}"), Content_Encoding="gzip"))
    with pytest.raises(PeerMalformed, match="compressed"):
        await reach.client.request("GET", name, VERSION)


async def test_no_redirect_is_followed(neighbourhood: Neighbourhood) -> None:
    """The request is signed for one server."""
    other = await neighbourhood.server(answering({}), "b.test")
    location = f"https://b.test:{other.port}/"
    _, reach, name = await one_server(neighbourhood, answering({}, 307, Location=location))
    for method, content in (("GET", None), ("PUT", {"a": 1})):
        with pytest.raises(PeerMalformed, match="redirect"):
            await reach.client.request(method, name, SEND, content)
    assert other.requests == []


async def test_a_refusal_has_the_peers_error(neighbourhood: Neighbourhood) -> None:
    """Status, errcode and text; the HTML page of a proxy is not a Matrix error."""
    server, reach, name = await one_server(
        neighbourhood, answering({"errcode": "M_FORBIDDEN", "error": "not you"}, 403)
    )
    with pytest.raises(PeerRefused, match="403 M_FORBIDDEN: not you") as refused:
        await reach.client.request("GET", name, VERSION)
    assert refused.value.peer == name
    server.handler = answering(b"<html>" + b"x" * 200_000, 502)
    with pytest.raises(PeerRefused) as refused:
        await reach.client.request("GET", name, VERSION)
    assert (refused.value.status, refused.value.errcode) == (502, None)


async def test_a_silent_server_times_out(neighbourhood: Neighbourhood) -> None:
    """Before its response, and in the middle of it."""

    async def silence(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"{")
        return await silence(request)

    server, reach, name = await one_server(neighbourhood, silence)
    for handler in (silence, half):
        server.handler = handler
        with pytest.raises(PeerTimedOut):
            await reach.client.request("GET", name, VERSION, timeout=0.2)
    server.handler = answering({})
    assert await reach.client.request("GET", name, VERSION) == {}


async def test_a_connection_closed_during_the_response(neighbourhood: Neighbourhood) -> None:
    """PeerUnreachable."""

    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"{")
        assert request.transport is not None
        request.transport.abort()
        return response

    _, reach, name = await one_server(neighbourhood, half)
    with pytest.raises(PeerUnreachable, match="closed the connection"):
        await reach.client.request("GET", name, VERSION)


@pytest.mark.parametrize(
    "answer",
    [
        b"220 smtp ESMTP\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"",
    ],
)
async def test_a_response_that_is_not_http(neighbourhood: Neighbourhood, answer: bytes) -> None:
    """It is the peer's fault; never a hang or a crash."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    neighbourhood.names.add("a.test", "A", "127.0.0.1")
    files = neighbourhood.certificates.make("a.test")
    port = await neighbourhood.stack.enter_async_context(raw_server(handle, files))
    reach = neighbourhood.reach()
    with pytest.raises(PeerError) as raised:
        await reach.client.request("GET", f"a.test:{port}", VERSION, timeout=5)
    assert isinstance(raised.value, PeerMalformed | PeerUnreachable)
    assert not isinstance(raised.value, PeerTimedOut)


@pytest.mark.parametrize("method", ["GET", "PUT", "POST"])
async def test_an_idle_connection_that_was_just_closed_is_replaced(neighbourhood: Neighbourhood, method: str) -> None:
    """The request is sent again on a new connection."""
    connections = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        # The next request on this connection is read, and not answered.
        await reader.readuntil(b"\r\n\r\n")

    neighbourhood.names.add("a.test", "A", "127.0.0.1")
    files = neighbourhood.certificates.make("a.test")
    port = await neighbourhood.stack.enter_async_context(raw_server(handle, files))
    reach = neighbourhood.reach()
    content = None if method == "GET" else {}
    for _ in range(2):
        assert await reach.client.request(method, f"a.test:{port}", SEND, content) == {}
    assert connections == 2


async def test_only_allowed_servers_are_contacted(neighbourhood: Neighbourhood) -> None:
    """The configuration is checked before server discovery; requests to oneself are refused."""
    server = await neighbourhood.server(answering({}), "a.test")
    reach = neighbourhood.reach(may_contact=lambda name: name != f"a.test:{server.port}")
    for name in (f"a.test:{server.port}", OWN_NAME):
        with pytest.raises(PeerNotAllowed):
            await reach.client.request("GET", name, VERSION)
    assert server.requests == []
    assert not neighbourhood.names.asked


async def test_an_unreachable_server_is_discovered_again(neighbourhood: Neighbourhood) -> None:
    """So that a server that has moved is found."""
    server = await neighbourhood.server(answering({}), "c.test", files=neighbourhood.certificates.make("a.test"))
    neighbourhood.names.add("_matrix-fed._tcp.a.test", "SRV", "0 0 1 c.test.")
    reach = neighbourhood.reach()
    with pytest.raises(PeerUnreachable, match="connection refused"):
        await reach.client.request("GET", "a.test", VERSION)
    neighbourhood.names.add("_matrix-fed._tcp.a.test", "SRV", f"0 0 {server.port} c.test.")
    neighbourhood.clock.now += 60
    assert await reach.client.request("GET", "a.test", VERSION) == {}


async def test_requests_are_counted_without_names(neighbourhood: Neighbourhood) -> None:
    """By path template, method and outcome."""
    server, reach, name = await one_server(neighbourhood, answering({}))
    await reach.client.request("PUT", name, SEND, {})
    for status in (404, 500):
        server.handler = answering({}, status)
        with pytest.raises(PeerRefused):
            await reach.client.request("GET", name, VERSION)
    with pytest.raises(PeerUnreachable):
        await reach.client.request("GET", "a.test:1", VERSION)
    assert reach.counted.ended == [
        ("/_matrix/federation/v1/send/{txnId}", "PUT", Outcome.ANSWERED),
        ("/_matrix/federation/v1/version", "GET", Outcome.REFUSED),
        ("/_matrix/federation/v1/version", "GET", Outcome.FAILED),
        ("/_matrix/federation/v1/version", "GET", Outcome.UNREACHABLE),
    ]


class Recorder:
    """Records the requests."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    async def request_ended(self, *told: Any) -> None:
        self.told.append(told)


async def test_each_request_is_recorded(neighbourhood: Neighbourhood) -> None:
    """With server, body and error, before the caller gets the response."""
    server, reach, name = await one_server(neighbourhood, answering({}))
    recorder = Recorder()
    client = FederationClient(
        OWN_NAME,
        lambda: OWN_KEYS,
        reach.resolver,
        reach.connections,
        may_contact=lambda other: other == name,
        recorder=recorder,
    )
    await client.request("PUT", name, SEND, {"a": 1})
    assert recorder.told == [(name, "PUT", SEND, {"a": 1}, None)]
    server.handler = answering({}, 403)
    with pytest.raises(PeerRefused) as refused:
        await client.request("GET", name, VERSION)
    server.handler = answering(b"x")
    with pytest.raises(PeerMalformed) as malformed:
        await client.request("GET", name, VERSION)
    with pytest.raises(PeerNotAllowed) as not_allowed:
        await client.request("GET", "b.test", VERSION)
    with pytest.raises(TimeoutError) as mine:
        async with client.stream(name, MEDIA):
            raise TimeoutError
    assert [told[-1] for told in recorder.told[1:]] == [refused.value, malformed.value, not_allowed.value, mine.value]

    async def silence(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    server.handler = silence
    asking = asyncio.create_task(client.request("GET", name, VERSION))
    while len(server.requests) < 5:
        await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert isinstance(recorder.told[-1][-1], asyncio.CancelledError)


async def test_consecutive_requests_share_a_connection(neighbourhood: Neighbourhood) -> None:
    """Each is signed with the key that is current then."""
    server = await neighbourhood.server(answering({}), "a.test")
    reach = neighbourhood.reach()
    name = f"a.test:{server.port}"
    keys = OWN_KEYS
    client = FederationClient(OWN_NAME, lambda: keys, reach.resolver, reach.connections, may_contact=lambda _: True)
    await client.request("PUT", name, SEND, {})
    await client.request("PUT", name, SEND, {})
    keys = LocalKeys(key_from_seed("new", b"n" * 32))
    await client.request("PUT", name, SEND, {})
    signed_with = [parse(request.headers["Authorization"]).key for request in server.requests]
    assert signed_with == ["ed25519:own", "ed25519:own", "ed25519:new"]
    assert len(server.connections) == 1


async def test_responses_of_any_size_are_decoded(neighbourhood: Neighbourhood) -> None:
    """Large ones in a thread."""
    _, reach, name = await one_server(neighbourhood, answering({"a": "x" * 300_000}))
    assert len((await reach.client.request("GET", name, VERSION))["a"]) == 300_000


async def test_a_cancelled_request_leaves_nothing_behind(neighbourhood: Neighbourhood) -> None:
    """The caller may cancel at any time."""
    came = asyncio.Event()

    async def silence(_: web.Request) -> web.StreamResponse:
        came.set()
        await asyncio.Event().wait()
        raise AssertionError

    server, reach, name = await one_server(neighbourhood, silence)
    asking = asyncio.create_task(reach.client.request("GET", name, VERSION))
    await came.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    server.handler = answering({})
    assert await reach.client.request("GET", name, VERSION) == {}


MEDIA = request_target("/_matrix/federation/v1/media/download/{mediaId}", mediaId="abc")


async def download(reach: Reach, name: str, limit: int, idle: float = 30.0) -> bytes:
    async with reach.client.stream(name, MEDIA, idle=idle) as stream:
        return b"".join([piece async for piece in stream.chunks(limit)])


async def test_a_download_is_read_in_chunks(neighbourhood: Neighbourhood) -> None:
    """Of any type; its size is limited by the caller."""
    content = bytes(range(256)) * 4096
    server, reach, name = await one_server(neighbourhood, answering(content, Content_Type="multipart/mixed"))
    assert await download(reach, name, len(content)) == content
    assert is_signed(server.requests[0], b"", name)
    async with reach.client.stream(name, MEDIA) as stream:
        assert stream.content_type == "multipart/mixed"
    with pytest.raises(PeerMalformed, match="more than"):
        await download(reach, name, len(content) - 1)


async def test_a_download_that_is_refused_or_stalls_is_an_error(neighbourhood: Neighbourhood) -> None:
    """A refusal before the first byte; a timeout if it stalls."""

    async def stalling(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"x")
        await asyncio.Event().wait()
        return response

    server, reach, name = await one_server(neighbourhood, answering({"errcode": "M_NOT_FOUND"}, 404))
    with pytest.raises(PeerRefused):
        await download(reach, name, 100)
    server.handler = stalling
    with pytest.raises(PeerTimedOut):
        await download(reach, name, 100, idle=0.1)


async def test_a_timeout_of_the_reader_is_not_the_peers(neighbourhood: Neighbourhood) -> None:
    """Only our own deadline is the peer's fault."""
    _, reach, name = await one_server(neighbourhood, answering(b"x"))

    async def fail() -> None:
        async with reach.client.stream(name, MEDIA):
            raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await fail()
