"""Downloads of media from servers on loopback."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from federation.client.dns import Dns
from federation.client.errors import PeerMalformed, PeerRefused, PeerUnreachable
from federation.client.public_web import PublicWeb
from federation.matrix.errors import MatrixError, PeerError
from federation.media.fetcher import MediaFetcher
from federation.media.media import Mxc
from federation.media.multipart import multipart_frame
from tests.federation.media.repository import Repository
from tests.federation.pictures import HTML, picture
from tests.support.loopback_server import Handler
from tests.support.neighbourhood import Neighbourhood, answering

DOWNLOAD = "/_matrix/federation/v1/media/download/abc?timeout_ms=20000"
LIMIT = 1000


def two_parts(data: bytes, **headers: str) -> Handler:
    before, after = multipart_frame("b0undary", {name.replace("_", "-"): value for name, value in headers.items()})
    return answering(before + data + after, Content_Type='multipart/mixed; boundary="b0undary"')


def by_path(**handlers: Handler) -> Handler:
    """A handler that dispatches by the third segment of the path: `federation` or `media`."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return await handlers[request.path.split("/")[2]](request)

    return handle


@asynccontextmanager
async def fetcher(
    neighbourhood: Neighbourhood, repository: Repository, handler: Handler
) -> AsyncIterator[tuple[MediaFetcher, Mxc, Any]]:
    """A fetcher, with a server and the URI of its media."""
    server = await neighbourhood.server(handler, "a.test")
    public = PublicWeb(
        Dns([("127.0.0.1", neighbourhood.names.port)], timeout=5.0),
        user_agent="test",
        authorities=neighbourhood.certificates.trusted,
        blocked=(),
    )
    try:
        client = neighbourhood.reach().client
        yield (MediaFetcher(repository.store, client, public, LIMIT), Mxc(f"a.test:{server.port}", "abc"), server)
    finally:
        await public.close()


def bytes_of(repository: Repository, sha256: str) -> bytes:
    return repository.files.path(bytes.fromhex(sha256)).read_bytes()


async def test_media_is_downloaded_and_stored(neighbourhood: Neighbourhood, media_repository: Repository) -> None:
    """With its description; only the authenticated endpoint is requested."""
    handler = two_parts(picture(), Content_Type="image/png", Content_Disposition='inline; filename="../a.png"')
    async with fetcher(neighbourhood, media_repository, handler) as (by, mxc, server):
        info = await by.fetch(mxc)
    assert (info.content_type, info.file_name, info.uploader) == ("image/png", "a.png", None)
    assert bytes_of(media_repository, info.sha256) == picture()
    assert await media_repository.store.find(mxc) == info
    [request] = server.requests
    assert request.raw_path == DOWNLOAD
    assert request.headers["Authorization"].startswith("X-Matrix ")


async def test_bytes_that_are_no_image_get_an_unknown_type(
    neighbourhood: Neighbourhood, media_repository: Repository
) -> None:
    """Although they are declared as an image."""
    handler = two_parts(HTML, Content_Type="image/png")
    async with fetcher(neighbourhood, media_repository, handler) as (by, mxc, _):
        assert (await by.fetch(mxc)).content_type == "application/octet-stream"


@pytest.mark.parametrize("unaware", [answering({"errcode": "M_UNRECOGNIZED"}, 404), answering(b"not found", 404)])
async def test_the_legacy_endpoint_is_used_for_older_servers(
    neighbourhood: Neighbourhood, media_repository: Repository, unaware: Handler
) -> None:
    """Unsigned, and with `allow_remote=false`."""
    old = answering(b"old", Content_Type="text/plain", Content_Disposition='inline; filename="a.txt"')
    handler = by_path(federation=unaware, media=old)
    async with fetcher(neighbourhood, media_repository, handler) as (by, mxc, server):
        info = await by.fetch(mxc)
    assert (info.content_type, info.file_name) == ("text/plain", "a.txt")
    assert bytes_of(media_repository, info.sha256) == b"old"
    port = mxc.server.partition(":")[2]
    assert server.requests[1].raw_path == (
        f"/_matrix/media/v3/download/a.test%3A{port}/abc?allow_remote=false&timeout_ms=20000"
    )
    assert "Authorization" not in server.requests[1].headers


@pytest.mark.parametrize(
    ("status", "errcode", "answer"),
    [
        (404, "M_NOT_FOUND", (404, "M_NOT_FOUND")),
        (504, "M_NOT_YET_UPLOADED", (504, "M_NOT_YET_UPLOADED")),
        (429, "M_LIMIT_EXCEEDED", (429, "M_LIMIT_EXCEEDED")),
    ],
)
async def test_a_refusal_of_the_origin_is_passed_on(
    neighbourhood: Neighbourhood, media_repository: Repository, status: int, errcode: str, answer: tuple[int, str]
) -> None:
    """No other endpoint is tried."""
    handler = answering({"errcode": errcode}, status)
    async with fetcher(neighbourhood, media_repository, handler) as (by, mxc, server):
        with pytest.raises(MatrixError) as refused:
            await by.fetch(mxc)
        assert len(server.requests) == 1
    assert (refused.value.status, refused.value.errcode) == answer


async def test_other_failures_are_peer_errors(neighbourhood: Neighbourhood, media_repository: Repository) -> None:
    """They name the server."""
    async with fetcher(neighbourhood, media_repository, answering({"errcode": "M_UNKNOWN"}, 500)) as (by, mxc, _):
        with pytest.raises(PeerRefused):
            await by.fetch(mxc)


