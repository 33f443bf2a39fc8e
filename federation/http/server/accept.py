"""Accepts connections from a listening socket, whatever errors occur.

Also peeks at a connection's first byte, and sends a last response before closing.
"""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable

from federation.http.server.observer import Observer


async def first_byte(accepted: socket.socket) -> int | None:
    """Wait for the first byte and return it without consuming it; None if the peer closed or reset
    before."""
    while True:
        try:
            peeked = accepted.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            await readable(accepted)
        except OSError:
            return None
        else:
            return peeked[0] if peeked else None


async def respond_and_close(accepted: socket.socket, response: bytes, seconds: float) -> None:
    """Send a response and close the connection so that the peer can read it.

    Closing with unread bytes would send a reset, which discards the response. So this side sends its end,
    and received bytes are dropped until the peer ends too or after `seconds`.
    """
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(seconds):
            await loop.sock_sendall(accepted, response)
            accepted.shutdown(socket.SHUT_WR)
            while await loop.sock_recv(accepted, 65536):
                pass


async def readable(sock: socket.socket) -> None:
    """Wait until the socket can be read, or for a listening socket until a connection can be accepted."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def on_readable() -> None:
        # It may be called again before the reader is removed.
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(sock, on_readable)
    try:
        await ready
    finally:
        loop.remove_reader(sock)


# Not an error of this server: the peer disconnected before its connection was accepted.
PEER_DISCONNECTED = frozenset({errno.ECONNABORTED, errno.EPROTO, errno.EINTR})
# A resource is exhausted until other connections release it. Retrying at once would only waste CPU time.
EXHAUSTED = {
    errno.EMFILE: "this process has too many open files and connections (`ulimit -n`)",
    errno.ENFILE: "this machine has too many open files",
    errno.ENOBUFS: "this machine has no memory left for connections",
    errno.ENOMEM: "this machine has no memory left",
}
FIRST_PAUSE = 0.05
MAX_PAUSE = 1.0


async def accept(listening: socket.socket, take: Callable[[socket.socket, str], None], observer: Observer) -> None:
    """Call `take` with each accepted connection and its peer's host, until cancelled.

    An error is reported once, and again only after another connection has been accepted.
    """
    pause = 0.0
    while True:
        # The event loop's own `sock_accept` can lose a connection when it is cancelled at the moment of
        # its arrival. Here nothing is awaited between accepting a connection and `take`.
        try:
            accepted, address = listening.accept()
        except BlockingIOError:
            await readable(listening)
            continue
        except OSError as error:
            if error.errno in PEER_DISCONNECTED:
                continue
            if not pause:
                why = EXHAUSTED.get(error.errno or 0, f"the system reports “{error.strerror}”")
                observer.problem(f"No new connections can be accepted: {why}.", error)
            pause = min(max(FIRST_PAUSE, pause * 2), MAX_PAUSE)
            await asyncio.sleep(pause)
            continue
        pause = 0.0
        accepted.setblocking(False)
        take(accepted, address[0])
        # Let other tasks run during a flood of connections.
        await asyncio.sleep(0)
