"""The table of media: one row for each `mxc://` URI. Several URIs may share one file."""

from collections.abc import Sequence
from dataclasses import dataclass

from storage.database import Connection
from storage.statements import load

SQL = load("storage.media", "media.sql")
LOCKS = 0x4D454449  # "MEDI": the first of the two numbers of an advisory lock on a file


@dataclass(frozen=True, slots=True)
class MediaRow:
    """`uploader` is None for remote media, which are only cached."""

    origin: str
    media_id: str
    sha256: bytes
    size: int
    content_type: str
    file_name: str | None
    uploader: str | None
    created_at: int
    last_used_at: int
    quarantined: bool = False


@dataclass(frozen=True, slots=True)
class EvictableMedia:
    """Remote media that should be evicted from the cache."""

    origin: str
    media_id: str
    sha256: bytes


async def lock_bytes(connection: Connection, sha256: bytes) -> None:
    """Keep other transactions from adding or deleting this content until this one ends."""
    await connection.execute(SQL.lock_bytes, LOCKS, _number(sha256))


async def find_upload(connection: Connection, origin: str, uploader: str, sha256: bytes) -> str | None:
    """The id under which this user has uploaded this content, in quarantine or not."""
    media_id: str | None = await connection.fetchval(SQL.find_upload, sha256, origin, uploader)
    return media_id


async def upsert(connection: Connection, row: MediaRow) -> None:
    """Insert media, or update cached remote media. Media whose content is quarantined under another URI is
    quarantined as well."""
    await connection.execute(
        SQL.upsert,
        row.origin,
        row.media_id,
        row.sha256,
        row.size,
        row.content_type,
        row.file_name,
        row.uploader,
        row.created_at,
    )


async def fetch(connection: Connection, origin: str, media_id: str) -> MediaRow | None:
    row = await connection.fetchrow(SQL.fetch, origin, media_id)
    return None if row is None else MediaRow(**row)


async def touch(connection: Connection, origin: str, media_id: str, now: int) -> None:
    """Update the time of the last use."""
    await connection.execute(SQL.touch, origin, media_id, now)


async def is_referenced(connection: Connection, sha256: bytes) -> bool:
    """Whether any URI refers to this content."""
    referenced: bool = await connection.fetchval(SQL.is_referenced, sha256)
    return referenced


async def fetch_unreferenced(connection: Connection, hashes: Sequence[bytes]) -> list[bytes]:
    """The hashes to which no URI refers at this moment."""
    return [row["sha256"] for row in await connection.fetch(SQL.fetch_unreferenced, hashes)]


async def set_quarantined(connection: Connection, sha256: bytes, *, quarantined: bool) -> None:
    """Quarantine or release all media with this content."""
    await connection.execute(SQL.set_quarantined, sha256, quarantined)


async def fetch_evictable(
    connection: Connection, *, unused_since: int, most_bytes: int, used_until: int, limit: int
) -> list[EvictableMedia]:
    """Up to `limit` remote media to evict, least recently used first, none used after `used_until`."""
    rows = await connection.fetch(SQL.fetch_evictable, unused_since, most_bytes, used_until, limit)
    return [EvictableMedia(**row) for row in rows]


async def delete_remote(connection: Connection, media: EvictableMedia) -> None:
    """Delete cached remote media. Local and quarantined media are never deleted."""
    await connection.execute(SQL.delete_remote, media.origin, media.media_id, media.sha256)


def _number(sha256: bytes) -> int:
    return int.from_bytes(sha256[:4], "big", signed=True)
