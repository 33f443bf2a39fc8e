"""Media: `mxc://server/id`, uploaded here, downloaded from any server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.matrix_client.homeserver import path
from tests.support.matrix_client.session import Session


@dataclass(frozen=True)
class Media:
    content_type: str
    data: bytes
    headers: Mapping[str, str]


class Medias(Session):
    async def upload(self, data: bytes, content_type: str, *, filename: str | None = None) -> str:
        """Upload a file; return its `mxc://` URI."""
        status, _, body = await self.homeserver.raw(
            "POST", "/_matrix/media/v3/upload", token=self.access_token, query={"filename": filename},
            data=data, content_type=content_type,
        )  # fmt: skip
        return str(self.homeserver.answer(status, body, "POST upload")["content_uri"])

    async def download(self, mxc: str) -> Media:
        return await self._get("download", mxc, {})

    async def thumbnail(self, mxc: str, width: int, height: int, *, method: str = "scale") -> Media:
        return await self._get("thumbnail", mxc, {"width": width, "height": height, "method": method})

    async def _get(self, what: str, mxc: str, query: Mapping[str, Any]) -> Media:
        server, _, media_id = mxc.removeprefix("mxc://").partition("/")
        where = path("/_matrix/client/v1/media/{}/{}/{}", what, server, media_id)
        status, headers, body = await self.homeserver.raw("GET", where, token=self.access_token, query=query)
        if status != 200:
            self.homeserver.answer(status, body, f"GET {where}")
        return Media(headers.get("Content-Type", ""), body, headers)
