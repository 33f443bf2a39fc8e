"""Taking connections from a listening socket, for as long as the node runs and whatever happens.

Waiting for a connection's first byte without taking it, and saying goodbye to one that is not let in.
"""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable

from federation.http.server.observer import Observer


async def first_byte(accepted: socket.socket) -> int | None:
    """The first byte, which stays where it is; None when the peer closed or reset before sending one."""
    while True:
        try:
            peeked = accepted.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            await readable(accepted)
        except OSError:
            return None
        else:
            return peeked[0] if peeked else None


async def say_goodbye(accepted: socket.socket, answer: bytes, patience: float) -> None:
    """Send the answer and close, so that it is read.

    To close while unread bytes are waiting would send a reset, which takes the answer with it. So this side
    ends, and what the peer still sends is dropped, until it ends too or `patience` does.
    """
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(patience):
            await loop.sock_sendall(accepted, answer)
            accepted.shutdown(socket.SHUT_WR)
            while await loop.sock_recv(accepted, 65536):
                pass


async def readable(waiting: socket.socket) -> None:
    """There is something to read, or for a listening socket somebody to accept."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def on_readable() -> None:
        # It may be called again before it is taken away.
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(waiting, on_readable)
    try:
        await ready
    finally:
        loop.remove_reader(waiting)


# Nothing is wrong here: the peer went away between its arrival and our taking notice.
PEER_WENT = frozenset({errno.ECONNABORTED, errno.EPROTO, errno.EINTR})
# Out of something that others will give back. Asking again at once would only burn the processor.
OUT_OF = {
    errno.EMFILE: "this process has too many files and connections open (`ulimit -n`)",
    errno.ENFILE: "this machine has too many files open",
    errno.ENOBUFS: "this machine has no memory left for connections",
    errno.ENOMEM: "this machine has no memory left",
}
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0


async def accept(
    listening: socket.socket, take: Callable[[socket.socket, str], None], observer: Observer
) -> None:
    """Hand every connection with its peer's host to `take`, until cancelled.

    Trouble is reported once, not at every try, until a connection has been accepted again.
    """
    pause = 0.0
    while True:
        # The event loop's own `sock_accept` loses a connection when it is cancelled in the very moment in
        # which that arrives. Here nothing is awaited between its arrival and `take`.
        try:
            accepted, address = listening.accept()
        except BlockingIOError:
            await readable(listening)
            continue
        except OSError as error:
            if error.errno in PEER_WENT:
                continue
            if not pause:
                why = OUT_OF.get(error.errno or 0, f"the system says “{error.strerror}”")
                observer.problem(f"No new connections can be accepted: {why}.", error)
            pause = min(max(FIRST_PAUSE, pause * 2), LONGEST_PAUSE)
            await asyncio.sleep(pause)
            continue
        pause = 0.0
        accepted.setblocking(False)
        take(accepted, address[0])
        # In a flood of them everything else gets its turn, too.
        await asyncio.sleep(0)
