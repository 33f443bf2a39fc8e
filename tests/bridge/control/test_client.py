"""The command line's end of the control socket."""

import asyncio
import socket
from pathlib import Path

import pytest

from bridge.control.client import NodeGone, NotRunning, ask_node, stream_node
from bridge.control.socket import ControlSocket
from storage.errors import LocalError


async def test_nobody_there_is_told_with_how_to_start_one(tmp_path: Path) -> None:
    """No socket at all, or one that a killed node left."""
    with pytest.raises(NotRunning, match="palaver run"):
        await ask_node(tmp_path, "status")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "palaver.sock"))
    with pytest.raises(NotRunning):
        await ask_node(tmp_path, "status")


async def test_a_node_that_fell_over_is_told(tmp_path: Path) -> None:
    """A bug there is no traceback here."""

    async def fall_over(_: object) -> dict[str, object]:
        raise ZeroDivisionError

    control = ControlSocket(tmp_path, {"fall-over": fall_over})
    await control.start()
    try:
        with pytest.raises(LocalError, match="could not carry that out"):
            await ask_node(tmp_path, "fall-over")
    finally:
        await control.stop()


async def test_patience_ends(tmp_path: Path) -> None:
    """Those who look at other servers need more of it than others."""
    release = asyncio.Event()

    async def hang(_: object) -> dict[str, object]:
        await release.wait()
        return {}

    control = ControlSocket(tmp_path, {"hang": hang})
    await control.start()
    try:
        with pytest.raises(LocalError, match="did not answer"):
            await ask_node(tmp_path, "hang", patience=0.1)
    finally:
        release.set()
        await control.stop()


async def test_a_node_that_hangs_up_is_told(tmp_path: Path) -> None:
    """Something listens and answers nothing that makes sense."""
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(tmp_path / "palaver.sock"))
        mute.listen(1)
        mute.shutdown(socket.SHUT_RDWR)
        with pytest.raises(LocalError):
            await ask_node(tmp_path, "status")


@pytest.mark.parametrize("rest", [b"", b'12\r\n{"item":{"a', b"0\r\n\r\n"])
async def test_a_stream_that_breaks_off_is_not_taken_for_whole(tmp_path: Path, rest: bytes) -> None:
    """A killed node says nothing more, in the middle of a line or between two."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(b'11\r\n{"item":{"a":1}}\n\r\n' + rest)
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(answer, str(tmp_path / "palaver.sock"))
    async with server:
        items = stream_node(tmp_path, "talk")
        assert await anext(items) == {"a": 1}
        with pytest.raises(NodeGone, match="has gone"):
            await anext(items)


async def test_a_stream_of_nobody_is_told(tmp_path: Path) -> None:
    """As any other command is."""
    with pytest.raises(NotRunning):
        await anext(stream_node(tmp_path, "talk"))
