"""Commands that answer with one object after the other, over a real socket."""

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
    """A command that says what the test puts into it; `None` ends it, an error breaks it."""

    def __init__(self) -> None:
        self.to_say: asyncio.Queue[Mapping[str, Any] | Exception | None] = asyncio.Queue()
        self.ended = asyncio.Event()
        self.given: Mapping[str, Any] = {}

    async def __call__(self, given: Mapping[str, Any]) -> Items:
        self.given = given
        if given.get("refuse"):
            raise LocalError("That is refused.", "Ask for something else.")
        return self._items()

    async def _items(self) -> Items:
        try:
            while (item := await self.to_say.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.ended.set()


@contextlib.asynccontextmanager
async def serving(data_dir: Path, source: Source) -> AsyncIterator[ControlSocket]:
    control = ControlSocket(data_dir, {}, {"talk": source})
    await control.start()
    try:
        yield control
    finally:
        await control.stop()


async def test_one_object_after_the_other(tmp_path: Path) -> None:
    """Each as soon as it is said, until the command ends."""
    source = Source()
    async with serving(tmp_path, source):
        items = stream_node(tmp_path, "talk", {"a": 1})
        for number in range(3):
            source.to_say.put_nowait({"number": number})
            assert await anext(items) == {"number": number}
        source.to_say.put_nowait(None)
        with pytest.raises(StopAsyncIteration):
            await anext(items)
        assert source.given == {"a": 1}


async def test_what_is_refused_is_told_as_ever(tmp_path: Path) -> None:
    """Before the first object, or after it: in the node's own words."""
    source = Source()
    async with serving(tmp_path, source):
        with pytest.raises(LocalError, match=r"That is refused. Ask for something else."):
            await anext(stream_node(tmp_path, "talk", {"refuse": True}))
        with pytest.raises(LocalError, match="no command 'other'"):
            await anext(stream_node(tmp_path, "other"))
        source.to_say.put_nowait({"number": 1})
        source.to_say.put_nowait(LocalError("It broke.", "Mend it."))
        items = stream_node(tmp_path, "talk")
        assert await anext(items) == {"number": 1}
        with pytest.raises(LocalError, match=r"It broke. Mend it."):
            await anext(items)


async def test_a_bug_ends_with_a_sentence(tmp_path: Path) -> None:
    """And not with a stream that seems to be whole."""
    source = Source()
    async with serving(tmp_path, source):
        source.to_say.put_nowait(ZeroDivisionError())
        with pytest.raises(LocalError, match="could not go on"):
            await anext(stream_node(tmp_path, "talk"))


async def test_the_command_ends_when_its_asker_goes_away(tmp_path: Path) -> None:
    """At once, whatever it waits for."""
    source = Source()
    async with serving(tmp_path, source):
        source.to_say.put_nowait({"number": 1})
        items = stream_node(tmp_path, "talk")
        await anext(items)
        assert not source.ended.is_set()
        await items.aclose()
        await source.ended.wait()


async def test_the_nodes_stop_is_told(tmp_path: Path) -> None:
    """Its streams end with a last line, and it does not wait for them."""
    source = Source()
    control = ControlSocket(tmp_path, {}, {"talk": source})
    await control.start()
    source.to_say.put_nowait({"number": 1})
    items = stream_node(tmp_path, "talk")
    await anext(items)
    _, told = await asyncio.gather(control.stop(), anext(items, None), return_exceptions=True)
    assert isinstance(told, NodeGone)
    assert "is stopping" in told.problem
    assert source.ended.is_set()


async def test_nothing_is_produced_for_one_who_does_not_read(tmp_path: Path) -> None:
    """Of what a slow asker has not taken no more is made than fits into the buffers of the socket."""
    made = 0

    async def talkative(_: Mapping[str, Any]) -> Items:
        async def items() -> Items:
            nonlocal made
            while True:
                made += 1
                yield {"text": "x" * 10_000}
                await asyncio.sleep(0)

        return items()

    control = ControlSocket(tmp_path, {}, {"talk": talkative})
    await control.start()
    reader, writer = await asyncio.open_unix_connection(str(control.path))
    try:
        writer.write(b"POST /talk HTTP/1.1\r\nHost: node\r\nContent-Length: 0\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        before = -1
        while made != before:
            before = made
            await asyncio.sleep(0.2)
        assert made * 10_000 < 10_000_000
    finally:
        writer.transport.abort()
        await control.stop()


async def test_one_who_does_not_read_keeps_nothing_from_stopping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who does not take the last line does without it."""
    monkeypatch.setattr(control_stream, "LAST_WORDS", 0.05)
    source = Source()
    control = ControlSocket(tmp_path, {}, {"talk": source})
    await control.start()
    reader, writer = await asyncio.open_unix_connection(str(control.path))
    try:
        writer.write(b"POST /talk HTTP/1.1\r\nHost: node\r\nContent-Length: 0\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        for _ in range(300):
            source.to_say.put_nowait({"text": "x" * 10_000})
        async with asyncio.timeout(30):
            await control.stop()
        assert source.ended.is_set()
    finally:
        writer.transport.abort()


async def test_an_object_without_measure_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The asker is told; a line without end would fill its memory."""
    monkeypatch.setattr("bridge.control.stream.LONGEST", 1_000)
    source = Source()
    async with serving(tmp_path, source):
        source.to_say.put_nowait({"text": "x" * 1_000})
        with pytest.raises(LocalError, match="too long"):
            await anext(stream_node(tmp_path, "talk"))


async def test_there_are_only_so_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for one more is told; those that there are go on."""
    monkeypatch.setattr(control_stream, "MOST", 1)
    source = Source()
    async with serving(tmp_path, source):
        source.to_say.put_nowait({"number": 1})
        items = stream_node(tmp_path, "talk")
        await anext(items)
        with pytest.raises(LocalError, match="as many commands"):
            await anext(stream_node(tmp_path, "talk"))
        await items.aclose()
        await source.ended.wait()


async def test_a_command_that_is_begun_is_finished(tmp_path: Path) -> None:
    """Only streams end with their asker: a key that is half rotated would be worse than an answer that nobody
    reads."""
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
