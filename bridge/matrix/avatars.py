"""The pictures of agents where rooms can show them: each is uploaded once for a node, not once for each
process or each start.

Draws an avatar: white letters on its colour, as a PNG.

It is a full square, since clients cut out of it whatever shape they like: a circle leaves the letters whole.
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
MOST_LETTERS: Final = 2
UNKNOWN: Final = "?"

_SIZE: Final = 56
_STROKE: Final = 1
_WIDEST: Final = 68
"""Pixels that the letters may take together: more would not be within a circle."""
_SHADES: Final = 16


def picture(avatar: Avatar) -> bytes:
    """The same bytes on every machine, which is why nothing is compressed: they find what is uploaded."""
    letters, font = _drawable(avatar.letters), _font(_SIZE)
    left, _, right, _ = _box(font, letters)
    if right - left > _WIDEST:
        font = _font(int(_SIZE * _WIDEST / (right - left)))
        left, _, right, _ = _box(font, letters)
    # The middle of capitals is that of the picture, whether or not one of the letters has a tail.
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
    """An Ä is drawn as an A; letters of other scripts are left out."""
    plain = (unicodedata.normalize("NFKD", letter)[0] for letter in letters)
    return "".join(one for one in plain if one.isascii() and one.isalnum())[:MOST_LETTERS] or UNKNOWN


def _font(size: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont), "Pillow is published with FreeType"
    return font


def _box(font: ImageFont.FreeTypeFont, letters: str) -> tuple[float, float, float, float]:
    return font.getbbox(letters, anchor="ls", stroke_width=_STROKE)


def _palette(colour: str) -> bytes:
    """From the colour to white."""
    assert len(colour) == 7, "a colour is #rrggbb"
    ground = bytes.fromhex(colour.removeprefix("#"))
    last = _SHADES - 1
    return bytes(
        one + ((255 - one) * shade + last // 2) // last for shade in range(_SHADES) for one in ground
    )


TIMEOUT: Final = 5.0
"""Seconds that it may take: somebody waits for it who has something to say."""
AGAIN: Final = 60.0
"""Seconds until one that could not be uploaded is tried again."""
MOST: Final = 1_000
"""Different pictures in one life of the node. Agents name their runtimes themselves, and uploads are kept for
good."""
ANY: Final = avatar("")
"""That of every other runtime."""


class Avatars:
    """`uploader` is a user of this node."""

    def __init__(
        self,
        side: MatrixBackend,
        database: Database,
        uploader: str,
        *,
        monotonic: Callable[[], float],
        report: Report,
        most: int = MOST,
    ) -> None:
        self._side = side
        self._database = database
        self._uploader = uploader
        self._monotonic = monotonic
        self._report = report
        self._most = most
        self._urls: dict[Avatar, str] = {}
        self._again_at: LRUCache[Avatar, float] = LRUCache(MOST)
        self._turn = asyncio.Lock()

    async def url(self, one: Avatar) -> str | None:
        """`mxc://…`. None: it cannot be had for the moment, which has been reported."""
        one = self._allowed(one)
        if self._is_settled(one):
            return self._urls.get(one)
        try:
            async with asyncio.timeout(TIMEOUT), self._turn:
                # Others may have been before it.
                one = self._allowed(one)
                if not self._is_settled(one):
                    self._urls[one] = await self._find_or_upload(one)
        except ConnectionLost:
            raise
        except Exception as error:
            # Of all who wait for it at the same time one reports it.
            if not self._is_settled(one):
                self._again_at[one] = self._monotonic() + AGAIN
                self._report(f"The avatar {one.kind} could not be uploaded.", error)
        return self._urls.get(one)

    def _allowed(self, one: Avatar) -> Avatar:
        return one if one in self._urls or len(self._urls) < self._most else ANY

    def _is_settled(self, one: Avatar) -> bool:
        """It is there, or has failed just now."""
        again_at = self._again_at.get(one)
        return one in self._urls or (again_at is not None and self._monotonic() < again_at)

    async def _find_or_upload(self, one: Avatar) -> str:
        # It takes some milliseconds, in which others are not to wait.
        drawn = await asyncio.to_thread(picture, one)
        digest = sha256(drawn).digest()
        here = self._side.server_name
        # Other processes of the node wait, and then find it. No connection is held meanwhile.
        async with self._database.session.lease(f"avatar {digest.hex()}"):
            media_id = await self._database.read(
                partial(media.find_upload, origin=here, uploader=self._uploader, sha256=digest)
            )
            if media_id is not None:
                return str(Mxc(here, media_id))
            await self._side.ensure_user(self._uploader)
            info = await self._side.upload(self._uploader, drawn, CONTENT_TYPE, f"{one.kind}.png")
        return str(info.mxc)
