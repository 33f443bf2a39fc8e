"""Direct chats of a person with an agent that were created at the person's request."""

from collections.abc import Collection

from storage.database import Connection
from storage.statements import load

SQL = load("storage.people", "direct_chats.sql")


async def upsert_chat(connection: Connection, user_id: str, agent: str, room_id: str) -> None:
    """Insert or replace the direct chat. `agent` is an address."""
    await connection.execute(SQL.upsert_chat, user_id, agent, room_id)


async def fetch_chat(connection: Connection, user_id: str, agent: str) -> str | None:
    room_id: str | None = await connection.fetchval(SQL.fetch_chat, user_id, agent)
    return room_id


async def fetch_chats(connection: Connection, user_id: str, agents: Collection[str]) -> dict[str, str]:
    """The direct chats with these agents: room ids by address."""
    return {row[0]: row[1] for row in await connection.fetch(SQL.fetch_chats, user_id, list(agents))}
