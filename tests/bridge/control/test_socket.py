"""The server side of the control socket."""

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bridge.control.client import ask_node
from bridge.control.socket import ControlSocket
from storage.errors import LocalError


async def _echo(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"got": dict(arguments)}


async def _fail(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    raise LocalError("It is broken.", "Mend it.")


async def test_only_the_owner_can_open_the_socket(tmp_path: Path) -> None:
    """A user who can open it can rotate the keys."""
    socket = ControlSocket(tmp_path, {})
    await socket.start()
    try:
        assert stat.S_IMODE(socket.path.stat().st_mode) == 0o600
        assert [path.name for path in tmp_path.iterdir()] == ["palaver.sock"]
    finally:
        await socket.stop()
    assert list(tmp_path.iterdir()) == []


async def test_the_socket_of_a_killed_node_is_replaced(tmp_path: Path) -> None:
    """It does not prevent the start."""
    (tmp_path / "palaver.sock").write_text("")
    (tmp_path / ".palaver.sock.new").write_text("")
    socket = ControlSocket(tmp_path, {"echo": _echo})
    await socket.start()
    try:
        assert await ask_node(tmp_path, "echo", {"a": 1}) == {"got": {"a": 1}}
    finally:
        await socket.stop()


async def test_an_error_is_sent_with_its_advice(tmp_path: Path) -> None:
    """The command line prints the node's message."""
    socket = ControlSocket(tmp_path, {"fail": _fail})
    await socket.start()
    try:
        with pytest.raises(LocalError, match=r"It is broken. Mend it."):
            await ask_node(tmp_path, "fail")
        with pytest.raises(LocalError, match="no command 'other'"):
            await ask_node(tmp_path, "other")
    finally:
        await socket.stop()


async def test_an_invalid_body_is_refused(tmp_path: Path) -> None:
    """A body that is not a JSON object."""
    socket = ControlSocket(tmp_path, {"echo": _echo})
    await socket.start()
    connector = aiohttp.UnixConnector(str(socket.path))
    try:
        async with aiohttp.ClientSession(connector=connector) as session:
            for body in (b"{", b"[1]", b"\xff"):
                async with session.post("http://node/echo", data=body) as response:
                    assert response.status == 400
                    assert "JSON" in (await response.json())["problem"]
    finally:
        await socket.stop()


async def test_a_path_that_is_too_long_is_an_error(tmp_path: Path) -> None:
    """The advice has the maximum length."""
    long = tmp_path / ("x" * 100)
    long.mkdir()
    socket = ControlSocket(long, {})
    try:
        with pytest.raises(LocalError, match="too long"):
            await socket.start()
    finally:
        await socket.stop()


async def test_a_body_that_is_too_large_is_refused(tmp_path: Path) -> None:
    """With a message for the operator, not with an HTML page."""
    socket = ControlSocket(tmp_path, {"echo": _echo})
    await socket.start()
    try:
        with pytest.raises(LocalError, match="too large"):
            await ask_node(tmp_path, "echo", {"text": "x" * 4 * 1024 * 1024})
        big = {"text": "x" * 1024 * 1024 * 2}
        assert await ask_node(tmp_path, "echo", big) == {"got": big}
    finally:
        await socket.stop()
