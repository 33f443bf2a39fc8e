"""A minimal Socket.IO connection over a WebSocket.

python-socketio's own client costs about as much for a call as a server does. Both servers and the load share
the machine's CPUs, so that with it one would measure the client. Both servers are spoken to by this one, in
the same bytes.
"""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, Final, cast

import orjson

from bench._harness.ports import LOOPBACK

NAMESPACE: Final = "/smcp"
VERSION: Final = "0.4.0"
"""Of the protocol."""
_PATH: Final = f"/socket.io/?EIO=4&transport=websocket&a2c_version={VERSION}"
_REQUEST: Final = (
    f"GET {_PATH} HTTP/1.1\r\nHost: {LOOPBACK}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: cGFsYXZlciBtZWFzdXJlcw==\r\n\r\n"
).encode()
_TEXT, _CLOSE, _PING, _PONG = 0x81, 0x88, 0x89, 0x8A
# The servers take it off whatever it is; to put this one on costs nothing.
_MASK: Final = bytes(4)
_EVENT, _ACK = f"42{NAMESPACE},".encode(), f"43{NAMESPACE},".encode()

Heard = Callable[[str, Any], Any]
"""Handles an event with its argument; returns the answer, which is dropped if none was requested."""


class Ended(Exception):
    """The connection has ended while a caller waited."""


class Connection(asyncio.Protocol):
    """Created by `connect`."""

    def __init__(self, heard: Heard) -> None:
        loop = asyncio.get_running_loop()
        self._heard = heard
        self._buffer = bytearray()
        self._is_open = False
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._opened: asyncio.Future[None] = loop.create_future()
        self._let_in: asyncio.Future[None] = loop.create_future()
        self._transport: asyncio.Transport

    # -- what others ask of it --

    async def ask(self, event: str, said: Any) -> list[Any]:
        """Send an event; return the arguments of its answer."""
        return await self.ask_packed(orjson.dumps([event, said]))

    def ask_packed(self, said: bytes) -> "asyncio.Future[list[Any]]":
        """Send an event whose name and argument are encoded already."""
        number = next(self._numbers)
        answered = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._send(b"%b%d%b" % (_EVENT, number, said))
        return answered

    async def come_in(self, token: str) -> None:
        """Join the namespace."""
        await self._opened
        self._send(b"40%b,%b" % (NAMESPACE.encode(), orjson.dumps({"token": token})))
        await self._let_in

    def close(self) -> None:
        self._transport.close()

    # -- what asyncio tells --

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # That of uvloop is one by what it can do, and not by its class.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(_REQUEST)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        try:
            if self._is_open or self._open():
                self._read_frames()
        except Exception as error:
            # The waiting caller gets the error; raised here, it would only be logged.
            self._end(error)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(error or Ended("the server has closed the connection"))

    # -- WebSocket --

    def _open(self) -> bool:
        head, end, rest = self._buffer.partition(b"\r\n\r\n")
        if not end:
            return False
        if not head.startswith(b"HTTP/1.1 101 "):
            raise Ended(f"the server answers {bytes(head[:200])!r}")
        self._buffer, self._is_open = rest, True
        return True

    def _read_frames(self) -> None:
        buffer, begin = self._buffer, 0
        while (head := begin + 2) <= len(buffer):
            length = buffer[begin + 1]
            if length >= 126:
                size = 2 if length == 126 else 8
                head += size
                length = int.from_bytes(buffer[begin + 2 : head])
            # The head may have been cut off, and then the length means nothing; but then this is true, too.
            if len(buffer) < max(head, head + length):
                break
            self._read_frame(buffer[begin], bytes(buffer[head : head + length]))
            begin = head + length
        del buffer[:begin]

    def _read_frame(self, kind: int, payload: bytes) -> None:
        match kind:
            case 0x81:
                self._read_packet(payload)
            case 0x89:
                self._write(_PONG, payload)
            case 0x88:
                raise Ended(f"the server says goodbye: {payload[2:]!r}")
            case _:
                raise Ended(f"the server sends a frame of the kind {kind:#x}")

    def _send(self, packet: bytes) -> None:
        self._write(_TEXT, packet)

    def _write(self, kind: int, payload: bytes) -> None:
        length = len(payload)
        assert length < 2**16, "nothing that is measured is longer"
        size = bytes((0x80 | length,)) if length < 126 else b"\xfe" + length.to_bytes(2)
        self._transport.write(b"%c%b%b%b" % (kind, size, _MASK, payload))

    # -- Socket.IO --

    def _read_packet(self, packet: bytes) -> None:
        if packet.startswith(_ACK):
            number, begin = _numbered(packet)
            assert number is not None, "an answer has the number of what was asked"
            self._waiting.pop(number).set_result(orjson.loads(packet[begin:]))
        elif packet.startswith(_EVENT):
            number, begin = _numbered(packet)
            event, *said = orjson.loads(packet[begin:])
            answer = self._heard(event, said[0] if said else None)
            if number is not None:
                self._send(b"%b%d%b" % (_ACK, number, orjson.dumps([answer])))
        elif packet == b"2":
            self._send(b"3")
        elif packet.startswith(b"0"):
            self._opened.set_result(None)
        elif packet.startswith(b"40"):
            self._let_in.set_result(None)
        else:
            raise Ended(f"the server says {packet[:200]!r}")

    def _end(self, error: Exception) -> None:
        for waiting in (self._opened, self._let_in, *self._waiting.values()):
            if not waiting.done():
                waiting.set_exception(error)
                # These two may have no waiting caller.
                waiting.exception()
        self._waiting.clear()
        self._transport.abort()


async def connect(port: int, token: str, heard: Heard) -> Connection:
    """Connect to a server on loopback, and complete the handshake."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: Connection(heard), LOOPBACK, port)
    await connection.come_in(token)
    return connection


def _numbered(packet: bytes) -> tuple[int | None, int]:
    """Return the number of an event or an answer, if it has one, and the position of its arguments."""
    begin = packet.index(b"[")
    number = packet[len(_EVENT) : begin]
    return (int(number) if number else None), begin
