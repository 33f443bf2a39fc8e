"""What another server points to is fetched from the public web, and from nowhere else."""

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


async def test_a_page_is_fetched_as_it_is_named(neighbourhood: Neighbourhood) -> None:
    """Query and escapes included, and nothing that says who asks."""
    server = await neighbourhood.server(answering(b"bytes"), "cdn.test")
    async with web(neighbourhood) as public:
        assert await fetch(public, f"https://cdn.test:{server.port}/a%2Fb?sig=x%2By&z") == b"bytes"
    [request] = server.requests
    assert request.raw_path == "/a%2Fb?sig=x%2By&z"
    assert "Authorization" not in request.headers
    assert "Cookie" not in request.headers
    assert server.names == ["cdn.test"]


@pytest.mark.parametrize("status", [204, 206, 302, 404, 500])
async def test_only_200_is_an_answer(neighbourhood: Neighbourhood, status: int) -> None:
    """A redirect is not followed: it could lead anywhere."""
    server = await neighbourhood.server(answering(b"", status, Location="https://cdn.test/"), "cdn.test")
    async with web(neighbourhood) as public:
        with pytest.raises(PeerMalformed, match=str(status)):
            await fetch(public, f"https://cdn.test:{server.port}/")
    assert len(server.requests) == 1


async def test_nothing_compressed_is_taken(neighbourhood: Neighbourhood) -> None:
    """A small answer could become one that fills the disk."""
    server = await neighbourhood.server(answering(b"x", Content_Encoding="br"), "cdn.test")
    async with web(neighbourhood) as public:
        with pytest.raises(PeerMalformed, match="compressed"):
            await fetch(public, f"https://cdn.test:{server.port}/")
    assert server.requests[0].headers["Accept-Encoding"] == "identity"


async def test_no_name_leads_to_what_is_not_public(neighbourhood: Neighbourhood) -> None:
    """Looked at when it is connected to, not before: a name may have another address the next time."""
    server = await neighbourhood.server(answering(b"secret"), "cdn.test")
    async with web(neighbourhood, NOT_PUBLIC) as public:
        for host in ("cdn.test", "localhost"):
            with pytest.raises(PeerUnreachable, match="not to connect"):
                await fetch(public, f"https://{host}:{server.port}/")
    assert server.requests == []


async def test_the_certificate_is_checked(neighbourhood: Neighbourhood) -> None:
    """A place that cannot show who it is gets no request."""
    untrusted = neighbourhood.certificates.make("cdn.test", trusted=False)
    server = await neighbourhood.server(answering(b""), "cdn.test", files=untrusted)
    async with web(neighbourhood) as public:
        with pytest.raises(PeerTlsFailure):
            await fetch(public, f"https://cdn.test:{server.port}/")
    assert server.requests == []


async def test_too_much_is_the_peers_fault(neighbourhood: Neighbourhood) -> None:
    """It named the place."""
    server = await neighbourhood.server(answering(b"x" * 101), "cdn.test")
    async with web(neighbourhood) as public:
        with pytest.raises(PeerError, match=r"peer\.test"):
            await fetch(public, f"https://cdn.test:{server.port}/")


async def test_authorities_that_cannot_be_read(tmp_path: Path) -> None:
    """Said when the node starts."""
    with pytest.raises(LocalError, match="authorities"):
        PublicWeb(Dns(), user_agent="test", authorities=tmp_path / "nothing.pem")
