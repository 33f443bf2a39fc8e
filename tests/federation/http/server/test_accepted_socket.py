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
    """The peer's end, and ours."""
    (listening,) = bind([Bind("127.0.0.1")], 0)
    with listening, socket.create_connection(("127.0.0.1", bound_address(listening).port)) as theirs:
        listening.setblocking(True)
        ours, _ = listening.accept()
        ours.setblocking(False)
        with ours:
            theirs.setblocking(False)
            yield theirs, ours


async def test_the_first_byte_stays_where_it_is() -> None:
    """Whoever reads next reads it again."""
    with pair() as (theirs, ours):
        theirs.send(b"GET")
        assert await first_byte(ours) == ord("G")
        assert ours.recv(10) == b"GET"


async def test_it_is_waited_for() -> None:
    """A connection is made before anything is sent on it."""
    with pair() as (theirs, ours):
        waiting = asyncio.create_task(first_byte(ours))
        await asyncio.sleep(0)
        theirs.send(b"\x16")
        assert await waiting == 0x16


async def test_a_peer_that_closes_sent_none() -> None:
    """Load balancers look in like that."""
    with pair() as (theirs, ours):
        theirs.shutdown(socket.SHUT_WR)
        assert await first_byte(ours) is None


async def test_a_peer_that_resets_sent_none() -> None:
    """As port scanners do."""
    with pair() as (theirs, ours):
        waiting = asyncio.create_task(first_byte(ours))
        await asyncio.sleep(0)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()
        assert await waiting is None


async def test_who_stops_waiting_leaves_nothing_behind() -> None:
    """The socket can be given to a transport, or watched again."""
    with pair() as (theirs, ours):
        waiting = asyncio.create_task(first_byte(ours))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        theirs.send(b"x")
        assert await first_byte(ours) == ord("x")


async def test_a_goodbye_is_read_although_the_peer_was_still_sending() -> None:
    """What it sends is dropped, not answered by a reset that would take our answer with it."""
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


async def test_a_goodbye_does_not_wait_for_ever() -> None:
    """A peer that neither closes nor stops sending is left."""
    with pair() as (theirs, ours):
        await respond_and_close(ours, b"no", 0.01)
        assert theirs.recv(10) == b"no"


async def test_a_peer_that_is_gone_needs_no_goodbye() -> None:
    """Nothing fails."""
    with pair() as (theirs, ours):
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()
        await respond_and_close(ours, b"no", TIMEOUT)
