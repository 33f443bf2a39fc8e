"""What leaves this node in JSON: aiohttp responses, and the few answers that are written without aiohttp."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import hdrs, web, web_response

from federation.errors import MatrixError

# No version: it would tell an attacker what to try, and an honest peer nothing.
SERVER = "palaver"
JSON = "application/json"

# aiohttp names itself and Python, with their versions, and has no setting for it. Its signal for changing the
# headers of every answer would do as well, but costs four per cent of a small request.
web_response.SERVER_SOFTWARE = SERVER  # type: ignore[attr-defined]  # it is imported there, not exported


def json_answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """`body` as JSON; bytes are taken as JSON already."""
    encoded = body if isinstance(body, bytes) else orjson.dumps(body)
    return web.Response(body=encoded, status=status, headers=headers, content_type=JSON)


def error_answer(error: MatrixError, headers: Mapping[str, str] | None = None) -> web.Response:
    return json_answer(error.body(), error.status, {**(headers or {}), **retry_header(error)})


def retry_header(error: MatrixError) -> dict[str, str]:
    """Readers of HTTP look for seconds in a header, readers of Matrix for milliseconds in the body."""
    milliseconds = error.fields.get("retry_after_ms")
    return {hdrs.RETRY_AFTER: str(-(-milliseconds // 1000))} if isinstance(milliseconds, int) else {}


def raw_answer(error: MatrixError) -> bytes:
    """The same error as the bytes of a whole HTTP answer, the last on its connection."""
    body = orjson.dumps(error.body())
    fields = {
        hdrs.SERVER: SERVER,
        hdrs.CONTENT_TYPE: JSON,
        hdrs.CONTENT_LENGTH: str(len(body)),
        hdrs.CONNECTION: "close",
        **retry_header(error),
    }
    head = [f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}"]
    head += [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join([*head, "", ""]).encode("ascii") + body
