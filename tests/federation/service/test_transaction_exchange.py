"""Transactions over connections that are kept, against servers that answer as nobody should. Real TLS."""

import asyncio
import gzip
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from federation.canonical_json import decode, encode
from federation.outgoing_request import authorization
from federation.peer_errors import (
    Outcome,
    PeerError,
    PeerMalformed,
    PeerRefused,
    PeerTimedOut,
    PeerUnreachable,
)
from federation.request_target import request_target
from federation.server_keys import OwnKeys, key_from_seed
from federation.service.client import FederationClient
from federation.service.transaction_exchange import MOST_OF_A_BODY, MOST_OF_AN_ANSWER
from tests.support.loopback_server import raw_server
from tests.support.neighbourhood import OWN_KEYS, OWN_NAME, Neighbourhood, Reach

PATIENCE = 30.0
SEND = "/_matrix/federation/v1/send/{txnId}"


def answer(body: bytes = b'{"pdus":{}}', first: str = "200 OK", *lines: str) -> bytes:
    head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {first}", *lines, f"Content-Length: {len(body)}"))
    return head.encode() + b"\r\n" + body


GOOD = answer()


@dataclass
class Request:
    connection: int
    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Scripted:
    """Reads requests, and writes for each what `script` has next, then a good answer; in pieces of one byte
    if it is told so. None breaks the connection off, and so does what ends in `GONE`."""

    script: deque[bytes | None] = field(default_factory=deque)
    requests: list[Request] = field(default_factory=list)
    connections: list[asyncio.StreamWriter] = field(default_factory=list)
    ended: int = 0
    bytewise: bool = False
    holds: asyncio.Event = field(default_factory=asyncio.Event)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def __post_init__(self) -> None:
        self.holds.set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        number = len(self.connections)
        try:
            while await self._one(number, reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            async with self._changed:
                self.ended += 1
                self._changed.notify_all()

    async def _one(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers = dict(one.split(": ", 1) for one in lines)
        body = await reader.readexactly(int(headers["Content-Length"]))
        async with self._changed:
            self.requests.append(Request(number, line, headers, body))
            self._changed.notify_all()
        await self.holds.wait()
        said = self.script.popleft() if self.script else GOOD
        if said is None:
            return False
        goes = said.endswith(GONE)
        for piece in [bytes([one]) for one in said] if self.bytewise else [said.removesuffix(GONE)]:
            writer.write(piece)
            await writer.drain()
        return not goes

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: condition(self))

    @property
    def on(self) -> list[int]:
        """The connections on which requests came."""
        return [request.connection for request in self.requests]


GONE = b"\0gone"


@dataclass
class Peer:
    server: Scripted
    reach: Reach
    name: str
    sent: int = 0

    async def send(self, body: bytes = b'{"pdus":[]}', **how: Any) -> dict[str, Any]:
        self.sent += 1
        target = request_target(SEND, txnId=str(self.sent))
        return await self.reach.client.transaction(self.name, target, body, **how)


@pytest.fixture
async def peer(neighbourhood: Neighbourhood) -> AsyncIterator[Peer]:
    """A server to which a connection is kept: the first transaction goes the other way."""
    server = Scripted()
    files = neighbourhood.certificates.make("a.test")
    neighbourhood.names.add("a.test", "A", "127.0.0.1")
    async with raw_server(server, files) as port:
        peer = Peer(server, neighbourhood.reach(), f"a.test:{port}")
        await peer.send()
        await peer.send()
        assert server.on == [1, 2]
        try:
            yield peer
        finally:
            for writer in server.connections:
                if not writer.transport.is_closing():
                    writer.transport.abort()


async def test_one_connection_is_kept(peer: Peer) -> None:
    """And it is asked as a client for everything would ask."""
    for _ in range(3):
        assert await peer.send() == {"pdus": {}}
    assert peer.server.on == [1, 2, 2, 2, 2]
    first, *others = peer.server.requests
    said = {name.lower(): value for name, value in first.headers.items()}
    for number, request in enumerate(others, 2):
        uri = request_target(SEND, txnId=str(number)).uri
        assert request.line == f"PUT {uri} HTTP/1.1"
        signed = authorization("PUT", uri, OWN_NAME, peer.name, request.body, OWN_KEYS.current)
        assert {name.lower(): value for name, value in request.headers.items()} == {
            **said,
            "authorization": signed,
        }
    assert peer.reach.counted.ended == [(SEND, "PUT", Outcome.ANSWERED)] * 5


async def test_it_is_written_before_anybody_waits(peer: Peer) -> None:
    """Where there is a connection that is free; one request at a time."""
    client = peer.reach.client
    target = request_target(SEND, txnId="x")
    begun = client.begin(peer.name, target, b"{}")
    assert begun is not None
    assert client.begin(peer.name, target, b"{}") is None
    await peer.server.until(lambda server: len(server.requests) == 3)
    assert await client.transaction(peer.name, target, b"{}", begun) == {"pdus": {}}
    assert client.begin("stranger.test", target, b"{}") is None


async def test_an_answer_may_come_in_pieces(peer: Peer) -> None:
    """However small they are."""
    peer.server.bytewise = True
    assert await peer.send() == {"pdus": {}}
    assert await peer.send() == {"pdus": {}}
    assert peer.server.on[2:] == [2, 2]


CHUNKED = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n{"pdus":{}}\r\n0\r\n\r\n'


@pytest.mark.parametrize(
    "unusual",
    [
        CHUNKED,
        b"HTTP/1.1 100 Continue\r\n\r\n" + GOOD,
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b'HTTP/1.1 200 OK\r\n\r\n{"pdus":{}}' + GONE,
        answer(b"{}", "200 OK", "Content-Length: 3"),
        answer(b"{}", "200 OK", "Transfer-Encoding: chunked"),
        answer(gzip.compress(b"{}", mtime=0), "200 OK", "Content-Encoding: gzip"),
        answer(b"{}", "200 OK", *(f"X-{number}: {'x' * 4000}" for number in range(5))),
        b"x" * 20_000,
        b"\x16\x03\x01",
        GOOD.replace(b"1.1", b"1.0"),
        GOOD.replace(b"\r\n", b"\n"),
    ],
)
async def test_what_is_unusual_goes_the_other_way(peer: Peer, unusual: bytes) -> None:
    """Under the same id and with the same body; and that server is asked no more in this one."""
    peer.server.script.append(unusual + GONE)
    assert await peer.send() == {"pdus": {}}
    asked, again = peer.server.requests[2:4]
    assert (asked.connection, again.line, again.body) == (2, asked.line, asked.body)
    assert again.connection != 2
    assert peer.reach.client.begin(peer.name, request_target(SEND, txnId="x"), b"{}") is None
    await peer.send()
    await peer.send()
    assert 2 not in peer.server.on[3:]


async def test_what_no_way_can_read_is_an_error(peer: Peer) -> None:
    """As it is for every request."""
    peer.server.script.extend([b"rubbish\r\n\r\n" + GONE] * 2)
    with pytest.raises(PeerMalformed):
        await peer.send()
    assert await peer.send() == {"pdus": {}}


@pytest.mark.parametrize(
    ("said", "raised", "words"),
    [
        (
            answer(b'{"errcode":"M_FORBIDDEN","error":"No."}', "403 Forbidden"),
            PeerRefused,
            "M_FORBIDDEN: No.",
        ),
        (answer(b"<html>", "502 Bad Gateway"), PeerRefused, "502"),
        (answer(b"x" * 70_000, "500 Oh"), PeerRefused, "500"),
        (answer(b"", "302 Found", "Location: https://b.test/"), PeerMalformed, "redirect"),
        (answer(b"[]"), PeerMalformed, "not a JSON object"),
        (answer(b"{"), PeerMalformed, "not JSON"),
        (answer(b'"' + b"x" * 300_000), PeerMalformed, "not JSON"),
        (GOOD.replace(b": 11", b": %d" % (MOST_OF_AN_ANSWER + 1)), PeerMalformed, "more than"),
        (GOOD.replace(b": 11", b": 12") + GONE, PeerUnreachable, "broke off"),
    ],
)
async def test_what_is_wrong_is_told_without_asking_twice(
    peer: Peer, said: bytes, raised: type[PeerError], words: str
) -> None:
    """An answer that could be read is one; and the next transaction is asked as ever."""
    peer.server.script.append(said)
    with pytest.raises(raised, match=words):
        await peer.send()
    assert peer.server.on == [1, 2, 2]
    assert peer.reach.counted.ended[-1][2] is not Outcome.ANSWERED
    assert await peer.send() == {"pdus": {}}


async def test_a_server_may_ask_for_time(peer: Peer) -> None:
    """In the header too, as proxies do it."""
    peer.server.script.append(answer(b"", "503 Busy", "Retry-After: 7"))
    with pytest.raises(PeerRefused) as refused:
        await peer.send()
    assert refused.value.retry_after_ms == 7000


@pytest.mark.parametrize("said", [None, GOOD[:5] + GONE, GOOD[:20] + GONE])
async def test_a_connection_that_is_gone_does_not_matter(peer: Peer, said: bytes | None) -> None:
    """Whether it ended before the request came or after: the transaction goes the other way."""
    peer.server.script.append(said)
    assert await peer.send() == {"pdus": {}}
    assert [request.line for request in peer.server.requests[2:]] == [peer.server.requests[2].line] * 2
    await peer.send()
    last = peer.server.on[-1]
    peer.server.connections[last - 1].transport.abort()
    assert await peer.send() == {"pdus": {}}
    assert peer.server.on[-1] != last


@pytest.mark.parametrize(
    "said", [GOOD + GOOD, GOOD + b"x", answer(b'{"pdus":{}}', "200 OK", "Connection: close")]
)
async def test_what_comes_after_the_answer_is_believed_by_nobody(peer: Peer, said: bytes) -> None:
    """The answer counts, and the connection is used no more."""
    peer.server.script.append(said)
    assert await peer.send() == {"pdus": {}}
    assert await peer.send() == {"pdus": {}}
    assert peer.server.on == [1, 2, 2, 3]


async def test_what_nobody_has_asked_for_ends_the_connection(peer: Peer) -> None:
    """It would be taken for the answer to the next request."""
    peer.server.connections[1].write(GOOD)
    await peer.server.until(lambda server: server.ended == 1)
    assert await peer.send() == {"pdus": {}}
    assert peer.server.on == [1, 2, 3]


async def test_patience_ends(peer: Peer) -> None:
    """A late answer is taken for none, least of all for the next one."""
    peer.server.holds.clear()
    with pytest.raises(PeerTimedOut):
        await peer.send(timeout=0.05)
    peer.server.holds.set()
    assert await peer.send() == {"pdus": {}}
    assert peer.server.on[-1] == 3
    assert [outcome for _, _, outcome in peer.reach.counted.ended[2:]] == [
        Outcome.TIMED_OUT,
        Outcome.ANSWERED,
    ]


async def test_whoever_waits_may_be_stopped(peer: Peer) -> None:
    """The connection ends with it."""
    peer.server.holds.clear()
    sending = asyncio.create_task(peer.send())
    await peer.server.until(lambda server: len(server.requests) == 3)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    peer.server.holds.set()
    assert await peer.send() == {"pdus": {}}
    assert peer.server.on == [1, 2, 2, 3]


async def test_what_is_large_goes_the_other_way(peer: Peer) -> None:
    """Nothing is to lie here until a slow server has read it."""
    body = encode({"pdus": ["x" * MOST_OF_A_BODY]})
    assert await peer.send(body) == {"pdus": {}}
    assert peer.server.on[2] != 2
    assert decode(peer.server.requests[2].body) == decode(body)


async def test_it_is_signed_with_the_key_of_the_moment(neighbourhood: Neighbourhood) -> None:
    """A new one is used at once; and a server that may no longer be spoken with is not."""
    server, keys, allowed = Scripted(), [OWN_KEYS, OwnKeys(key_from_seed("new", b"n" * 32))], [True]
    files = neighbourhood.certificates.make("a.test")
    neighbourhood.names.add("a.test", "A", "127.0.0.1")
    async with raw_server(server, files) as port:
        reach = neighbourhood.reach()
        reach.client = FederationClient(
            OWN_NAME,
            lambda: keys[0],
            reach.resolver,
            reach.connections,
            may_contact=lambda _: allowed[0],
        )
        peer = Peer(server, reach, f"a.test:{port}")
        for _ in range(3):
            await peer.send()
        del keys[0]
        await peer.send()
        assert key_ids(server.requests) == ["ed25519:own"] * 3 + ["ed25519:new"]
        allowed[0] = False
        with pytest.raises(PeerError, match="speaks with"):
            await peer.send()
        assert len(server.requests) == 4


def key_ids(requests: Sequence[Request]) -> list[str]:
    return [request.headers["Authorization"].split('key="')[1].split('"')[0] for request in requests]
