"""Single events from and to published CIS nodes, which speak no Matrix."""

from typing import Final, NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.agents", "cis_events.sql")

MAX_QUEUED: Final = 10_000
"""Events that wait for one node."""


class QueuedEvent(NamedTuple):
    """`requester_node` and `request_id` are of the task that fails if the node will not take it."""

    id: int
    body: bytes
    requester_node: str | None
    request_id: str | None
    deadline: int


# ---- from them ---------------------------------------------------------------------------------------


async def insert_received(
    connection: Connection, peer: str, event_id: str, digest: bytes, now_ms: int
) -> bool:
    """Whether the event is new. If not, `fetch_digest` says what was sent under its id. Another transaction
    that takes it in at the same time is waited for."""
    return await connection.fetchval(SQL.insert_received, peer, event_id, digest, now_ms) is not None


async def fetch_digest(connection: Connection, peer: str, event_id: str) -> bytes | None:
    digest: bytes | None = await connection.fetchval(SQL.fetch_digest, peer, event_id)
    return digest


async def prune_received(connection: Connection, before_ms: int, limit: int) -> int:
    """Forget up to `limit` events that came earlier; how many they were."""
    forgotten: int = await connection.fetchval(SQL.prune_received, before_ms, limit)
    return forgotten


# ---- to them -----------------------------------------------------------------------------------------


async def enqueue(
    connection: Connection,
    peer: str,
    name: str,
    body: bytes,
    deadline: int,
    task: tuple[str, str] | None = None,
    most: int = MAX_QUEUED,
) -> bool:
    """What was enqueued under this name before stays as it is, also when it was sent. False: too much waits.
    `task` is (requester's node, request id)."""
    node_id, request_id = task or (None, None)
    taken: bool | None = await connection.fetchval(
        SQL.insert_outgoing, peer, name, body, node_id, request_id, deadline, most
    )
    return taken is not None


async def list_queued(connection: Connection, peer: str, limit: int) -> list[QueuedEvent]:
    """The oldest first."""
    return [QueuedEvent(*row) for row in await connection.fetch(SQL.list_queued, peer, limit)]


async def list_peers_with_queue(connection: Connection) -> list[str]:
    """For whom something waits."""
    return [row[0] for row in await connection.fetch(SQL.list_peers_with_queue)]


async def mark_sent(connection: Connection, number: int) -> None:
    """It is done with, whether it was taken or not."""
    await connection.execute(SQL.mark_sent, number)


async def prune_outgoing(connection: Connection, before_ms: int, limit: int) -> int:
    """Forget up to `limit` of those whose time was over earlier; how many they were."""
    forgotten: int = await connection.fetchval(SQL.prune_outgoing, before_ms, limit)
    return forgotten
