"""Properties shared by the media endpoints."""

import asyncio
from pathlib import Path

import pytest

from federation.client.client import FederationClient
from federation.client.dns import Dns
from federation.client.peer_settings import PeerSettings
from federation.client.public_web import PublicWeb
from federation.http.services import MediaServices
from federation.keys.server_keys import LocalKeys
from federation.matrix.errors import MatrixError
from federation.media.fetcher import MediaFetcher
from storage.database import Database
from tests.federation.http.media_node import DOWNLOAD, PEER_KEY, media_node, two_parts
from tests.federation.media.repository import ALICE, repository
from tests.federation.pictures import picture
from tests.support.neighbourhood import OWN_NAME


async def test_concurrent_responses_are_limited_by_server(database: Database, tmp_path: Path) -> None:
    """Other servers are not affected, and a slot is released at the end."""
    shared = MediaServices(repository(database, tmp_path).media(), None, max_concurrent=1)  # type: ignore[arg-type]
    for _ in range(2):
        with (
            shared.slot("a.test"),
            shared.slot("b.test"),
            pytest.raises(MatrixError, match="M_LIMIT_EXCEEDED"),
            shared.slot("a.test"),
        ):
            pass
    assert not shared._active


async def test_a_large_file_is_streamed(database: Database, tmp_path: Path) -> None:
    """With its length in the header."""
    data = bytes(range(256)) * 10_000
    async with media_node(database, tmp_path) as node:
        info = await node.media.upload(ALICE, data, "video/mp4", "a.mp4")
        answer = await node.ask(f"{DOWNLOAD}/{info.mxc.media_id}")
        assert two_parts(answer)[1] == data
        assert int(answer.headers["content-length"]) == len(answer.body)


async def test_a_disconnected_peer_is_not_reported(database: Database, tmp_path: Path) -> None:
    """Its slot is released."""
    async with media_node(database, tmp_path, max_concurrent=1) as node:
        info = await node.media.upload(ALICE, b"x" * 20_000_000)
        path = f"{DOWNLOAD}/{info.mxc.media_id}"
        client = await node.connect()
        lines = [f"GET {path} HTTP/1.1", "Host: us.test"]
        lines += [f"{name}: {value}" for name, value in node.signed(path).items()]
        await client.send("\r\n".join([*lines, "", ""]).encode())
        await client.reader.readexactly(100_000)
        assert (await node.ask(path)).status == 429
        async with client:
            pass
        async with asyncio.timeout(60):
            while node.shared._active:
                await asyncio.sleep(0.01)


async def test_a_file_that_is_too_short_ends_the_connection(database: Database, tmp_path: Path) -> None:
    """The peer detects the incomplete response, and the problem is reported."""
    async with media_node(database, tmp_path) as node:
        info = await node.media.upload(ALICE, b"hello")
        node.repository.files.path(bytes.fromhex(info.sha256)).write_bytes(b"hell")
        with pytest.raises(asyncio.IncompleteReadError):
            await node.ask(f"{DOWNLOAD}/{info.mxc.media_id}")
        [(sentence, error)] = node.running.seen.problems
        assert "after its response had begun" in sentence
        assert str(info.mxc) in str(error)
        node.running.seen.problems.clear()


async def test_two_nodes_exchange_media(database: Database, tmp_path: Path) -> None:
    """A fetcher with the endpoints of another node."""
    async with media_node(database, tmp_path) as node:
        info = await node.media.upload(ALICE, picture(), "image/png", "Grüße.png")
        peers = {OWN_NAME: PeerSettings(address=f"127.0.0.1:{node.running.port}", plain=True)}
        reach = node.neighbourhood.reach(peers)
        client = FederationClient(
            node.peer, lambda: LocalKeys(PEER_KEY), reach.resolver, reach.connections, may_contact=lambda _: True
        )
        (tmp_path / "theirs").mkdir()
        theirs = repository(database, tmp_path / "theirs")
        web = PublicWeb(Dns(), user_agent="test")
        try:
            fetched = await MediaFetcher(theirs.store, client, web, 1 << 20).fetch(info.mxc)
        finally:
            await web.close()
    assert (fetched.sha256, fetched.content_type) == (info.sha256, "image/png")
    assert fetched.file_name == "Grüße.png"
    assert theirs.files.path(bytes.fromhex(fetched.sha256)).read_bytes() == picture()
