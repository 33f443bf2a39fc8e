"""A homeserver's client API: requests, responses and errors."""

import io
import json as json_format
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

Json = dict[str, Any]

# A long poll takes half a minute; twice that is a homeserver that hangs.
TIMEOUT = aiohttp.ClientTimeout(total=90)


class Refused(Exception):
    """The homeserver responded with an error."""

    def __init__(self, status: int, body: Json, request: str) -> None:
        self.status = status
        self.body = body
        self.errcode: str | None = body.get("errcode")
        self.error: str | None = body.get("error")
        super().__init__(f"{request}: {status} {self.errcode}: {self.error}")


def path(template: str, *segments: str) -> str:
    """Fill a path template. Each `{}` is one segment and is escaped."""
    return template.format(*(quote(segment, safe="") for segment in segments))


class Homeserver:
    """Keeps connections open until `close`; a later request opens new ones."""

    def __init__(self, url: str, tls: ssl.SSLContext) -> None:
        self.url = url
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
            self._session = aiohttp.ClientSession(connector=connector, timeout=TIMEOUT)
        return self._session

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def raw(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        query: Mapping[str, Any] | None = None,
        data: bytes | None = None,
        content_type: str | None = None,
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Return status, headers and body of any response. A list in `query` repeats its name."""
        headers = {"Content-Type": content_type} if content_type is not None else {}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if wanted := {name: value for name, value in (query or {}).items() if value is not None}:
            path = f"{path}?{urlencode(wanted, doseq=True)}"
        # Already encoded: aiohttp would otherwise decode what it finds unnecessary.
        url = URL(self.url + path, encoded=True)
        # A body that is large is written in pieces.
        body = None if data is None else io.BytesIO(data)
        async with self._open().request(method, url, headers=headers, data=body) as response:
            return response.status, response.headers, await response.read()

    async def request(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        query: Mapping[str, Any] | None = None,
        json: Any = None,
    ) -> Json:
        """Return the JSON response; raises `Refused` for an error."""
        data = json_format.dumps(json).encode() if json is not None else None
        status, _, body = await self.raw(
            method, path, token=token, query=query, data=data, content_type="application/json"
        )
        answer = self.answer(status, body, f"{method} {path}")
        assert isinstance(answer, dict), answer
        return answer

    @staticmethod
    def answer(status: int, body: bytes, request: str) -> Any:
        """Return the JSON of a success; raises `Refused` for an error."""
        try:
            answer = json_format.loads(body)
        except ValueError:
            answer = {"error": body.decode("utf-8", "replace")}
        if not 200 <= status < 300:
            raise Refused(status, answer if isinstance(answer, dict) else {"error": str(answer)}, request)
        return answer
