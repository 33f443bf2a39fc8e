"""Media in the homeserver's repository."""

import hashlib
from collections.abc import AsyncIterator

import pytest

from appservice.local_users.media import MAX_BYTES
from federation.matrix.errors import MatrixError
from tests.appservice.local_users.fake_homeserver import ALICE, COOK, Side
from tests.appservice.local_users.setup import NOW

LARGE = bytes(range(256)) * 8192


async def in_pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 100_000):
        yield data[start : start + 100_000]


async def test_upload_and_download(node_with_rooms: Side) -> None:
    """With reliable size and hash."""
    for content in (b"", b"soup", in_pieces(LARGE)):
        data = content if isinstance(content, bytes) else LARGE
        info = await node_with_rooms.side.upload(COOK, content, "application/pdf", "../a\nb.pdf")
        assert (info.mxc.server, info.size, info.sha256) == (
            "their.server",
            len(data),
            hashlib.sha256(data).hexdigest(),
        )
        assert (info.content_type, info.file_name, info.uploader, info.created_at) == (
            "application/pdf",
            "a b.pdf",
            COOK,
            NOW,
        )
        async with node_with_rooms.side.download(str(info.mxc)) as opened:
            assert (opened.info.size, opened.info.sha256) == (info.size, info.sha256)
            assert opened.info.content_type == "application/pdf"
            assert b"".join([chunk async for chunk in opened.chunks]) == data


@pytest.mark.parametrize("kind", ["text/html\r\nX: y", "nonsense", "\0", "x" * 5_000, "image/png", None])
async def test_detected_content_type_is_sent(node_with_rooms: Side, kind: str | None) -> None:
    """The homeserver serves what it receives."""
    info = await node_with_rooms.side.upload(COOK, b"<script>", kind)
    assert info.content_type == "application/octet-stream"
    assert [kept for kept, _ in node_with_rooms.rooms.media.values()] == ["application/octet-stream"]


async def test_too_large_upload_is_refused_early(node_with_rooms: Side) -> None:
    """The homeserver receives nothing."""
    given = 0

    async def much() -> AsyncIterator[bytes]:
        nonlocal given
        while given < 4 * MAX_BYTES:
            given += 1024 * 1024
            yield bytes(1024 * 1024)

    with pytest.raises(MatrixError, match="413 M_TOO_LARGE"):
        await node_with_rooms.side.upload(COOK, much())
    assert given < 2 * MAX_BYTES
    assert node_with_rooms.asked("upload") == []


async def test_unknown_media(node_with_rooms: Side) -> None:
    """Invalid URIs are not requested, and uploads of other users are refused."""
    with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
        async with node_with_rooms.side.download("mxc://their.server/nothing"):
            pass
    before = len(node_with_rooms.homeserver.targets)
    for wrong in ("", "x", "mxc://", "mxc://their.server/../x", "http://x/y", "mxc://\0/x"):
        with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
            async with node_with_rooms.side.download(wrong):
                pass
    with pytest.raises(MatrixError, match="M_FORBIDDEN"):
        await node_with_rooms.side.upload(ALICE, b"x")
    assert len(node_with_rooms.homeserver.targets) == before
