"""The content repository: uploads, downloads and thumbnails."""

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from PIL import Image
from structlog.testing import capture_logs

from federation.client.dns import Dns
from federation.client.public_web import PublicWeb
from federation.matrix.errors import MatrixError
from federation.media.fetcher import MediaFetcher
from federation.media.media import MediaSettings, Mxc, parse_mxc
from federation.media.multipart import multipart_frame
from federation.media.repository import MediaRepository
from federation.media.store import MIN_AGE_MS
from federation.media.thumbnail_size import Method, choose_size
from federation.media.thumbnailer import Thumbnailer
from storage.connect import DatabaseAddress
from storage.database import Database
from storage.errors import LocalError
from storage.media.files import MediaFiles
from tests.federation.media.repository import ALICE, US, Repository, pieces, read, repository
from tests.federation.pictures import HTML, picture
from tests.support.loopback_server import LoopbackServer
from tests.support.neighbourhood import Neighbourhood
from tests.support.postgres import pool_on


async def test_uploads_can_be_opened(media_repository: Repository) -> None:
    """By the returned URI, with the hash."""
    media = media_repository.media()
    for content in (b"hello", pieces(b"hel", b"lo")):
        info = await media.upload(ALICE, content, "text/plain", "a.txt")
        assert info.sha256 == hashlib.sha256(b"hello").hexdigest()
        assert (info.uploader, info.size, info.content_type, info.file_name) == (ALICE, 5, "text/plain", "a.txt")
        for address in (info.mxc, str(info.mxc)):
            async with media.open(address) as opened:
                assert opened.info == info
                assert await read(opened) == b"hello"
        async with media.open_local(info.mxc.media_id) as opened:
            assert await read(opened) == b"hello"
    assert media_repository.directories_with_files() == ["sha256"]


async def test_media_ids_cannot_be_guessed(media_repository: Repository) -> None:
    """Each is unique, valid and long."""
    media = media_repository.media()
    addresses = {str((await media.upload(ALICE, b"")).mxc) for _ in range(20)}
    assert len(addresses) == 20
    for address in addresses:
        mxc = parse_mxc(address)
        assert mxc is not None
        assert mxc.server == US
        assert len(mxc.media_id) == 32


async def test_uploads_have_a_size_limit(media_repository: Repository) -> None:
    """Nothing of a larger one is stored."""
    media = media_repository.media(settings=MediaSettings(max_upload_size=10))
    assert (await media.upload(ALICE, b"x" * 10)).size == 10
    for content in (b"y" * 11, pieces(b"y" * 6, b"y" * 5)):
        with pytest.raises(MatrixError) as refused:
            await media.upload(ALICE, content)
        assert (refused.value.status, refused.value.errcode) == (413, "M_TOO_LARGE")
    assert media_repository.directories_with_files() == ["sha256"]


async def test_a_full_disk_is_reported(database: Database, tmp_path: Path) -> None:
    """To the uploader without details of this machine; nothing is stored partially."""
    full = repository(database, tmp_path, reserve=1 << 60)
    with pytest.raises(MatrixError) as refused:
        await full.media().upload(ALICE, b"hello")
    assert refused.value.status == 507
    assert str(tmp_path) not in refused.value.text
    assert full.directories_with_files() == []


@pytest.mark.parametrize("address", ["", "mxc://us.test", "https://us.test/a", "mxc://us.test/../../etc/passwd"])
async def test_invalid_uris_are_refused(media_repository: Repository, address: str) -> None:
    """Before anything is looked up."""
    with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
        async with media_repository.media().open(address):
            pass


async def test_missing_media_is_not_found(media_repository: Repository) -> None:
    """Local media is never downloaded; without a fetcher nothing is. Media whose file is missing is not
    found either."""
    media = media_repository.media()
    lost = await media.upload(ALICE, b"lost")
    media_repository.files.delete(bytes.fromhex(lost.sha256))
    for address in (f"mxc://{US}/nothing", "mxc://them.test/a", lost.mxc):
        with pytest.raises(MatrixError, match="M_NOT_FOUND"):
            async with media.open(address):
                pass
        with pytest.raises(MatrixError, match="M_NOT_FOUND"):
            await media.thumbnail(address, 10, 10, Method.SCALE)


