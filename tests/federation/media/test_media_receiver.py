"""Receiving media in chunks."""

import asyncio

import pytest

from federation.matrix.errors import MatrixError
from federation.media import media as media_errors
from federation.media.store import receive_media
from tests.federation.media.repository import Repository


async def test_chunks_of_any_size_make_one_file(media_repository: Repository) -> None:
    """In order, and complete."""
    parts = [b"a" * 10, b"b" * 300_000, b"", b"c"]
    async with receive_media(media_repository.files, 1 << 20, media_errors.upload_too_large) as intake:
        for part in parts:
            await intake.write(part)
        await intake.complete()
        assert intake.file.size == 300_011
        [path] = (media_repository.files.directory / "incoming").iterdir()
        assert path.read_bytes() == b"".join(parts)
    assert media_repository.directories_with_files() == []


async def test_media_beyond_the_limit_is_refused(media_repository: Repository) -> None:
    """When the bytes arrive, or by the announced size."""
    async with receive_media(media_repository.files, 5, media_errors.upload_too_large) as intake:
        await intake.write(b"12345")
        with pytest.raises(MatrixError, match="M_TOO_LARGE"):
            await intake.write(b"6")
        intake.check_size(None)
        intake.check_size(5)
        with pytest.raises(MatrixError, match="at most 5 bytes"):
            intake.check_size(6)


async def test_an_aborted_upload_leaves_no_file(media_repository: Repository) -> None:
    """The uploader may disconnect at any time."""
    taken = asyncio.Event()

    async def upload() -> None:
        async with receive_media(media_repository.files, 1 << 30, media_errors.upload_too_large) as intake:
            await intake.write(b"x" * 1_000_000)
            taken.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(upload())
    await taken.wait()
    assert media_repository.directories_with_files() == ["incoming"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert media_repository.directories_with_files() == []
