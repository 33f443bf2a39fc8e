"""Fetching URLs of the public web."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from yarl import URL

from federation.client.dns import Dns
from federation.client.errors import PeerMalformed, PeerTlsFailure, PeerUnreachable
from federation.client.public_web import PublicWeb
from federation.matrix.errors import PeerError
from federation.matrix.networks import NOT_PUBLIC, Network
from storage.errors import LocalError
from tests.support.neighbourhood import Neighbourhood, answering


@asynccontextmanager
async def web(neighbourhood: Neighbourhood, blocked: Sequence[Network] = ()) -> AsyncIterator[PublicWeb]:
    trusted = neighbourhood.certificates.trusted
    public = PublicWeb(
        Dns([("127.0.0.1", neighbourhood.names.port)], timeout=5.0),
        user_agent="test",
        authorities=trusted if trusted.exists() else None,
        blocked=blocked,
    )
    try:
        yield public
    finally:
        await public.close()


async def fetch(public: PublicWeb, url: str, limit: int = 100) -> bytes:
    async with public.stream(URL(url, encoded=True), "peer.test") as answer:
        return b"".join([chunk async for chunk in answer.chunks(limit)])


async def test_a_url_is_fetched_verbatim(neighbourhood: Neighbourhood) -> None:
    """Including query and escapes, and without credentials."""
    server = await neighbourhood.server(answering(b"bytes"), "cdn.test")
    async with web(neighbourhood) as public:
        assert await fetch(public, f"https://cdn.test:{server.port}/a%2Fb?sig=x%2By&z") == b"bytes"
    [request] = server.requests
    assert request.raw_path == "/a%2Fb?sig=x%2By&z"
    assert "Authorization" not in request.headers
    assert "Cookie" not in request.headers
    assert server.names == ["cdn.test"]


@pytest.mark.parametrize("status", [204, 206, 302, 404, 500])
async def test_only_200_is_accepted(neighbourhood: Neighbourhood, status: int) -> None:
    """Redirects are not followed."""
    server = await neighbourhood.server(answering(b"", status, Location="https://cdn.test/"), "cdn.test")
    async with web(neighbourhood) as public:
        with pytest.raises(PeerMalformed, match=str(status)):
            await fetch(public, f"https://cdn.test:{server.port}/")
    assert len(server.requests) == 1


async def test_compressed_responses_are_refused(neighbourhood: Neighbourhood) -> None:
    """A small response could fill the disk."""
    server = await neighbourhood.server(answering(b"x", Content_Encoding="br"), "cdn.test")
    async with web(neighbourhood) as public:
        with pytest.raises(PeerMalformed, match="compressed"):
            await fetch(public, f"https://cdn.test:{server.port}/")
    assert server.requests[0].headers["Accept-Encoding"] == "identity"


async def test_names_with_private_addresses_are_refused(neighbourhood: Neighbourhood) -> None:
    """Names are resolved when connecting, since they may have another address the next time."""
    server = await neighbourhood.server(answering(b"secret"), "cdn.test")
    async with web(neighbourhood, NOT_PUBLIC) as public:
        for host in ("cdn.test", "localhost"):
            with pytest.raises(PeerUnreachable, match="not to connect"):
                await fetch(public, f"https://{host}:{server.port}/")
    assert server.requests == []


async def test_the_certificate_is_checked(neighbourhood: Neighbourhood) -> None:
    """Without a valid certificate no request is sent."""
    untrusted = neighbourhood.certificates.make("cdn.test", trusted=False)
    server = await neighbourhood.server(answering(b""), "cdn.test", files=untrusted)
    async with web(neighbourhood) as public:
        with pytest.raises(PeerTlsFailure):
            await fetch(public, f"https://cdn.test:{server.port}/")
    assert server.requests == []


async def test_a_response_that_is_too_large_is_the_peers_fault(neighbourhood: Neighbourhood) -> None:
    """It has provided the URL."""
    server = await neighbourhood.server(answering(b"x" * 101), "cdn.test")
    async with web(neighbourhood) as public:
        with pytest.raises(PeerError, match=r"peer\.test"):
            await fetch(public, f"https://cdn.test:{server.port}/")


async def test_authorities_that_cannot_be_read(tmp_path: Path) -> None:
    """The error is raised when the node starts."""
    with pytest.raises(LocalError, match="authorities"):
        PublicWeb(Dns(), user_agent="test", authorities=tmp_path / "nothing.pem")