async def test_quarantined_media_is_not_served(media_repository: Repository) -> None:
    """Until the quarantine ends."""
    media = media_repository.media()
    info = await media.upload(ALICE, picture(), "image/png")
    assert await media.quarantine(info.mxc)
    with pytest.raises(MatrixError, match="M_NOT_FOUND"):
        async with media.open(info.mxc):
            pass
    with pytest.raises(MatrixError, match="M_NOT_FOUND"):
        await media.thumbnail(info.mxc, 10, 10, Method.SCALE)
    assert await media.quarantine(str(info.mxc), quarantined=False)
    async with media.open(info.mxc) as opened:
        assert await read(opened) == picture()


async def test_a_thumbnail_is_created_once(media_repository: Repository) -> None:
    """It is stored with its image and has its own metadata."""
    media = media_repository.media()
    info = await media.upload(ALICE, picture(), "image/png", "a.png")
    first = await media.thumbnail(info.mxc, 90, 90, Method.CROP)
    data = await read(first)
    with Image.open(io.BytesIO(data)) as image:
        assert image.size == (96, 96)
    assert (first.info.content_type, first.info.size) == ("image/jpeg", len(data))
    assert first.info.sha256 == hashlib.sha256(data).hexdigest() != info.sha256
    assert first.info.file_name is None
    assert media_repository.directories_with_files() == ["sha256", "thumbnails"]
    without_programs = media_repository.media(
        thumbnailer=Thumbnailer(max_pixels=1, time_limit=1.0, program=Path("nothing.py"))
    )
    again = await without_programs.local_thumbnail(info.mxc.media_id, choose_size(96, 96, Method.CROP))
    assert await read(again) == data


async def test_concurrent_requests_create_one_thumbnail(media_repository: Repository, tmp_path: Path) -> None:
    """Even if the first requester is cancelled."""
    counting = tmp_path / "counting.py"
    counting.write_text(
        "import os, sys, time\nopen(sys.argv[0] + '.count', 'a').write('x')\n"
        "while not os.path.exists(sys.argv[0] + '.go'):\n    time.sleep(0.01)\n"
        "sys.stdout.buffer.write(bytes.fromhex('89504e470d0a1a0a'))\n"
    )
    media = media_repository.media(thumbnailer=Thumbnailer(max_pixels=10**6, time_limit=60, program=counting))
    info = await media.upload(ALICE, picture(), "image/png")
    asking = [asyncio.create_task(media.thumbnail(info.mxc, 32, 32, Method.SCALE)) for _ in range(5)]
    async with asyncio.timeout(60):
        while not (tmp_path / "counting.py.count").exists():
            await asyncio.sleep(0.01)
    asking[0].cancel()
    (tmp_path / "counting.py.go").touch()
    for one in asking[1:]:
        assert (await one).info.content_type == "image/png"
    with pytest.raises(asyncio.CancelledError):
        await asking[0]
    assert (tmp_path / "counting.py.count").read_text() == "x"


async def test_other_types_have_no_thumbnail(media_repository: Repository) -> None:
    """The error is a 400, and nothing is stored."""
    media = media_repository.media()
    info = await media.upload(ALICE, HTML, "image/png")
    assert info.content_type == "application/octet-stream"
    with pytest.raises(MatrixError) as refused:
        await media.thumbnail(info.mxc, 10, 10, Method.SCALE)
    assert refused.value.status == 400
    assert media_repository.directories_with_files() == ["sha256"]


async def test_an_unusable_directory_is_reported_at_start(database: Database, tmp_path: Path) -> None:
    """With advice for the operator."""
    directory = tmp_path / "media"
    unusable = repository(database, tmp_path)
    for path in sorted(directory.iterdir()):
        path.rmdir()
    directory.rmdir()
    directory.write_text("not a directory")
    with pytest.raises(LocalError, match="media"):
        await unusable.media().start()
    directory.unlink()
    await unusable.media().start()
    assert (directory / "sha256").is_dir()


# Media of other servers


@asynccontextmanager
async def with_fetcher(
    neighbourhood: Neighbourhood, repository: Repository, server: LoopbackServer, settings: MediaSettings
) -> AsyncIterator[MediaRepository]:
    public = PublicWeb(Dns(), user_agent="test")
    fetcher = MediaFetcher(repository.store, neighbourhood.reach().client, public, settings.max_remote_size)
    media = repository.media(fetcher, settings)
    try:
        yield media
    finally:
        await media.close()
        await public.close()


