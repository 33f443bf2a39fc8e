"""The command line's end of the control socket."""

import socket
from pathlib import Path

import pytest

from bridge.service.control_client import NotRunning, ask_node
from storage.errors import LocalError


async def test_nobody_there_is_told_with_how_to_start_one(tmp_path: Path) -> None:
    """No socket at all, or one that a killed node left."""
    with pytest.raises(NotRunning, match="palaver run"):
        await ask_node(tmp_path, "status")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "palaver.sock"))
    with pytest.raises(NotRunning):
        await ask_node(tmp_path, "status")


async def test_a_node_that_hangs_up_is_told(tmp_path: Path) -> None:
    """Something listens and answers nothing that makes sense."""
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(tmp_path / "palaver.sock"))
        mute.listen(1)
        mute.shutdown(socket.SHUT_RDWR)
        with pytest.raises(LocalError):
            await ask_node(tmp_path, "status")
