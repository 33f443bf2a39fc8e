"""Limits of the programs that create thumbnails."""

import asyncio
import io
import os
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from federation.matrix.errors import MatrixError
from federation.media import thumbnailer
from federation.media.thumbnail_size import Method, ThumbnailSize
from federation.media.thumbnailer import Thumbnailer
from tests.federation.pictures import SVG, bomb, picture

SIZE = ThumbnailSize(96, 96, Method.CROP)
NEVER_ENDS = "import os, sys, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n"
COUNTS = "import os, sys\nopen(sys.argv[0] + '.count', 'a').write('x')\nsys.exit({status})\n"


async def make(by: Thumbnailer, data: bytes, tmp_path: Path, sha256: str = "aa") -> bytes:
    original, target = tmp_path / "original", tmp_path / "target"
    original.write_bytes(data)
    with original.open("rb", buffering=0) as source, target.open("wb", buffering=0) as file:
        await by.make(sha256, source, SIZE, file)
    return target.read_bytes()


def program(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "program.py"
    path.write_text(text)
    return path


async def test_a_thumbnail_is_created(tmp_path: Path) -> None:
    """By another process, which ends."""
    made = await make(Thumbnailer(max_pixels=1_000_000, time_limit=60), picture(), tmp_path)
    with Image.open(io.BytesIO(made)) as image:
        assert image.size == (96, 96)


@pytest.mark.parametrize(
    ("data", "status"),
    [(SVG, 400), (b"", 400), (bomb(), 413), (picture()[:100], 400), (picture("JPEG", (1100, 1000)), 413)],
)
async def test_invalid_images_are_refused(tmp_path: Path, data: bytes, status: int) -> None:
    """By their first bytes or by the program."""
    with pytest.raises(MatrixError) as refused:
        await make(Thumbnailer(max_pixels=1_000_000, time_limit=60), data, tmp_path)
    assert refused.value.status == status


async def test_a_program_that_hangs_is_killed(tmp_path: Path) -> None:
    """After the timeout. The image is tried again later, because the machine may have been slow."""
    by = Thumbnailer(max_pixels=1000_000, time_limit=1.0, program=program(tmp_path, NEVER_ENDS))
    with pytest.raises(MatrixError) as refused:
        await make(by, picture(), tmp_path)
    assert refused.value.status == 400
    # It may have been killed before it could write its process id.
    for pid in (tmp_path / "target").read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


async def test_cancelling_kills_the_program(tmp_path: Path) -> None:
    """No process is left."""
    by = Thumbnailer(max_pixels=1_000_000, time_limit=600, program=program(tmp_path, NEVER_ENDS))
    waiting = asyncio.create_task(make(by, picture(), tmp_path))
    target = tmp_path / "target"
    async with asyncio.timeout(60):
        while not (target.exists() and target.read_text()):
            await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(ProcessLookupError):
        os.kill(int(target.read_text()), 0)


@pytest.mark.parametrize(("status", "answer"), [(3, 400), (4, 413), (1, 400)])
async def test_an_invalid_image_is_tried_once(tmp_path: Path, status: int, answer: int) -> None:
    """Further requests are refused at once; other images are not affected."""
    text = COUNTS.format(status=status)
    by = Thumbnailer(max_pixels=1_000_000, time_limit=60, program=program(tmp_path, text))
    for sha256 in ("aa", "aa", "bb"):
        with pytest.raises(MatrixError) as refused:
            await make(by, picture(), tmp_path, sha256)
        assert refused.value.status == answer
    assert (tmp_path / "program.py.count").read_text() == "xx"


async def test_the_queue_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Further requests are refused."""
    monkeypatch.setattr(thumbnailer, "MAX_QUEUED", 1)
    by = Thumbnailer(max_pixels=1_000_000, time_limit=600, program=program(tmp_path, NEVER_ENDS))
    waiting: asyncio.Task[Any] = asyncio.create_task(make(by, picture(), tmp_path))
    await asyncio.sleep(0)
    with pytest.raises(MatrixError, match="M_LIMIT_EXCEEDED"):
        await make(by, picture(), tmp_path, "bb")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
