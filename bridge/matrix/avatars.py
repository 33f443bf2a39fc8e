"""Draws and uploads the avatars of agents: each is uploaded once per node, not once per process or start.

An avatar is white letters on a colour, as a PNG. It is a full square, because clients crop it to any shape: a
circle leaves the letters whole.
"""

import asyncio
import io
import unicodedata
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Final

from cachetools import LRUCache
from PIL import Image, ImageDraw, ImageFont

from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import Avatar, avatar
from bridge.observability.report import Report
from federation.media.media import Mxc
from storage.connect import ConnectionLost
from storage.database import Database
from storage.media import media

SIDE: Final = 96
CONTENT_TYPE: Final = "image/png"
MAX_LETTERS: Final = 2
UNKNOWN: Final = "?"

_SIZE: Final = 56
_STROKE: Final = 1
_MAX_WIDTH: Final = 68
"""Maximum width of the letters in pixels: wider ones would not fit into a circle."""
_SHADES: Final = 16


def picture(avatar: Avatar) -> bytes:
    """Return the same bytes on every machine, so that an existing upload is found by its hash. Nothing is
    compressed for that reason."""
    letters, font = _drawable(avatar.letters), _font(_SIZE)
    left, _, right, _ = _box(font, letters)
    if right - left > _MAX_WIDTH:
        font = _font(int(_SIZE * _MAX_WIDTH / (right - left)))
        left, _, right, _ = _box(font, letters)
    # Centre by capitals, whether or not one of the letters has a descender.
    _, top, _, base = _box(font, "H")
    mask = Image.new("L", (SIDE, SIDE))
    ImageDraw.Draw(mask).text(
        ((SIDE - left - right) / 2, (SIDE - top - base) / 2),
        letters,
        fill=255,
        font=font,
        anchor="ls",
        stroke_width=_STROKE,
    )
    image = mask.point([round(shade * (_SHADES - 1) / 255) for shade in range(256)])
    image.putpalette(_palette(avatar.colour))
    file = io.BytesIO()
    image.save(file, "PNG", bits=4, compress_level=0)
    return file.getvalue()


def _drawable(letters: str) -> str:
    """Ä is drawn as A; letters of other scripts are skipped."""
    plain = (unicodedata.normalize("NFKD", letter)[0] for letter in letters)
    return "".join(one for one in plain if one.isascii() and one.isalnum())[:MAX_LETTERS] or UNKNOWN


def _font(size: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont), "Pillow includes FreeType"
    return font


def _box(font: ImageFont.FreeTypeFont, letters: str) -> tuple[float, float, float, float]:
    return font.getbbox(letters, anchor="ls", stroke_width=_STROKE)


def _palette(colour: str) -> bytes:
    """Shades from the colour to white."""
    assert len(colour) == 7, "the colour is #rrggbb"
    ground = bytes.fromhex(colour.removeprefix("#"))
    last = _SHADES - 1
    return bytes(one + ((255 - one) * shade + last // 2) // last for shade in range(_SHADES) for one in ground)


UPLOAD_TIMEOUT: Final = 5.0
"""Seconds. A message is waiting for the avatar."""
RETRY_DELAY: Final = 60.0
"""Seconds until a failed upload is retried."""
MAX_AVATARS: Final = 1_000
"""Different avatars per run of the node. Agents choose their runtime names, and uploads are permanent."""
DEFAULT_AVATAR: Final = avatar("")
"""The avatar of every further runtime."""


class Avatars:
    """`uploader` is a user of this node."""

    def __init__(
        self,
        matrix: MatrixBackend,
        database: Database,
        uploader: str,
        *,
        monotonic: Callable[[], float],
        report: Report,
        most: int = MAX_AVATARS,
    ) -> None:
        self._matrix = matrix
        self._database = database
        self._uploader = uploader
        self._monotonic = monotonic
        self._report = report
        self._most = most
        self._urls: dict[Avatar, str] = {}
        self._retry_at: LRUCache[Avatar, float] = LRUCache(MAX_AVATARS)
        self._lock = asyncio.Lock()

    async def url(self, one: Avatar) -> str | None:
        """Return the `mxc://` URI, or None if it is unavailable for now, which has been reported."""
        one = self._within_limit(one)
        if self._is_cached(one):
            return self._urls.get(one)
        try:
            async with asyncio.timeout(UPLOAD_TIMEOUT), self._lock:
                # Another task may have uploaded it meanwhile.
                one = self._within_limit(one)
                if not self._is_cached(one):
                    self._urls[one] = await self._find_or_upload(one)
        except ConnectionLost:
            raise
        except Exception as error:
            # Only one of the waiting tasks reports it.
            if not self._is_cached(one):
                self._retry_at[one] = self._monotonic() + RETRY_DELAY
                self._report(f"Failed to upload the avatar {one.kind}.", error)
        return self._urls.get(one)

    def _within_limit(self, one: Avatar) -> Avatar:
        return one if one in self._urls or len(self._urls) < self._most else DEFAULT_AVATAR

    def _is_cached(self, one: Avatar) -> bool:
        """The URL is known, or an upload failed recently."""
        retry_at = self._retry_at.get(one)
        return one in self._urls or (retry_at is not None and self._monotonic() < retry_at)

    async def _find_or_upload(self, one: Avatar) -> str:
        # Drawing takes some milliseconds and would block the event loop.
        drawn = await asyncio.to_thread(picture, one)
        digest = sha256(drawn).digest()
        here = self._matrix.server_name
        # Other processes of the node wait for the lease and then find the upload. No connection is held
        # meanwhile.
        async with self._database.session.lease(f"avatar {digest.hex()}"):
            media_id = await self._database.read(
                partial(media.find_upload, origin=here, uploader=self._uploader, sha256=digest)
            )
            if media_id is not None:
                return str(Mxc(here, media_id))
            await self._matrix.ensure_user(self._uploader)
            info = await self._matrix.upload(self._uploader, drawn, CONTENT_TYPE, f"{one.kind}.png")
        return str(info.mxc)
