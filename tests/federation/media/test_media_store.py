"""Stored media: files and rows."""

import asyncio
import hashlib
from dataclasses import replace

import pytest

from federation.matrix.errors import MatrixError
from federation.media.media import MediaInfo, Mxc
from federation.media.store import MIN_AGE_MS, TOUCH_INTERVAL_MS
from storage.media import media as rows
from tests.federation.media.repository import ALICE, BEGINNING, US, Repository

OURS = Mxc(US, "ours")
THEIRS = Mxc("them.test", "theirs")


def bytes_of(repository: Repository, info: MediaInfo) -> bytes | None:
    file = repository.store.open(info)
    if file is None:
        return None
    with file:
        return file.readall()


async def last_used(repository: Repository, mxc: Mxc) -> int:
    async with repository.database.transaction() as connection:
        row = await rows.fetch(connection, mxc.server, mxc.media_id)
    assert row is not None
    return row.last_used_at


async def test_saved_media_is_found(media_repository: Repository) -> None:
    """With its hash, its size and the type to serve."""
    kept = await media_repository.keep(OURS, b"hello", ALICE)
    assert kept == MediaInfo(OURS, hashlib.sha256(b"hello").hexdigest(), 5, "text/plain", "a.txt", ALICE, BEGINNING)
    assert await media_repository.store.find(OURS) == kept
    assert bytes_of(media_repository, kept) == b"hello"
    assert await media_repository.store.find(THEIRS) is None


async def test_the_same_bytes_are_stored_once(media_repository: Repository) -> None:
    """For all their URIs, until the last one is deleted."""
    ours = await media_repository.keep(OURS, b"hello", ALICE)
    await media_repository.keep(THEIRS, b"hello")
    assert media_repository.directories_with_files() == ["sha256"]
    assert await media_repository.store.prune(0, 0) == 0, "somebody has just fetched it"
    media_repository.times.now += MIN_AGE_MS
    assert await media_repository.store.prune(0, 0) == 1
    assert await media_repository.store.find(THEIRS) is None
    assert bytes_of(media_repository, ours) == b"hello"


async def test_only_remote_media_is_pruned(media_repository: Repository) -> None:
    """By age and by size, with its files and thumbnails."""
    await media_repository.keep(OURS, b"ours", ALICE)
    media_repository.times.now += 1000
    theirs = await media_repository.keep(THEIRS, b"theirs")
    incoming = media_repository.files.begin()
    incoming.save_thumbnail(bytes.fromhex(theirs.sha256), "1x1-crop")
    assert media_repository.directories_with_files() == ["sha256", "sha256", "thumbnails"]
    media_repository.times.now += MIN_AGE_MS
    assert await media_repository.store.prune(100, MIN_AGE_MS) == 0
    media_repository.times.now += 1
    assert await media_repository.store.prune(100, MIN_AGE_MS) == 1
    assert media_repository.directories_with_files() == ["sha256"]
    assert await media_repository.store.prune(0, 0) == 0


async def test_pruning_continues_until_done(media_repository: Repository) -> None:
    """Beyond one batch."""
    async with media_repository.database.transaction() as connection:
        for number in range(250):
            sha256 = hashlib.sha256(bytes([number])).digest()
            row = rows.MediaRow("them.test", str(number), sha256, 1, "a/b", None, None, BEGINNING, BEGINNING)
            await rows.upsert(connection, row)
    media_repository.times.now += MIN_AGE_MS
    assert await media_repository.store.prune(10, 2 * MIN_AGE_MS) == 240
    assert await media_repository.store.prune(10, 2 * MIN_AGE_MS) == 0


async def test_bytes_saved_while_they_are_pruned_are_kept(media_repository: Repository) -> None:
    """Saving and pruning lock the same bytes: a row never loses its file."""
    for number in range(20):
        data = f"{number}".encode()
        await media_repository.keep(replace(THEIRS, media_id=f"t{number}"), data)
        media_repository.times.now += MIN_AGE_MS
        kept, _ = await asyncio.gather(
            media_repository.keep(replace(OURS, media_id=f"o{number}"), data, ALICE), media_repository.store.prune(0, 0)
        )
        assert bytes_of(media_repository, kept) == data


async def test_orphaned_files_are_deleted(media_repository: Repository) -> None:
    """Only files without a row."""
    kept = await media_repository.keep(OURS, b"hello", ALICE)
    incoming = media_repository.files.begin()
    incoming.write(b"left")
    incoming.save()
    assert media_repository.directories_with_files() == ["sha256", "sha256"]
    assert await media_repository.store.delete_orphans() == 1
    assert await media_repository.store.delete_orphans() == 0
    assert bytes_of(media_repository, kept) == b"hello"


async def test_files_of_running_uploads_are_not_deleted(media_repository: Repository) -> None:
    """Their rows are about to be written."""
    for number in range(20):
        kept, _ = await asyncio.gather(
            media_repository.keep(replace(OURS, media_id=f"{number}"), f"{number}".encode(), ALICE),
            media_repository.store.delete_orphans(),
        )
        assert bytes_of(media_repository, kept) == f"{number}".encode()


async def test_the_time_of_last_use_is_updated_now_and_then(media_repository: Repository) -> None:
    """Not at each use, which would cost a write."""
    await media_repository.keep(THEIRS, b"theirs")
    media_repository.times.now += TOUCH_INTERVAL_MS - 1
    await media_repository.store.find(THEIRS)
    assert await last_used(media_repository, THEIRS) == BEGINNING
    media_repository.times.now += 1
    await media_repository.store.find(THEIRS)
    assert await last_used(media_repository, THEIRS) == BEGINNING + TOUCH_INTERVAL_MS


async def test_quarantined_media_is_not_found(media_repository: Repository) -> None:
    """Under any URI; it is not pruned, so that it is not downloaded again."""
    for mxc, uploader in ((OURS, ALICE), (THEIRS, None)):
        await media_repository.keep(mxc, b"bad", uploader)
    media_repository.times.now += MIN_AGE_MS
    assert await media_repository.store.quarantine(OURS)
    assert not await media_repository.store.quarantine(Mxc(US, "nothing"))
    assert await media_repository.store.prune(0, 0) == 0
    for mxc in (OURS, THEIRS):
        with pytest.raises(MatrixError, match="M_NOT_FOUND"):
            await media_repository.store.find(mxc)
    assert await media_repository.store.quarantine(THEIRS, quarantined=False)
    assert await media_repository.store.find(OURS) is not None


async def test_a_missing_file_is_reported(media_repository: Repository) -> None:
    """The row alone is not served."""
    kept = await media_repository.keep(OURS, b"hello", ALICE)
    media_repository.files.delete(bytes.fromhex(kept.sha256))
    assert media_repository.store.open(kept) is None
