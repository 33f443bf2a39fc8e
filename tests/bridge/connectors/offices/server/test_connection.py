"""A connection to this node's offices."""

import asyncio

from bridge.connectors.offices.server.memberships import Connection
from bridge.connectors.offices.tokens import Grant


async def test_what_is_asked_waits_for_what_moves_it() -> None:
    """And for nothing else."""
    connection = Connection("s", Grant("1", "x", frozenset({"agent"})), None)
    await connection.settled()
    await connection.turn.acquire()
    waiting = asyncio.create_task(connection.settled())
    await asyncio.sleep(0)
    assert not waiting.done()
    connection.turn.release()
    await waiting
    assert not connection.turn.locked()
