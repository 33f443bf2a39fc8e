"""`GET /_matrix/federation/v1/media/download/{mediaId}`."""

from pathlib import Path

from federation.media.location import SAFETY
from storage.database import Database
from tests.federation.http.media_node import DOWNLOAD, media_node, two_parts
from tests.federation.media.repository import ALICE
from tests.federation.pictures import HTML, SVG, picture
from tests.support.server_keys import key


async def test_media_is_returned_as_multipart(database: Database, tmp_path: Path) -> None:
    """An empty object and the bytes, with headers that prevent active content."""
    async with media_node(database, tmp_path) as node:
        for data, declared, content_type, kind in (
            (picture(), "image/png", "image/png", "inline"),
            (b"", "text/plain", "text/plain", "inline"),
            (SVG, "image/svg+xml", "image/svg+xml", "attachment"),
            (HTML, "text/html", "text/html", "attachment"),
            (HTML, "image/png", "application/octet-stream", "attachment"),
        ):
            info = await node.media.upload(ALICE, data, declared, "a.b")
            answer = await node.ask(f"{DOWNLOAD}/{info.mxc.media_id}?timeout_ms=20000")
            headers, body = two_parts(answer)
            assert body == data
            assert headers == {"content-type": content_type, "content-disposition": f'{kind}; filename="a.b"'}
            for name, value in SAFETY.items():
                assert answer.headers[name.lower()] == value


async def test_unsigned_requests_are_refused(database: Database, tmp_path: Path) -> None:
    """Before the media is looked up."""
    async with media_node(database, tmp_path) as node:
        info = await node.media.upload(ALICE, b"hello")
        for media_id in (info.mxc.media_id, "nothing"):
            path = f"{DOWNLOAD}/{media_id}"
            for headers in ({}, node.signed(path + "x"), node.signed(path, signer=key("1", "another"))):
                answer = await node.ask(path, headers)
                assert (answer.status, answer.json["errcode"]) == (401, "M_UNAUTHORIZED")


async def test_missing_media_is_not_found(database: Database, tmp_path: Path) -> None:
    """Unknown, quarantined or remote media, and invalid ids."""
    async with media_node(database, tmp_path) as node:
        hidden = await node.media.upload(ALICE, b"hidden")
        await node.media.quarantine(hidden.mxc)
        for media_id in (hidden.mxc.media_id, "nothing", "%2e%2e", "a%2Fb", "a%00b", "%7Bx%7D", "a" * 300, "%F0%9F"):
            answer = await node.ask(f"{DOWNLOAD}/{media_id}")
            assert (answer.status, answer.json["errcode"]) == (404, "M_NOT_FOUND"), media_id


async def test_concurrent_responses_to_one_server_are_limited(database: Database, tmp_path: Path) -> None:
    """Further requests get 429 with Retry-After."""
    async with media_node(database, tmp_path, max_concurrent=0) as node:
        info = await node.media.upload(ALICE, b"hello")
        answer = await node.ask(f"{DOWNLOAD}/{info.mxc.media_id}")
    assert (answer.status, answer.json["errcode"]) == (429, "M_LIMIT_EXCEEDED")
    assert answer.json["retry_after_ms"] > 0


async def test_only_get(database: Database, tmp_path: Path) -> None:
    """ "known path, wrong method" """
    async with media_node(database, tmp_path) as node, await node.connect() as client:
        answer = await client.ask(f"{DOWNLOAD}/abc", method="PUT")
        assert (answer.status, answer.json["errcode"]) == (405, "M_UNRECOGNIZED")
