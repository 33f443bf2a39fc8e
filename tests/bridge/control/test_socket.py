"""The node's end of the control socket."""

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


async def test_only_its_owner_may_open_it(tmp_path: Path) -> None:
    """Whoever can speak to it can rotate the keys."""
    socket = ControlSocket(tmp_path, {})
    await socket.start()
    try:
        assert stat.S_IMODE(socket.path.stat().st_mode) == 0o600
        assert [path.name for path in tmp_path.iterdir()] == ["palaver.sock"]
    finally:
        await socket.stop()
    assert list(tmp_path.iterdir()) == []


async def test_what_a_killed_node_left_is_replaced(tmp_path: Path) -> None:
    """A socket file that nobody listens on stops nobody."""
    (tmp_path / "palaver.sock").write_text("")
    (tmp_path / ".palaver.sock.new").write_text("")
    socket = ControlSocket(tmp_path, {"echo": _echo})
    await socket.start()
    try:
        assert await ask_node(tmp_path, "echo", {"a": 1}) == {"got": {"a": 1}}
    finally:
        await socket.stop()


async def test_a_failure_travels_with_its_advice(tmp_path: Path) -> None:
    """The person at the command line reads the node's own words."""
    socket = ControlSocket(tmp_path, {"fail": _fail})
    await socket.start()
    try:
        with pytest.raises(LocalError, match=r"It is broken. Mend it."):
            await ask_node(tmp_path, "fail")
        with pytest.raises(LocalError, match="no command 'other'"):
            await ask_node(tmp_path, "other")
    finally:
        await socket.stop()


async def test_junk_is_refused(tmp_path: Path) -> None:
    """A body that is no JSON object is an answer's matter, not a crash."""
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


async def test_a_path_too_long_for_a_socket_is_told(tmp_path: Path) -> None:
    """With the number of bytes that fit."""
    long = tmp_path / ("x" * 100)
    long.mkdir()
    socket = ControlSocket(long, {})
    try:
        with pytest.raises(LocalError, match="too long"):
            await socket.start()
    finally:
        await socket.stop()


async def test_too_much_is_refused_with_a_sentence(tmp_path: Path) -> None:
    """And not with the page of an HTTP server."""
    socket = ControlSocket(tmp_path, {"echo": _echo})
    await socket.start()
    try:
        with pytest.raises(LocalError, match="given too much"):
            await ask_node(tmp_path, "echo", {"text": "x" * 4 * 1024 * 1024})
        big = {"text": "x" * 1024 * 1024 * 2}
        assert await ask_node(tmp_path, "echo", big) == {"got": big}
    finally:
        await socket.stop()
