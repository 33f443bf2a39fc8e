"""The errors that the port itself gives, in words. Endpoints have their own.

Each is made anew when it is needed: a shared exception would keep the frames of whoever raised it last.

What leaves this node in JSON: aiohttp responses, and the few answers that are written without aiohttp.

aiohttp's parser says in words what it could not read; this makes one of our refusals of it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import hdrs, web, web_response
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong

from federation.matrix.errors import MatrixError, limit_exceeded

# When a peer that met a limit may try again.
LATER_MS = 5000

Refusal = Callable[[], MatrixError]

plain_not_allowed: Refusal = partial(
    MatrixError,
    "M_FORBIDDEN",
    "This server does not speak plain HTTP with you: use https on the same port.",
    403,
)
too_many_connections: Refusal = partial(
    limit_exceeded, "This server has too many connections: try again later.", 503, LATER_MS
)
too_many_from_address: Refusal = partial(
    limit_exceeded, "Your address has too many connections to this server: close some of them.", 429, LATER_MS
)
too_many_bodies: Refusal = partial(
    limit_exceeded, "This server is receiving too much at once: try again later.", 503, LATER_MS
)
head_too_slow: Refusal = partial(
    MatrixError, "M_UNKNOWN", "The head of the request took too long to arrive.", 408
)
head_too_large: Refusal = partial(
    MatrixError, "M_TOO_LARGE", "The head of the request, or a line of it, is too large.", 431
)
body_too_slow: Refusal = partial(
    MatrixError, "M_UNKNOWN", "The body of the request took too long to arrive.", 408
)
body_too_large: Refusal = partial(MatrixError, "M_TOO_LARGE", "The body of the request is too large.", 413)
body_encoded: Refusal = partial(
    MatrixError, "M_UNKNOWN", "The body of the request has a Content-Encoding: send it as it is.", 415
)
not_http: Refusal = partial(MatrixError, "M_UNKNOWN", "This is not a valid HTTP request.", 400)
expectation: Refusal = partial(
    MatrixError, "M_UNKNOWN", "The only Expect header understood is 100-continue.", 417
)
unrecognized: Refusal = partial(MatrixError, "M_UNRECOGNIZED", "Unrecognized request", 404)
wrong_method: Refusal = partial(MatrixError, "M_UNRECOGNIZED", "Unrecognized method for this path", 405)
certificate_missing: Refusal = partial(
    MatrixError,
    "M_UNAUTHORIZED",
    "This connection did not show the client certificate configured for that server.",
    401,
)
overdue: Refusal = partial(
    MatrixError, "M_UNKNOWN", "This server took too long to answer: try again later.", 503
)
unexpected: Refusal = partial(MatrixError, "M_UNKNOWN", "Internal server error", 500)


def peer_failed(peer: str) -> MatrixError:
    """What exactly it did is for the log: it may hold a status, and CIS nodes search texts for those."""
    return MatrixError("M_UNKNOWN", f"The server {peer} could not be reached, or answered wrongly.", 502)


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


# The parser has no class of its own for this.
TOO_MANY_FIELDS = "Too many headers received"


def refusal_of(error: BaseException | None) -> MatrixError:
    """Never the parser's own text: it repeats what was sent and names the parser."""
    if isinstance(error, LineTooLong) or (
        isinstance(error, BadHttpMessage) and error.message == TOO_MANY_FIELDS
    ):
        return head_too_large()
    return not_http()
