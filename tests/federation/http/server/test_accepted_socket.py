"""The first byte of a connection, and its last response."""

import asyncio
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from federation.http.server.accept import first_byte, respond_and_close
from federation.http.server.listener import Bind, bind, bound_address
from tests.federation.http.running import TIMEOUT


@contextmanager
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Return the peer's end and this side's."""
    (listening,) = bind([Bind("127.0.0.1")], 0)
    with listening, socket.create_connection(("127.0.0.1", bound_address(listening).port)) as theirs:
        listening.setblocking(True)
        ours, _ = listening.accept()
        ours.setblocking(False)
        with ours:
            theirs.setblocking(False)
            yield theirs, ours


async def test_the_first_byte_is_not_consumed() -> None:
    """The next reader gets it too."""
    with pair() as (theirs, ours):
        theirs.send(b"GET")
        assert await first_byte(ours) == ord("G")
        assert ours.recv(10) == b"GET"


async def test_the_first_byte_is_awaited() -> None:
    """A connection exists before anything is sent on it."""
    with pair() as (theirs, ours):
        waiting = asyncio.create_task(first_byte(ours))
        await asyncio.sleep(0)
        theirs.send(b"\x16")
        assert await waiting == 0x16


async def test_a_peer_that_closes_sends_no_first_byte() -> None:
    """As load balancers do."""
    with pair() as (theirs, ours):
        theirs.shutdown(socket.SHUT_WR)
        assert await first_byte(ours) is None


async def test_a_peer_that_resets_sends_no_first_byte() -> None:
    """As port scanners do."""
    with pair() as (theirs, ours):
        waiting = asyncio.create_task(first_byte(ours))
        await asyncio.sleep(0)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()
        assert await waiting is None


async def test_cancelling_removes_the_reader() -> None:
    """The socket can be used by a transport or watched again."""
    with pair() as (theirs, ours):
        waiting = asyncio.create_task(first_byte(ours))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        theirs.send(b"x")
        assert await first_byte(ours) == ord("x")


async def test_a_last_response_is_read_while_the_peer_sends() -> None:
    """Received bytes are dropped: a reset would discard the response."""
    loop = asyncio.get_running_loop()
    with pair() as (theirs, ours):
        theirs.send(b"x" * 60_000)
        saying = asyncio.create_task(respond_and_close(ours, b"no", TIMEOUT))
        assert await loop.sock_recv(theirs, 10) == b"no"
        assert await loop.sock_recv(theirs, 10) == b""
        await loop.sock_sendall(theirs, b"x" * 1_000_000)
        assert not saying.done()
        theirs.shutdown(socket.SHUT_WR)
        await saying


async def test_a_last_response_has_a_timeout() -> None:
    """For a peer that neither closes nor stops sending."""
    with pair() as (theirs, ours):
        await respond_and_close(ours, b"no", 0.01)
        assert theirs.recv(10) == b"no"


async def test_a_last_response_to_a_closed_connection_does_not_fail() -> None:
    """It is ignored."""
    with pair() as (theirs, ours):
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()
        await respond_and_close(ours, b"no", TIMEOUT)
