"""Media."""

import hashlib
from collections.abc import AsyncIterator

import pytest

from tests.connectors.setup import BackendSetup, refused

SIZE = 3 * 1024 * 1024 + 17
LARGE = bytes(range(256)) * (SIZE // 256 + 1)


async def in_pieces(data: bytes, size: int = 100_000) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def downloaded(backend_setup: BackendSetup, mxc: str) -> tuple[str, str | None, bytes]:
    async with backend_setup.side.download(mxc) as opened:
        data = b"".join([chunk async for chunk in opened.chunks])
        return opened.info.content_type, opened.info.file_name, data


class MediaBehave:
    async def test_upload_and_download(self, backend_setup: BackendSetup) -> None:
        """For local users and people, whole or in chunks."""
        alice, bob = await backend_setup.user("alice"), await backend_setup.person()
        for content in (b"A picture.", in_pieces(LARGE)):
            data = content if isinstance(content, bytes) else LARGE
            info = await backend_setup.side.upload(alice, content, "application/pdf", "a report.pdf")
            assert (info.mxc.server, info.size, info.uploader) == (backend_setup.domain, len(data), alice)
            assert info.sha256 == hashlib.sha256(data).hexdigest()
            assert await downloaded(backend_setup, str(info.mxc)) == ("application/pdf", "a report.pdf", data)
            got = await bob.download(str(info.mxc))
            assert (got.data, got.content_type) == (data, "application/pdf")
            async with backend_setup.again() as again, again.download(str(info.mxc)) as opened:
                assert (opened.info.content_type, opened.info.file_name) == ("application/pdf", "a report.pdf")

    async def test_media_of_people(self, backend_setup: BackendSetup) -> None:
        """With its type and name."""
        bob = await backend_setup.person()
        mxc = await bob.upload(LARGE, "text/plain", filename="soup.txt")
        type_, name, data = await downloaded(backend_setup, mxc)
        assert type_.partition(";")[0] == "text/plain"
        assert (name, data) == ("soup.txt", LARGE)

    async def test_empty_file(self, backend_setup: BackendSetup) -> None:
        """With an unspecific type."""
        alice = await backend_setup.user("alice")
        info = await backend_setup.side.upload(alice, b"")
        assert await downloaded(backend_setup, str(info.mxc)) == ("application/octet-stream", None, b"")

    @pytest.mark.parametrize(
        "name", ["../../etc/passwd", "a\r\nSet-Cookie: x", 'quo"te;.txt', "\0", "süß 🍲.txt", "x" * 5_000, "/"]
    )
    async def test_hostile_file_names(self, backend_setup: BackendSetup, name: str) -> None:
        """The file is stored, and returned without a dangerous name."""
        alice = await backend_setup.user("alice")
        info = await backend_setup.side.upload(alice, b"x", "text/plain", name)
        _, shown, data = await downloaded(backend_setup, str(info.mxc))
        assert data == b"x"
        assert shown is None or not any(one in shown for one in "\r\n\0/")
        assert shown is None or len(shown) <= 255
        if name == "süß 🍲.txt":
            assert shown == name

    async def test_hostile_content_types(self, backend_setup: BackendSetup) -> None:
        """Invalid types are dropped."""
        alice = await backend_setup.user("alice")
        for type_ in ("text/html\r\nX: y", "nonsense", "\0", "x" * 5_000):
            info = await backend_setup.side.upload(alice, b"x", type_)
            shown, _, data = await downloaded(backend_setup, str(info.mxc))
            assert (shown, data) == ("application/octet-stream", b"x")

    async def test_unknown_media(self, backend_setup: BackendSetup) -> None:
        """Invalid URIs are refused."""
        await refused(downloaded(backend_setup, f"mxc://{backend_setup.domain}/nothing"), "M_NOT_FOUND")
        for wrong in ("", "x", "mxc://", f"mxc://{backend_setup.domain}/../x", "http://x/y", "mxc://\0/x"):
            await refused(downloaded(backend_setup, wrong), "M_INVALID_PARAM")

    async def test_too_large_media_is_refused(self, backend_setup: BackendSetup) -> None:
        """Before all of it has arrived."""
        alice = await backend_setup.user("alice")
        given = 0

        async def much() -> AsyncIterator[bytes]:
            nonlocal given
            while given < 200:
                given += 1
                yield bytes(1024 * 1024)

        assert (await refused(backend_setup.side.upload(alice, much()), "M_TOO_LARGE")).status == 413
        assert given < 200