async def endless(request: web.Request) -> web.StreamResponse:
    """A chunked response without an end."""
    response = web.StreamResponse(headers={"Content-Type": "multipart/mixed; boundary=b"})
    await response.prepare(request)
    await response.write(multipart_frame("b", {"Content-Type": "a/b"})[0])
    for _ in range(100):
        await response.write(b"x" * LIMIT)
    return response


async def endless_lines(request: web.Request) -> web.StreamResponse:
    """Endless lines before the first part."""
    response = web.StreamResponse(headers={"Content-Type": "multipart/mixed; boundary=b"})
    await response.prepare(request)
    while True:
        await response.write(b"line\r\n" * 10_000)


async def test_bytes_around_the_parts_are_limited(neighbourhood: Neighbourhood, media_repository: Repository) -> None:
    """However much the server sends."""
    async with fetcher(neighbourhood, media_repository, endless_lines) as (by, mxc, _):
        with pytest.raises(PeerMalformed, match="more than the"):
            await by.fetch(mxc)
    assert media_repository.directories_with_files() == []


@pytest.mark.parametrize(
    "handler",
    [
        two_parts(b"x" * (LIMIT + 1), Content_Type="a/b"),
        two_parts(b"x" * (LIMIT + 200_000), Content_Type="a/b"),
        endless,
        by_path(federation=answering({"errcode": "M_UNRECOGNIZED"}, 404), media=answering(b"x" * (LIMIT + 1))),
    ],
)
async def test_media_that_is_too_large_is_not_stored(
    neighbourhood: Neighbourhood, media_repository: Repository, handler: Handler
) -> None:
    """By its Content-Length, or while it is downloaded."""
    async with fetcher(neighbourhood, media_repository, handler) as (by, mxc, _):
        with pytest.raises(MatrixError) as refused:
            await by.fetch(mxc)
    assert (refused.value.status, refused.value.errcode) == (502, "M_TOO_LARGE")
    assert media_repository.directories_with_files() == []


async def test_the_limit_is_inclusive(neighbourhood: Neighbourhood, media_repository: Repository) -> None:
    """Bytes around the parts are not counted."""
    handler = two_parts(b"x" * LIMIT, Content_Type="a/b")
    async with fetcher(neighbourhood, media_repository, handler) as (by, mxc, _):
        assert (await by.fetch(mxc)).size == LIMIT


BEFORE, AFTER = multipart_frame("b", {"Content-Type": "a/b"})


@pytest.mark.parametrize(
    ("body", "content_type", "problem"),
    [
        (b"bytes", "image/png", "not multipart/mixed"),
        (BEFORE + b"x", "multipart/mixed; boundary=b", "invalid or incomplete"),
        (BEFORE + b"x" + AFTER.replace(b"--\r\n", b"\r\n\r\n") + AFTER, "multipart/mixed; boundary=b", "more than two"),
        (b"x" * 50_000, "multipart/mixed; boundary=b", "invalid or incomplete"),
    ],
)
async def test_an_invalid_multipart_response_is_refused(
    neighbourhood: Neighbourhood, media_repository: Repository, body: bytes, content_type: str, problem: str
) -> None:
    """Nothing is stored."""
    handler = answering(body, Content_Type=content_type)
    async with fetcher(neighbourhood, media_repository, handler) as (by, mxc, _):
        with pytest.raises(PeerMalformed, match=problem):
            await by.fetch(mxc)
    assert media_repository.directories_with_files() == []


async def test_a_location_is_followed_without_authorization(
    neighbourhood: Neighbourhood, media_repository: Repository
) -> None:
    """The description in the part takes precedence."""
    cdn = await neighbourhood.server(
        answering(b"from afar", Content_Type="x/y", Content_Disposition="inline; filename=there"), "cdn.test"
    )
    location = f"https://cdn.test:{cdn.port}/a?sig=1"
    handler = two_parts(b"ignored", Location=location, Content_Type="text/plain")
    async with fetcher(neighbourhood, media_repository, handler) as (by, mxc, _):
        info = await by.fetch(mxc)
    assert (info.content_type, info.file_name) == ("text/plain", "there")
    assert bytes_of(media_repository, info.sha256) == b"from afar"
    [request] = cdn.requests
    assert "Authorization" not in request.headers


@pytest.mark.parametrize(
    "location", ["http://cdn.test/", "https://127.0.0.1/", "/etc/passwd", "file:///etc/passwd", ""]
)
async def test_an_invalid_location_is_refused(
    neighbourhood: Neighbourhood, media_repository: Repository, location: str
) -> None:
    """Without a connection."""
    async with fetcher(neighbourhood, media_repository, two_parts(b"", Location=location)) as (by, mxc, _):
        with pytest.raises(PeerMalformed, match="not downloaded from"):
            await by.fetch(mxc)


async def test_a_location_has_the_same_limit(neighbourhood: Neighbourhood, media_repository: Repository) -> None:
    """Larger media is refused."""
    cdn = await neighbourhood.server(answering(b"x" * (LIMIT + 1)), "cdn.test")
    handler = two_parts(b"", Location=f"https://cdn.test:{cdn.port}/")
    async with fetcher(neighbourhood, media_repository, handler) as (by, mxc, _):
        with pytest.raises(MatrixError, match="M_TOO_LARGE"):
            await by.fetch(mxc)


async def test_an_unreachable_server_is_a_peer_error(
    neighbourhood: Neighbourhood, media_repository: Repository
) -> None:
    """Nothing is stored."""
    async with fetcher(neighbourhood, media_repository, answering()) as (by, _, __):
        with pytest.raises(PeerUnreachable):
            await by.fetch(Mxc("nobody.test", "abc"))
        with pytest.raises(PeerError):
            await by.fetch(Mxc("us.test", "abc"))
    assert media_repository.directories_with_files() == []
