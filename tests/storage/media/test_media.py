"""The table of media, and the eviction of remote media."""

from dataclasses import replace

from storage.database import Database
from storage.media.media import (
    EvictableMedia,
    MediaRow,
    delete_remote,
    fetch,
    fetch_evictable,
    fetch_unreferenced,
    find_upload,
    is_referenced,
    lock_bytes,
    set_quarantined,
    touch,
    upsert,
)

A, B = b"a" * 32, b"b" * 32
OURS = MediaRow("us.test", "one", A, 10, "image/png", "a.png", "@alice:us.test", 1000, 1000)
THEIRS = replace(OURS, origin="them.test", uploader=None)


async def test_media_are_found_by_their_uri(database: Database) -> None:
    """Only by their own."""
    async with database.transaction() as connection:
        await upsert(connection, OURS)
        assert await fetch(connection, "us.test", "one") == OURS
        assert await fetch(connection, "them.test", "one") is None
        assert await is_referenced(connection, A)
        assert not await is_referenced(connection, B)
        assert await fetch_unreferenced(connection, [A, B]) == [B]
        assert await fetch_unreferenced(connection, []) == []


async def test_local_media_are_written_once(database: Database) -> None:
    """A second insert does not change local media; remote media are updated."""
    async with database.transaction() as connection:
        for row in (OURS, THEIRS):
            await upsert(connection, row)
            await upsert(connection, replace(row, sha256=B, uploader=None))
        assert await fetch(connection, "us.test", "one") == OURS
        assert await fetch(connection, "them.test", "one") == replace(THEIRS, sha256=B)


async def test_the_last_use_only_increases(database: Database) -> None:
    """Also if the clock was set back."""
    async with database.transaction() as connection:
        await upsert(connection, THEIRS)
        for now in (5000, 4000):
            await touch(connection, "them.test", "one", now)
        assert await fetch(connection, "them.test", "one") == replace(THEIRS, last_used_at=5000)


async def test_quarantine_applies_to_all_uris_of_the_content(database: Database) -> None:
    """To existing and later ones."""
    async with database.transaction() as connection:
        await upsert(connection, THEIRS)
        await set_quarantined(connection, A, quarantined=True)
        await upsert(connection, OURS)
        await upsert(connection, THEIRS)
        for row in (OURS, THEIRS):
            assert await fetch(connection, row.origin, row.media_id) == replace(row, quarantined=True)
        await set_quarantined(connection, A, quarantined=False)
        assert await fetch(connection, "us.test", "one") == OURS


async def test_an_upload_is_found_by_its_content(database: Database) -> None:
    """The oldest upload of that user."""
    async with database.transaction() as connection:
        assert await find_upload(connection, "us.test", "@alice:us.test", A) is None
        await upsert(connection, THEIRS)
        await upsert(connection, replace(OURS, media_id="later", created_at=2000))
        await upsert(connection, OURS)
        await upsert(connection, replace(OURS, media_id="bobs", uploader="@bob:us.test", created_at=1))
        await upsert(connection, replace(OURS, media_id="other", sha256=B, created_at=1))
        assert await find_upload(connection, "us.test", "@alice:us.test", A) == "one"


async def test_old_or_excess_remote_media_are_evictable(database: Database) -> None:
    """Least recently used first. Never local media, never quarantined media."""
    async with database.transaction() as connection:
        await upsert(connection, replace(OURS, created_at=1, size=10**9))
        for number in range(5):
            await upsert(
                connection, replace(THEIRS, media_id=str(number), sha256=bytes([number]) * 32, created_at=number)
            )
        await set_quarantined(connection, bytes([3]) * 32, quarantined=True)

        async def surplus(since: int, most: int, *, used_until: int = 9, limit: int = 10) -> list[str]:
            found = await fetch_evictable(
                connection, unused_since=since, most_bytes=most, used_until=used_until, limit=limit
            )
            return [one.media_id for one in found]

        assert await surplus(0, 100) == []
        assert await surplus(2, 100) == ["0", "1"]
        assert await surplus(0, 20) == ["0", "1"]
        assert await surplus(0, 19) == ["0", "1", "2"]
        assert await surplus(9, 0) == ["0", "1", "2", "4"]
        assert await surplus(9, 0, limit=1) == ["0"]
        assert await surplus(9, 0, used_until=1) == ["0", "1"]


async def test_only_remote_media_are_deleted(database: Database) -> None:
    """And only if their content has not changed since."""
    async with database.transaction() as connection:
        await lock_bytes(connection, A)
        for row in (OURS, THEIRS):
            await upsert(connection, row)
        for surplus in (EvictableMedia("us.test", "one", A), EvictableMedia("them.test", "one", B)):
            await delete_remote(connection, surplus)
        assert await fetch(connection, "us.test", "one") is not None
        assert await fetch(connection, "them.test", "one") is not None
        await delete_remote(connection, EvictableMedia("them.test", "one", A))
        assert await fetch(connection, "them.test", "one") is None
        assert await is_referenced(connection, A)


async def test_the_lock_of_a_file_excludes_other_transactions(database: Database) -> None:
    """Until the transaction ends."""
    async with database.transaction() as one, database.transaction() as other:
        await lock_bytes(one, A)
        await lock_bytes(other, B)
        free = "SELECT pg_try_advisory_xact_lock(x'4D454449'::int, x'61616161'::int)"
        assert not await other.fetchval(free)
