"""The deprecated media endpoints."""

from pathlib import Path

from storage.database import Database
from tests.federation.http.media_node import media_node
from tests.federation.media.repository import ALICE


async def test_media_requires_authentication(database: Database, tmp_path: Path) -> None:
    """In all versions of the path, whether or not the media exists. The error is not M_UNRECOGNIZED, so
    that servers do not try a third endpoint."""
    async with media_node(database, tmp_path) as node:
        info = await node.media.upload(ALICE, b"hello")
        for media_id in (info.mxc.media_id, "nothing"):
            for version in ("r0", "v1", "v3"):
                for path in (
                    f"download/us.test/{media_id}?allow_remote=false",
                    f"download/us.test/{media_id}/a.txt",
                    f"thumbnail/us.test/{media_id}?width=1&height=1",
                ):
                    answer = await node.ask(f"/_matrix/media/{version}/{path}", {})
                    assert (answer.status, answer.json["errcode"]) == (404, "M_NOT_FOUND")
