"""Creates thumbnails in separate processes: a few at the same time, with a timeout."""

import asyncio
import contextlib
import math
import os
import subprocess
import sys
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Final

from cachetools import LRUCache

from federation.matrix.errors import MatrixError
from federation.media import media as media_errors
from federation.media import thumbnail_worker
from federation.media.media_type import DECODABLE, HEAD_BYTES, dimensions, image_type
from federation.media.thumbnail_size import Method, ThumbnailSize

WORKERS: Final = 2
MAX_QUEUED: Final = 64
_MAX_FAILED: Final = 10_000

Refusal = Callable[[], MatrixError]
# The environment variables that the program gets: those that Python may need to find its libraries.
_ENVIRONMENT: Final = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT")


class Thumbnailer:
    """Creates thumbnails with a `program` like `thumbnail_worker`; only tests use another one."""

    def __init__(self, *, max_pixels: int, time_limit: float, program: Path = Path(thumbnail_worker.__file__)) -> None:
        self._max_pixels = max_pixels
        self._time_limit = time_limit
        self._program = program
        self._workers = asyncio.Semaphore(WORKERS)
        self._queued = 0
        # Images whose thumbnails have failed for good, so that they are not tried for each request.
        self._failed: LRUCache[str, Refusal] = LRUCache(_MAX_FAILED)

    async def make(self, sha256: str, source: FileIO, size: ThumbnailSize, target: FileIO) -> None:
        """Write the thumbnail of `source`, whose hash is `sha256`, to `target`. Raises `MatrixError`."""
        refusal = self._failed.get(sha256)
        if refusal is not None:
            raise refusal()
        refusal = self._refusal_by_head(os.pread(source.fileno(), HEAD_BYTES, 0))
        if refusal is not None:
            raise refusal()
        if self._queued >= MAX_QUEUED:
            raise media_errors.busy()
        self._queued += 1
        try:
            async with self._workers:
                refusal = await self._run(source, size, target)
        finally:
            self._queued -= 1
        if refusal is not None:
            self._failed[sha256] = refusal
            raise refusal()

    def _refusal_by_head(self, head: bytes) -> Refusal | None:
        """Return the refusal of an image by its first bytes, without decoding it."""
        if image_type(head) not in DECODABLE:
            return media_errors.no_thumbnail
        width, height = dimensions(head) or (0, 0)
        return media_errors.image_too_large if width * height > self._max_pixels else None

    async def _run(self, source: FileIO, size: ThumbnailSize, target: FileIO) -> Refusal | None:
        """Run the program. Return a refusal if the thumbnail can never be created, else None. Raises
        `MatrixError` for a failure that may be temporary."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            # Isolated mode: imports depend neither on the working directory nor on the environment.
            "-I",
            str(self._program),
            *map(str, (size.width, size.height, self._max_pixels, math.ceil(self._time_limit / 2))),
            "crop" if size.method is Method.CROP else "scale",
            stdin=source,
            stdout=target,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        )
        try:
            async with asyncio.timeout(self._time_limit):
                status = await process.wait()
        except TimeoutError:
            # The machine may be slow at the moment; an image that is itself slow exceeds the CPU limit
            # instead.
            raise media_errors.no_thumbnail() from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if status == thumbnail_worker.TOO_LARGE:
            return media_errors.image_too_large
        return media_errors.no_thumbnail if status != 0 else None
