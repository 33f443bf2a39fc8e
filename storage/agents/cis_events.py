"""Events received from and queued for published CIS nodes, which exchange them over HTTP without Matrix."""

from typing import Final, NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.agents", "cis_events.sql")

MAX_QUEUED: Final = 10_000
"""Maximum number of queued events for one node."""


class QueuedEvent(NamedTuple):
    """`requester_node` and `request_id` identify the task that fails if the node does not accept the
    event."""

    id: int
    body: bytes
    requester_node: str | None
    request_id: str | None
    deadline: int


# ---- received ----------------------------------------------------------------------------------------


async def insert_received(connection: Connection, peer: str, event_id: str, digest: bytes, now_ms: int) -> bool:
    """Record a received event and return whether it is new. If not, `fetch_digest` returns the digest of the
    event received under this id. Waits for a transaction that is inserting the same event."""
    return await connection.fetchval(SQL.insert_received, peer, event_id, digest, now_ms) is not None


async def fetch_digest(connection: Connection, peer: str, event_id: str) -> bytes | None:
    digest: bytes | None = await connection.fetchval(SQL.fetch_digest, peer, event_id)
    return digest


async def prune_received(connection: Connection, before_ms: int, limit: int) -> int:
    """Delete up to `limit` events received earlier, and return their number."""
    deleted: int = await connection.fetchval(SQL.prune_received, before_ms, limit)
    return deleted


# ---- outgoing ----------------------------------------------------------------------------------------


async def enqueue(
    connection: Connection,
    peer: str,
    name: str,
    body: bytes,
    deadline: int,
    task: tuple[str, str] | None = None,
    most: int = MAX_QUEUED,
) -> bool:
    """Queue an event. An event already queued or sent under this name stays as it is. False if the queue is
    full. `task` is (requester's node, request id)."""
    node_id, request_id = task or (None, None)
    queued: bool | None = await connection.fetchval(
        SQL.insert_outgoing, peer, name, body, node_id, request_id, deadline, most
    )
    return queued is not None


async def list_queued(connection: Connection, peer: str, limit: int) -> list[QueuedEvent]:
    """The oldest first."""
    return [QueuedEvent(*row) for row in await connection.fetch(SQL.list_queued, peer, limit)]


async def list_peers_with_queue(connection: Connection) -> list[str]:
    """The peers with queued events."""
    return [row[0] for row in await connection.fetch(SQL.list_peers_with_queue)]


async def mark_sent(connection: Connection, number: int) -> None:
    """Mark an event as done, whether the peer accepted it or not."""
    await connection.execute(SQL.mark_sent, number)


async def prune_outgoing(connection: Connection, before_ms: int, limit: int) -> int:
    """Delete up to `limit` events whose deadline was earlier, and return their number."""
    deleted: int = await connection.fetchval(SQL.prune_outgoing, before_ms, limit)
    return deleted
