"""The load generator's process: it reads one job per line, and answers each with one line.

It speaks HTTP/1.1 itself, as little of it as a request sent again and again needs: an HTTP client library
costs more than the server it would measure.
"""

import asyncio
import base64
import json
import ssl
from time import perf_counter
from typing import Any, cast

import uvloop

from bench._harness.lifeline import lines_from_parent, tell_parent
from bench._harness.ports import LOOPBACK


class Connection(asyncio.Protocol):
    """Sends the request, waits for the whole response, and repeats until its deadline."""

    def __init__(self, request: bytes) -> None:
        self.answers = 0
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._request = request
        self._buffer = b""
        self._deadline = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the other connections before sending."""
        # uvloop's transports do everything that asyncio's do, but are not their subclasses.
        self._transport = cast("asyncio.Transport", transport)

    def start(self, deadline: float) -> None:
        """Send the first request."""
        self._deadline = deadline
        self._send()

    def data_received(self, data: bytes) -> None:
        """Receive a part of a response; only complete ones count."""
        self._buffer += data
        try:
            length = answer_length(self._buffer)
        except ValueError as error:
            self._fail(error)
            return
        if length is None or len(self._buffer) < length:
            return
        self._buffer = self._buffer[length:]
        self.answers += 1
        if perf_counter() < self._deadline:
            self._send()
        elif not self.finished.done():
            self.finished.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """A server that closes the connection in the middle fails the measurement."""
        self._fail(exc or ConnectionError("the server closed the connection"))

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def _send(self) -> None:
        assert self._transport is not None, "a request is sent on a connection that was made"
        self._transport.write(self._request)

    def _fail(self, error: Exception) -> None:
        if not self.finished.done():
            self.finished.set_exception(error)


def answer_length(received: bytes) -> int | None:
    """Return the number of bytes of the first response, None before its head is complete; ValueError if it
    cannot be determined."""
    end_of_head = received.find(b"\r\n\r\n")
    if end_of_head < 0:
        return None
    status, *headers = received[:end_of_head].split(b"\r\n")
    if not status.startswith(b"HTTP/1.1 2"):
        raise ValueError(f"the server answered {status!r}")
    for line in headers:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return end_of_head + 4 + int(value)
    raise ValueError("the server did not say how long its answer is")


async def perform(work: dict[str, Any]) -> dict[str, Any]:
    """Connect, measure, close; the handshakes end before the clock starts."""
    loop = asyncio.get_running_loop()
    request = base64.b64decode(work["request"])
    context = None if work["trust"] is None else ssl.create_default_context(cafile=work["trust"])
    connections: list[Connection] = []
    try:
        for _ in range(work["connections"]):
            _, connection = await loop.create_connection(
                lambda: Connection(request), LOOPBACK, work["port"], ssl=context
            )
            connections.append(connection)
        began = perf_counter()
        for connection in connections:
            connection.start(began + work["seconds"])
        await asyncio.gather(*(connection.finished for connection in connections))
        seconds = perf_counter() - began
        return {"operations": sum(connection.answers for connection in connections), "seconds": seconds}
    finally:
        for connection in connections:
            connection.close()


async def _serve() -> None:
    async for line in lines_from_parent():
        try:
            done = await perform(json.loads(line))
        except (OSError, ValueError) as error:
            done = {"error": str(error)}
        tell_parent(**done)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve())
