"""`GET /_matrix/federation/v1/media/thumbnail/{mediaId}`."""

import io
from pathlib import Path

from PIL import Image

from federation.media.media import MediaSettings
from storage.database import Database
from tests.federation.http.media_node import THUMBNAIL, media_node, two_parts
from tests.federation.media.repository import ALICE
from tests.federation.pictures import SVG, bomb, picture


async def test_a_thumbnail_is_returned(database: Database, tmp_path: Path) -> None:
    """As multipart; it is not animated, whatever `animated` says."""
    async with media_node(database, tmp_path) as node:
        info = await node.media.upload(ALICE, picture(), "image/png", "a.png")
        path = f"{THUMBNAIL}/{info.mxc.media_id}?width=90&height=90&method=crop&animated=true&timeout_ms=1"
        headers, data = two_parts(await node.ask(path))
    assert headers == {"content-type": "image/jpeg", "content-disposition": "inline"}
    with Image.open(io.BytesIO(data)) as image:
        assert image.size == (96, 96)


async def test_an_invalid_size_is_refused(database: Database, tmp_path: Path) -> None:
    """With a 400."""
    async with media_node(database, tmp_path) as node:
        for query, errcode in (
            ("", "M_MISSING_PARAM"),
            ("?width=10", "M_MISSING_PARAM"),
            ("?width=10&height=-10", "M_INVALID_PARAM"),
            ("?width=1e9&height=10", "M_INVALID_PARAM"),
            ("?width=10&height=10&method=stretch", "M_INVALID_PARAM"),
        ):
            answer = await node.ask(f"{THUMBNAIL}/abc{query}")
            assert (answer.status, answer.json["errcode"]) == (400, errcode)


async def test_media_without_thumbnails_is_refused(database: Database, tmp_path: Path) -> None:
    """ "the server cannot thumbnail the content", or it is "too large"."""
    async with media_node(database, tmp_path, settings=MediaSettings(max_image_pixels=80_000)) as node:
        for data, declared, status, errcode in (
            (SVG, "image/svg+xml", 400, "M_UNKNOWN"),
            (b"hello", "text/plain", 400, "M_UNKNOWN"),
            (bomb(), "image/png", 413, "M_TOO_LARGE"),
            (picture("JPEG", (300, 300)), "image/jpeg", 413, "M_TOO_LARGE"),
        ):
            info = await node.media.upload(ALICE, data, declared)
            answer = await node.ask(f"{THUMBNAIL}/{info.mxc.media_id}?width=10&height=10")
            assert (answer.status, answer.json["errcode"]) == (status, errcode)


async def test_missing_media_and_unsigned_requests_are_refused(database: Database, tmp_path: Path) -> None:
    """As for downloads."""
    async with media_node(database, tmp_path) as node:
        path = f"{THUMBNAIL}/abc?width=10&height=10"
        answer = await node.ask(path)
        assert (answer.status, answer.json["errcode"]) == (404, "M_NOT_FOUND")
        answer = await node.ask(path, {})
        assert (answer.status, answer.json["errcode"]) == (401, "M_UNAUTHORIZED")
        answer = await node.ask(f"{THUMBNAIL}/%2e%2e?width=10&height=10")
        assert (answer.status, answer.json["errcode"]) == (404, "M_NOT_FOUND")
