"""Connections to this node's offices."""

import asyncio

from bridge.connectors.offices.server.memberships import Connection
from bridge.connectors.offices.tokens import Grant


async def test_requests_wait_for_a_membership_change() -> None:
    """They wait only while the connection's lock is held."""
    connection = Connection("s", Grant("1", "x", frozenset({"agent"})), None)
    await connection.wait_for_membership_change()
    await connection.lock.acquire()
    waiting = asyncio.create_task(connection.wait_for_membership_change())
    await asyncio.sleep(0)
    assert not waiting.done()
    connection.lock.release()
    await waiting
    assert not connection.lock.locked()
