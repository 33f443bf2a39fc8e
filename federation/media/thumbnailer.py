"""Has thumbnails made by programs of their own: few at a time, in time, and ended when they do not end."""

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
from federation.media.media_type import CAN_BE_DECODED, ENOUGH, dimensions, image_type
from federation.media.thumbnail_size import Method, ThumbnailSize

WORKERS: Final = 2
MOST_WAITING: Final = 64
_MOST_REMEMBERED: Final = 10_000

Refusal = Callable[[], MatrixError]
# All that the program gets of our environment: what Python may need to find its own libraries.
_PASSED_ON: Final = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT")


class Thumbnailer:
    """`program` makes a thumbnail as `thumbnail_worker` does; only a test has another one."""

    def __init__(
        self, *, most_pixels: int, time_limit: float, program: Path = Path(thumbnail_worker.__file__)
    ) -> None:
        self._most_pixels = most_pixels
        self._time_limit = time_limit
        self._program = program
        self._places = asyncio.Semaphore(WORKERS)
        self._waiting = 0
        # A picture that cannot be had costs its time once, not for each who asks for it.
        self._hopeless: LRUCache[str, Refusal] = LRUCache(_MOST_REMEMBERED)

    async def make(self, sha256: str, source: FileIO, size: ThumbnailSize, target: FileIO) -> None:
        """Write the thumbnail of `source`, whose hash is `sha256`, to `target`. Raises `MatrixError`."""
        known = self._hopeless.get(sha256)
        if known is not None:
            raise known()
        refusal = self._refused_by_head(os.pread(source.fileno(), ENOUGH, 0))
        if refusal is not None:
            raise refusal()
        if self._waiting >= MOST_WAITING:
            raise media_errors.busy()
        self._waiting += 1
        try:
            async with self._places:
                refusal = await self._run(source, size, target)
        finally:
            self._waiting -= 1
        if refusal is not None:
            self._hopeless[sha256] = refusal
            raise refusal()

    def _refused_by_head(self, head: bytes) -> Refusal | None:
        """What needs no decoder to be seen is seen without one."""
        if image_type(head) not in CAN_BE_DECODED:
            return media_errors.no_thumbnail
        width, height = dimensions(head) or (0, 0)
        return media_errors.image_too_large if width * height > self._most_pixels else None

    async def _run(self, source: FileIO, size: ThumbnailSize, target: FileIO) -> Refusal | None:
        """Why there will never be one; None when there is one now. Raises `MatrixError` for bad luck."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            # Neither our directory nor anybody's environment has a say in what it imports.
            "-I",
            str(self._program),
            *map(str, (size.width, size.height, self._most_pixels, math.ceil(self._time_limit / 2))),
            "crop" if size.method is Method.CROP else "scale",
            stdin=source,
            stdout=target,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
        )
        try:
            async with asyncio.timeout(self._time_limit):
                status = await process.wait()
        except TimeoutError:
            # It may be the machine that is slow today; a slow picture comes to the end of its processor time.
            raise media_errors.no_thumbnail() from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if status == thumbnail_worker.TOO_LARGE:
            return media_errors.image_too_large
        return media_errors.no_thumbnail if status != 0 else None