async def their_picture(_: web.Request) -> web.StreamResponse:
    before, after = multipart_frame("b", {"Content-Type": "image/png"})
    return web.Response(body=before + picture() + after, headers={"Content-Type": "multipart/mixed; boundary=b"})


async def test_remote_media_is_downloaded_once(neighbourhood: Neighbourhood, media_repository: Repository) -> None:
    """For concurrent and later requests, including thumbnails; again if its file is missing."""
    server = await neighbourhood.server(their_picture, "a.test")
    mxc = Mxc(f"a.test:{server.port}", "abc")
    async with with_fetcher(neighbourhood, media_repository, server, MediaSettings()) as media:

        async def look() -> bytes:
            async with media.open(mxc) as opened:
                return await read(opened)

        assert set(await asyncio.gather(*(look() for _ in range(10)))) == {picture()}
        small = await media.thumbnail(mxc, 32, 32, Method.CROP)
        assert small.info.content_type == "image/jpeg"
        assert len(server.requests) == 1
        media_repository.files.delete(hashlib.sha256(picture()).digest())
        assert await look() == picture()
        assert len(server.requests) == 2


async def test_nothing_is_downloaded_for_other_servers(
    neighbourhood: Neighbourhood, media_repository: Repository
) -> None:
    """They get local media only."""
    server = await neighbourhood.server(their_picture, "a.test")
    async with with_fetcher(neighbourhood, media_repository, server, MediaSettings()) as media:
        with pytest.raises(MatrixError, match="M_NOT_FOUND"):
            async with media.open_local("abc"):
                pass
    assert server.requests == []


async def test_the_cache_is_pruned_after_large_downloads(
    neighbourhood: Neighbourhood, media_repository: Repository
) -> None:
    """Not only once an hour. Open files can be read to their end."""

    async def its_id(request: web.Request) -> web.StreamResponse:
        before, after = multipart_frame("b", {"Content-Type": "text/plain"})
        body = before + request.path.rpartition("/")[2].encode() + after
        return web.Response(body=body, headers={"Content-Type": "multipart/mixed; boundary=b"})

    server = await neighbourhood.server(its_id, "a.test")
    settings = MediaSettings(remote_cache_size=8)
    async with with_fetcher(neighbourhood, media_repository, server, settings) as media:
        pruning = asyncio.create_task(media.prune_forever())
        async with media.open(Mxc(f"a.test:{server.port}", "long-unused")) as opened:
            media_repository.times.now += MIN_AGE_MS
            async with media.open(Mxc(f"a.test:{server.port}", "new")):
                unused = media_repository.files.path(bytes.fromhex(opened.info.sha256))
                async with asyncio.timeout(60):
                    while unused.exists():
                        await asyncio.sleep(0.01)
            assert await read(opened) == b"long-unused"
        assert media_repository.directories_with_files() == ["sha256"]
        pruning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pruning
        media_repository.times.now += settings.remote_cache_age + 1
        assert await media.prune() == 1


async def test_pruning_continues_after_a_database_outage(database_address: DatabaseAddress, tmp_path: Path) -> None:
    """It is retried; orphaned files are deleted then too."""
    async with pool_on(database_address, retry_timeout=0.0) as database:
        kept = repository(database, tmp_path)
        left = kept.files.path(b"x" * 32)
        left.parent.mkdir(parents=True)
        left.write_bytes(b"left by a kill")
        media = kept.media()
        database._pool.address = DatabaseAddress("postgresql://nobody@127.0.0.1:1/nothing")
        for connection in database._pool.connections:
            connection.terminate()
        with capture_logs() as logged:
            pruning = asyncio.create_task(media.prune_forever())
            async with asyncio.timeout(60):
                while not logged:
                    await asyncio.sleep(0)
                assert left.exists()
                database._pool.address = database_address
                media._prune_now.set()
                while left.exists():
                    await asyncio.sleep(0.01)
        pruning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pruning
        assert logged[0]["log_level"] == "warning"


async def test_symbolic_links_are_not_followed(media_repository: Repository, tmp_path: Path) -> None:
    """Only this program writes into the directory."""
    info = await media_repository.media().upload(ALICE, b"hello")
    path = media_repository.files.path(bytes.fromhex(info.sha256))
    path.unlink()
    path.symlink_to(tmp_path)
    assert isinstance(media_repository.files, MediaFiles)
    with pytest.raises(OSError, match="symbolic links"):
        async with media_repository.media().open(info.mxc):
            pass
