"""Streaming commands over a real socket."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bridge.control import stream as control_stream
from bridge.control.client import NodeGone, ask_node, stream_node
from bridge.control.socket import ControlSocket
from bridge.control.stream import Items
from storage.errors import LocalError


class Source:
    """A command that yields the items that the test adds. `None` ends it, an exception is raised."""

    def __init__(self) -> None:
        self.items_to_yield: asyncio.Queue[Mapping[str, Any] | Exception | None] = asyncio.Queue()
        self.ended = asyncio.Event()
        self.given: Mapping[str, Any] = {}

    async def __call__(self, given: Mapping[str, Any]) -> Items:
        self.given = given
        if given.get("refuse"):
            raise LocalError("That is refused.", "Ask for something else.")
        return self._items()

    async def _items(self) -> Items:
        try:
            while (item := await self.items_to_yield.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.ended.set()


@contextlib.asynccontextmanager
async def serving(data_dir: Path, source: Source) -> AsyncIterator[ControlSocket]:
    control = ControlSocket(data_dir, {}, {"stream": source})
    await control.start()
    try:
        yield control
    finally:
        await control.stop()


async def test_objects_are_streamed(tmp_path: Path) -> None:
    """Each is sent at once, until the command ends."""
    source = Source()
    async with serving(tmp_path, source):
        items = stream_node(tmp_path, "stream", {"a": 1})
        for number in range(3):
            source.items_to_yield.put_nowait({"number": number})
            assert await anext(items) == {"number": number}
        source.items_to_yield.put_nowait(None)
        with pytest.raises(StopAsyncIteration):
            await anext(items)
        assert source.given == {"a": 1}


async def test_errors_are_sent_to_the_client(tmp_path: Path) -> None:
    """Before the first object or after it."""
    source = Source()
    async with serving(tmp_path, source):
        with pytest.raises(LocalError, match=r"That is refused. Ask for something else."):
            await anext(stream_node(tmp_path, "stream", {"refuse": True}))
        with pytest.raises(LocalError, match="no command 'other'"):
            await anext(stream_node(tmp_path, "other"))
        source.items_to_yield.put_nowait({"number": 1})
        source.items_to_yield.put_nowait(LocalError("It broke.", "Mend it."))
        items = stream_node(tmp_path, "stream")
        assert await anext(items) == {"number": 1}
        with pytest.raises(LocalError, match=r"It broke. Mend it."):
            await anext(items)


async def test_an_unexpected_exception_is_reported(tmp_path: Path) -> None:
    """The stream does not look complete."""
    source = Source()
    async with serving(tmp_path, source):
        source.items_to_yield.put_nowait(ZeroDivisionError())
        with pytest.raises(LocalError, match="The command failed in the node"):
            await anext(stream_node(tmp_path, "stream"))


async def test_a_command_is_cancelled_when_its_client_disconnects(tmp_path: Path) -> None:
    """Even while it waits."""
    source = Source()
    async with serving(tmp_path, source):
        source.items_to_yield.put_nowait({"number": 1})
        items = stream_node(tmp_path, "stream")
        await anext(items)
        assert not source.ended.is_set()
        await items.aclose()
        await source.ended.wait()


async def test_a_stopping_node_ends_its_streams(tmp_path: Path) -> None:
    """With a last line."""
    source = Source()
    control = ControlSocket(tmp_path, {}, {"stream": source})
    await control.start()
    source.items_to_yield.put_nowait({"number": 1})
    items = stream_node(tmp_path, "stream")
    await anext(items)
    _, error = await asyncio.gather(control.stop(), anext(items, None), return_exceptions=True)
    assert isinstance(error, NodeGone)
    assert "is stopping" in error.problem
    assert source.ended.is_set()


async def test_a_slow_client_stops_the_command(tmp_path: Path) -> None:
    """No more is produced than fits into the buffers of the socket."""
    made = 0

    async def endless(_: Mapping[str, Any]) -> Items:
        async def items() -> Items:
            nonlocal made
            while True:
                made += 1
                yield {"text": "x" * 10_000}
                await asyncio.sleep(0)

        return items()

    control = ControlSocket(tmp_path, {}, {"stream": endless})
    await control.start()
    reader, writer = await asyncio.open_unix_connection(str(control.path))
    try:
        writer.write(b"POST /stream HTTP/1.1\r\nHost: node\r\nContent-Length: 0\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        before = -1
        while made != before:
            before = made
            await asyncio.sleep(0.2)
        assert made * 10_000 < 10_000_000
    finally:
        writer.transport.abort()
        await control.stop()


async def test_a_client_that_does_not_read_does_not_delay_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last line has a timeout."""
    monkeypatch.setattr(control_stream, "LAST_LINE_TIMEOUT", 0.05)
    source = Source()
    control = ControlSocket(tmp_path, {}, {"stream": source})
    await control.start()
    reader, writer = await asyncio.open_unix_connection(str(control.path))
    try:
        writer.write(b"POST /stream HTTP/1.1\r\nHost: node\r\nContent-Length: 0\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        for _ in range(300):
            source.items_to_yield.put_nowait({"text": "x" * 10_000})
        async with asyncio.timeout(30):
            await control.stop()
        assert source.ended.is_set()
    finally:
        writer.transport.abort()


async def test_an_object_that_is_too_long_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client limits the length of a line."""
    monkeypatch.setattr("bridge.control.stream.LONGEST", 1_000)
    source = Source()
    async with serving(tmp_path, source):
        source.items_to_yield.put_nowait({"text": "x" * 1_000})
        with pytest.raises(LocalError, match="too long"):
            await anext(stream_node(tmp_path, "stream"))


async def test_the_number_of_streams_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A further stream is refused; the others continue."""
    monkeypatch.setattr(control_stream, "MAX_STREAMS", 1)
    source = Source()
    async with serving(tmp_path, source):
        source.items_to_yield.put_nowait({"number": 1})
        items = stream_node(tmp_path, "stream")
        await anext(items)
        with pytest.raises(LocalError, match="already serves 1 streaming"):
            await anext(stream_node(tmp_path, "stream"))
        await items.aclose()
        await source.ended.wait()


async def test_a_command_is_finished_if_its_client_disconnects(tmp_path: Path) -> None:
    """Unlike a stream: a key that is half rotated would be worse than an answer that is not read."""
    begun, go_on, finished = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work(_: Mapping[str, Any]) -> Mapping[str, Any]:
        begun.set()
        await go_on.wait()
        finished.set()
        return {}

    control = ControlSocket(tmp_path, {"work": work})
    await control.start()
    try:
        asking = asyncio.create_task(ask_node(tmp_path, "work"))
        await begun.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        go_on.set()
        await finished.wait()
    finally:
        await control.stop()
