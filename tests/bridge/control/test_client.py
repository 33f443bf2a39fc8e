"""The client of the control socket."""

import asyncio
import socket
from pathlib import Path

import pytest

from bridge.control.client import NodeGone, NotRunning, ask_node, stream_node
from bridge.control.socket import ControlSocket
from storage.errors import LocalError


async def test_without_a_node_the_advice_is_to_start_one(tmp_path: Path) -> None:
    """If the socket does not exist, or a killed node has left it."""
    with pytest.raises(NotRunning, match="palaver run"):
        await ask_node(tmp_path, "status")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "palaver.sock"))
    with pytest.raises(NotRunning):
        await ask_node(tmp_path, "status")


async def test_an_unexpected_exception_in_the_node_is_reported(tmp_path: Path) -> None:
    """The client has no traceback."""

    async def crash(_: object) -> dict[str, object]:
        raise ZeroDivisionError

    control = ControlSocket(tmp_path, {"crash": crash})
    await control.start()
    try:
        with pytest.raises(LocalError, match="The command failed in the node"):
            await ask_node(tmp_path, "crash")
    finally:
        await control.stop()


async def test_a_command_has_a_timeout(tmp_path: Path) -> None:
    """Commands that check other servers use a longer one."""
    release = asyncio.Event()

    async def hang(_: object) -> dict[str, object]:
        await release.wait()
        return {}

    control = ControlSocket(tmp_path, {"hang": hang})
    await control.start()
    try:
        with pytest.raises(LocalError, match="did not answer"):
            await ask_node(tmp_path, "hang", timeout_secs=0.1)
    finally:
        release.set()
        await control.stop()


async def test_a_closed_connection_is_reported(tmp_path: Path) -> None:
    """A process listens and sends no answer."""
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "palaver.sock"))
        silent.listen(1)
        silent.shutdown(socket.SHUT_RDWR)
        with pytest.raises(LocalError):
            await ask_node(tmp_path, "status")


@pytest.mark.parametrize("rest", [b"", b'12\r\n{"item":{"a', b"0\r\n\r\n"])
async def test_an_incomplete_stream_is_an_error(tmp_path: Path, rest: bytes) -> None:
    """A killed node ends it within a line or between two lines."""

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
        with pytest.raises(NodeGone, match="has ended"):
            await anext(items)


async def test_a_stream_without_a_node_is_an_error(tmp_path: Path) -> None:
    """The same error as for any other command."""
    with pytest.raises(NotRunning):
        await anext(stream_node(tmp_path, "talk"))
