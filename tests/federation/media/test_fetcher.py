"""Media of other servers, from real ones on loopback."""

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
    before, after = multipart_frame(
        "b0undary", {name.replace("_", "-"): value for name, value in headers.items()}
    )
    return answering(before + data + after, Content_Type='multipart/mixed; boundary="b0undary"')


def by_path(**handlers: Handler) -> Handler:
    """One handler for each third word of the path: `federation` or `media`."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return await handlers[request.path.split("/")[2]](request)

    return handle


@asynccontextmanager
async def fetcher(
    neighbourhood: Neighbourhood, repository: Repository, handler: Handler
) -> AsyncIterator[tuple[MediaFetcher, Mxc, Any]]:
    """It fetches from one server, whose media this is the address of."""
    server = await neighbourhood.server(handler, "a.test")
    public = PublicWeb(
        Dns([("127.0.0.1", neighbourhood.names.port)], timeout=5.0),
        user_agent="test",
        authorities=neighbourhood.certificates.trusted,
        blocked=(),
    )
    try:
        client = neighbourhood.reach().client
        yield (
            MediaFetcher(repository.store, client, public, LIMIT),
            Mxc(f"a.test:{server.port}", "abc"),
            server,
        )
    finally:
        await public.close()


def bytes_of(repository: Repository, sha256: str) -> bytes:
    return repository.files.path(bytes.fromhex(sha256)).read_bytes()


async def test_media_is_fetched_and_kept(neighbourhood: Neighbourhood, media_repository: Repository) -> None:
    """With what its server says of it; asked for in the authenticated way, and only in that."""
    handler = two_parts(
        picture(), Content_Type="image/png", Content_Disposition='inline; filename="../a.png"'
    )
    async with fetcher(neighbourhood, media_repository, handler) as (by, mxc, server):
        info = await by.fetch(mxc)
    assert (info.content_type, info.file_name, info.uploader) == ("image/png", "a.png", None)
    assert bytes_of(media_repository, info.sha256) == picture()
    assert await media_repository.store.find(mxc) == info
    [request] = server.requests
    assert request.raw_path == DOWNLOAD
    assert request.headers["Authorization"].startswith("X-Matrix ")


async def test_what_is_called_a_picture_and_is_none(
    neighbourhood: Neighbourhood, media_repository: Repository
) -> None:
    """Is kept as what nobody shows."""
    handler = two_parts(HTML, Content_Type="image/png")
    async with fetcher(neighbourhood, media_repository, handler) as (by, mxc, _):
        assert (await by.fetch(mxc)).content_type == "application/octet-stream"


@pytest.mark.parametrize(
    "unaware", [answering({"errcode": "M_UNRECOGNIZED"}, 404), answering(b"not found", 404)]
)
async def test_a_server_that_knows_no_other_way_is_asked_in_the_old_one(
    neighbourhood: Neighbourhood, media_repository: Repository, unaware: Handler
) -> None:
    """Unsigned, and it shall not ask others for us."""
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
async def test_a_refusal_is_passed_on(
    neighbourhood: Neighbourhood,
    media_repository: Repository,
    status: int,
    errcode: str,
    answer: tuple[int, str],
) -> None:
    """It is the word of the server whose media it is, and no other way is tried."""
    handler = answering({"errcode": errcode}, status)
    async with fetcher(neighbourhood, media_repository, handler) as (by, mxc, server):
        with pytest.raises(MatrixError) as refused:
            await by.fetch(mxc)
        assert len(server.requests) == 1
    assert (refused.value.status, refused.value.errcode) == answer


async def test_other_troubles_are_the_peers(
    neighbourhood: Neighbourhood, media_repository: Repository
) -> None:
    """Said as those of that server."""
    async with fetcher(neighbourhood, media_repository, answering({"errcode": "M_UNKNOWN"}, 500)) as (
        by,
        mxc,
        _,
    ):
        with pytest.raises(PeerRefused):
            await by.fetch(mxc)


async def endless(request: web.Request) -> web.StreamResponse:
    """Chunked, so that nobody knows how much will come."""
    response = web.StreamResponse(headers={"Content-Type": "multipart/mixed; boundary=b"})
    await response.prepare(request)
    await response.write(multipart_frame("b", {"Content-Type": "a/b"})[0])
    for _ in range(100):
        await response.write(b"x" * LIMIT)
    return response


async def endless_lines(request: web.Request) -> web.StreamResponse:
    """Before the first part."""
    response = web.StreamResponse(headers={"Content-Type": "multipart/mixed; boundary=b"})
    await response.prepare(request)
    while True:
        await response.write(b"line\r\n" * 10_000)


async def test_what_stands_around_the_parts_has_a_bound(
    neighbourhood: Neighbourhood, media_repository: Repository
) -> None:
    """However long the other server goes on."""
    async with fetcher(neighbourhood, media_repository, endless_lines) as (by, mxc, _):
        with pytest.raises(PeerMalformed, match="more than the"):
            await by.fetch(mxc)
    assert media_repository.left() == []


@pytest.mark.parametrize(
    "handler",
    [
        two_parts(b"x" * (LIMIT + 1), Content_Type="a/b"),
        two_parts(b"x" * (LIMIT + 200_000), Content_Type="a/b"),
        endless,
        by_path(
            federation=answering({"errcode": "M_UNRECOGNIZED"}, 404), media=answering(b"x" * (LIMIT + 1))
        ),
    ],
)
async def test_what_is_too_large_is_not_kept(
    neighbourhood: Neighbourhood, media_repository: Repository, handler: Handler
) -> None:
    """Whether its size is told, or seen when it is too late for telling."""
    async with fetcher(neighbourhood, media_repository, handler) as (by, mxc, _):
        with pytest.raises(MatrixError) as refused:
            await by.fetch(mxc)
    assert (refused.value.status, refused.value.errcode) == (502, "M_TOO_LARGE")
    assert media_repository.left() == []


async def test_exactly_as_large_as_allowed(
    neighbourhood: Neighbourhood, media_repository: Repository
) -> None:
    """What stands round it does not count."""
    handler = two_parts(b"x" * LIMIT, Content_Type="a/b")
    async with fetcher(neighbourhood, media_repository, handler) as (by, mxc, _):
        assert (await by.fetch(mxc)).size == LIMIT


BEFORE, AFTER = multipart_frame("b", {"Content-Type": "a/b"})


@pytest.mark.parametrize(
    ("body", "content_type", "problem"),
    [
        (b"bytes", "image/png", "not multipart/mixed"),
        (BEFORE + b"x", "multipart/mixed; boundary=b", "invalid or incomplete"),
        (
            BEFORE + b"x" + AFTER.replace(b"--\r\n", b"\r\n\r\n") + AFTER,
            "multipart/mixed; boundary=b",
            "more than two",
        ),
        (b"x" * 50_000, "multipart/mixed; boundary=b", "invalid or incomplete"),
    ],
)
async def test_what_is_no_answer_of_two_parts(
    neighbourhood: Neighbourhood, media_repository: Repository, body: bytes, content_type: str, problem: str
) -> None:
    """Nothing of it is kept."""
    handler = answering(body, Content_Type=content_type)
    async with fetcher(neighbourhood, media_repository, handler) as (by, mxc, _):
        with pytest.raises(PeerMalformed, match=problem):
            await by.fetch(mxc)
    assert media_repository.left() == []


async def test_a_location_is_followed_without_our_credentials(
    neighbourhood: Neighbourhood, media_repository: Repository
) -> None:
    """What the part says goes before what the place says."""
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
async def test_a_location_that_leads_elsewhere_is_refused(
    neighbourhood: Neighbourhood, media_repository: Repository, location: str
) -> None:
    """Nobody is connected to."""
    async with fetcher(neighbourhood, media_repository, two_parts(b"", Location=location)) as (by, mxc, _):
        with pytest.raises(PeerMalformed, match="not downloaded from"):
            await by.fetch(mxc)


async def test_a_location_where_too_much_is(
    neighbourhood: Neighbourhood, media_repository: Repository
) -> None:
    """The limit is the same."""
    cdn = await neighbourhood.server(answering(b"x" * (LIMIT + 1)), "cdn.test")
    handler = two_parts(b"", Location=f"https://cdn.test:{cdn.port}/")
    async with fetcher(neighbourhood, media_repository, handler) as (by, mxc, _):
        with pytest.raises(MatrixError, match="M_TOO_LARGE"):
            await by.fetch(mxc)


async def test_a_server_that_is_not_there(neighbourhood: Neighbourhood, media_repository: Repository) -> None:
    """The peer's fault, and nothing is left."""
    async with fetcher(neighbourhood, media_repository, answering()) as (by, _, __):
        with pytest.raises(PeerUnreachable):
            await by.fetch(Mxc("nobody.test", "abc"))
        with pytest.raises(PeerError):
            await by.fetch(Mxc("us.test", "abc"))
    assert media_repository.left() == []
