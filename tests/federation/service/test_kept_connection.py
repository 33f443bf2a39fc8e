"""One connection by itself; `test_transaction_exchange` shows it with servers of all kinds."""

import asyncio

import pytest

from federation.service.kept_connection import Answer, BrokenOff, KeptConnection, Unusual
from tests.support.loopback_server import RawHandler, raw_server

PATIENCE = 30.0
PREFIX = "Host: a.test\r\nAuthorization: "
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


async def asked(handler: RawHandler, *, keep: float = 60.0) -> Answer:
    """What one request came to."""
    ended = asyncio.Event()
    async with raw_server(handler, None) as port:
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: KeptConnection(PREFIX, None, limit=10, keep=keep, ended=lambda _: ended.set()),
            "127.0.0.1",
            port,
        )
        try:
            answer = connection.put("/a", "me", b"{}")
            assert not connection.is_free
            async with asyncio.timeout(PATIENCE):
                return await answer
        finally:
            connection.abort()
            assert not connection.is_free
            assert ended.is_set()


async def test_a_request_is_one_piece() -> None:
    """Its lines, and the body as it is."""
    came = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(await reader.readuntil(b"{}"))
        writer.write(GOOD)

    answer = await asked(handle)
    assert (answer.head.status, answer.body) == (200, b"{}")
    assert came == [b"PUT /a HTTP/1.1\r\nHost: a.test\r\nAuthorization: me\r\nContent-Length: 2\r\n\r\n{}"]


async def test_what_is_no_answer_is_told_apart() -> None:
    """From a connection that ends, before its answer has begun and in the middle of it."""

    def saying(said: bytes) -> RawHandler:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"{}")
            writer.write(said)

        return handle

    with pytest.raises(Unusual):
        await asked(saying(b"rubbish"))
    with pytest.raises(BrokenOff) as broken:
        await asked(saying(b"HTTP/1.1 200"))
    assert not broken.value.began
    with pytest.raises(BrokenOff) as broken:
        await asked(saying(GOOD[:-1]))
    assert broken.value.began
    too_large = await asked(saying(GOOD.replace(b": 2", b": 11")))
    assert too_large.body is None


async def test_no_line_is_smuggled_in() -> None:
    """What stands in a request is made here; if it is not, nothing is written."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""

    async with raw_server(handle, None) as port:
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: KeptConnection(PREFIX, None, limit=10, keep=60.0), "127.0.0.1", port
        )
        for uri, authorization in (("/a HTTP/1.1\r\nX: y", "me"), ("/a", "me\nX: y")):
            with pytest.raises(AssertionError, match="smuggled"):
                connection.put(uri, authorization, b"{}")
        connection.abort()


async def test_one_that_is_not_used_is_closed() -> None:
    """Before the other side does it, perhaps just when something is written."""
    ended = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with raw_server(handle, None) as port, asyncio.timeout(PATIENCE):
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: KeptConnection(PREFIX, None, limit=10, keep=0.01, ended=lambda _: ended.set()),
            "127.0.0.1",
            port,
        )
        await ended.wait()
        assert not connection.is_free


async def test_one_whose_answer_nobody_waits_for_is_closed_too() -> None:
    """Whoever asked may have been stopped: it must not be taken for ever."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with raw_server(handle, None) as port, asyncio.timeout(PATIENCE):
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: KeptConnection(PREFIX, None, limit=10, keep=60.0), "127.0.0.1", port
        )
        answer = connection.put("/a", "me", b"{}")
        connection._look()
        assert not answer.done()
        connection._keep = 0.0
        connection._look()
        with pytest.raises(BrokenOff):
            await answer
