"""Ports on loopback, for servers that need their port before they start."""

import asyncio
import socket
from time import perf_counter

from bench._harness.child import Child, ChildError

LOOPBACK = "127.0.0.1"
_BETWEEN_ATTEMPTS_SECONDS = 0.02


def free_port() -> int:
    """Return a port on which nothing listens. A server that can use port 0 and report its port should do so:
    that avoids a race."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


async def until_listening(port: int, server: Child, seconds: float) -> None:
    """Wait until something accepts connections there; raises if the server ends or the time is over."""
    deadline = perf_counter() + seconds
    while True:
        server.check_alive()
        try:
            _, writer = await asyncio.open_connection(LOOPBACK, port)
        except ConnectionRefusedError:
            if perf_counter() > deadline:
                raise ChildError(f"{server.name} does not listen after {seconds:g} s") from None
            await asyncio.sleep(_BETWEEN_ATTEMPTS_SECONDS)
        else:
            writer.close()
            await writer.wait_closed()
            return
