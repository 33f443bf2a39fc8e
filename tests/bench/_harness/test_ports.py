import asyncio
import sys

import pytest

from bench._harness.child import ChildError, child
from bench._harness.ports import LOOPBACK, free_port, until_listening


async def test_a_free_port_can_be_listened_on() -> None:
    """On loopback, and nowhere else."""
    port = free_port()
    async with await asyncio.start_server(lambda reader, writer: writer.close(), LOOPBACK, port) as server:
        assert server.sockets[0].getsockname() == ("127.0.0.1", port)


async def test_a_server_is_waited_for_until_it_listens() -> None:
    """One that was told its port."""
    port = free_port()
    command = (sys.executable, "-m", "http.server", "--bind", LOOPBACK, str(port))
    async with child("http.server", *command) as server:
        await until_listening(port, server, 10)
        _, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.close()
        await writer.wait_closed()


async def test_waiting_for_a_server_ends_with_it() -> None:
    """Or with the time given."""
    async with child("dead", sys.executable, "-c", "") as dead:
        with pytest.raises(ChildError, match="dead ended with status 0"):
            await until_listening(free_port(), dead, 10)
    async with child("deaf", sys.executable, "-c", "input()") as deaf:
        with pytest.raises(ChildError, match=r"deaf does not listen after 0\.05 s"):
            await until_listening(free_port(), deaf, 0.05)
