"""Media comes in, piece by piece."""

import asyncio

import pytest

from federation.matrix.errors import MatrixError
from federation.media import media as media_errors
from federation.media.store import receive_media
from tests.federation.media.repository import Repository


async def test_small_pieces_and_large_ones_make_one_file(media_repository: Repository) -> None:
    """In their order, whole when it is complete."""
    parts = [b"a" * 10, b"b" * 300_000, b"", b"c"]
    async with receive_media(media_repository.files, 1 << 20, media_errors.upload_too_large) as intake:
        for part in parts:
            await intake.write(part)
        await intake.complete()
        assert intake.file.size == 300_011
        [path] = (media_repository.files.directory / "incoming").iterdir()
        assert path.read_bytes() == b"".join(parts)
    assert media_repository.left() == []


async def test_one_byte_too_many_is_refused(media_repository: Repository) -> None:
    """As soon as it is seen, or said."""
    async with receive_media(media_repository.files, 5, media_errors.upload_too_large) as intake:
        await intake.write(b"12345")
        with pytest.raises(MatrixError, match="M_TOO_LARGE"):
            await intake.write(b"6")
        intake.check_size(None)
        intake.check_size(5)
        with pytest.raises(MatrixError, match="at most 5 bytes"):
            intake.check_size(6)


async def test_what_is_broken_off_leaves_nothing(media_repository: Repository) -> None:
    """Whoever uploads may go away at any time."""
    taken = asyncio.Event()

    async def upload() -> None:
        async with receive_media(media_repository.files, 1 << 30, media_errors.upload_too_large) as intake:
            await intake.write(b"x" * 1_000_000)
            taken.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(upload())
    await taken.wait()
    assert media_repository.left() == ["incoming"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert media_repository.left() == []
