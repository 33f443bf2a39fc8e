"""Waiting for a connection's first byte without taking it, and saying goodbye to one that is not let in."""

import asyncio
import contextlib
import socket


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
