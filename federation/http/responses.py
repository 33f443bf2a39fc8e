"""JSON responses, and the errors that the port itself returns. Endpoints define their own errors.

Each error is created when it is needed: a shared exception would keep the frames of its last traceback.

Most responses are aiohttp responses; a few are written as bytes, before there is an aiohttp request.
"""

from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import hdrs, web, web_response
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong

from federation.matrix.errors import MatrixError, limit_exceeded

# `retry_after_ms` for a peer that has reached a limit.
RETRY_AFTER_MS = 5000

Refusal = Callable[[], MatrixError]

plain_not_allowed: Refusal = partial(
    MatrixError,
    "M_FORBIDDEN",
    "This server does not accept plain HTTP from your address: use https on the same port.",
    403,
)
too_many_connections: Refusal = partial(
    limit_exceeded, "This server has too many connections: try again later.", 503, RETRY_AFTER_MS
)
too_many_from_address: Refusal = partial(
    limit_exceeded, "Your address has too many connections to this server: close some of them.", 429, RETRY_AFTER_MS
)
too_many_bodies: Refusal = partial(
    limit_exceeded, "This server is receiving too many request bodies at once: try again later.", 503, RETRY_AFTER_MS
)
head_too_slow: Refusal = partial(MatrixError, "M_UNKNOWN", "The head of the request took too long to arrive.", 408)
head_too_large: Refusal = partial(
    MatrixError, "M_TOO_LARGE", "The head of the request, or a line of it, is too large.", 431
)
body_too_slow: Refusal = partial(MatrixError, "M_UNKNOWN", "The body of the request took too long to arrive.", 408)
body_too_large: Refusal = partial(MatrixError, "M_TOO_LARGE", "The body of the request is too large.", 413)
body_encoded: Refusal = partial(
    MatrixError, "M_UNKNOWN", "The body of the request has a Content-Encoding: send it without one.", 415
)
not_http: Refusal = partial(MatrixError, "M_UNKNOWN", "This is not a valid HTTP request.", 400)
expectation: Refusal = partial(MatrixError, "M_UNKNOWN", "The only supported Expect header is 100-continue.", 417)
unrecognized: Refusal = partial(MatrixError, "M_UNRECOGNIZED", "Unrecognized request", 404)
wrong_method: Refusal = partial(MatrixError, "M_UNRECOGNIZED", "Unrecognized method for this path", 405)
certificate_missing: Refusal = partial(
    MatrixError,
    "M_UNAUTHORIZED",
    "This connection did not present the client certificate configured for that server.",
    401,
)
response_overdue: Refusal = partial(
    MatrixError, "M_UNKNOWN", "This server took too long to respond: try again later.", 503
)
unexpected: Refusal = partial(MatrixError, "M_UNKNOWN", "Internal server error", 500)


def remote_server_failed(peer: str) -> MatrixError:
    """Return the error for a request that another server made fail. Details are only logged: they may
    contain an HTTP status, and CIS nodes search error texts for statuses."""
    return MatrixError("M_UNKNOWN", f"The server {peer} could not be reached, or sent an invalid response.", 502)


# Without a version, which would help an attacker only.
SERVER = "palaver"
JSON = "application/json"

# aiohttp sends its own and Python's version, and has no setting for that. A signal handler that changes
# the headers of each response would work too, but costs four per cent of a small request.
web_response.SERVER_SOFTWARE = SERVER  # type: ignore[attr-defined]  # it is imported there, not exported


def json_response(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a JSON response. A `body` of bytes is JSON already."""
    encoded = body if isinstance(body, bytes) else orjson.dumps(body)
    return web.Response(body=encoded, status=status, headers=headers, content_type=JSON)


def error_response(error: MatrixError, headers: Mapping[str, str] | None = None) -> web.Response:
    return json_response(error.body(), error.status, {**(headers or {}), **retry_after_header(error)})


def retry_after_header(error: MatrixError) -> dict[str, str]:
    """Return a Retry-After header in seconds for an error with `retry_after_ms`: HTTP clients read the
    header, Matrix clients the body."""
    milliseconds = error.fields.get("retry_after_ms")
    return {hdrs.RETRY_AFTER: str(-(-milliseconds // 1000))} if isinstance(milliseconds, int) else {}


def raw_response(error: MatrixError) -> bytes:
    """Return the error as the bytes of a complete HTTP response, the last one on its connection."""
    body = orjson.dumps(error.body())
    fields = {
        hdrs.SERVER: SERVER,
        hdrs.CONTENT_TYPE: JSON,
        hdrs.CONTENT_LENGTH: str(len(body)),
        hdrs.CONNECTION: "close",
        **retry_after_header(error),
    }
    head = [f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}"]
    head += [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join([*head, "", ""]).encode("ascii") + body


# aiohttp's parser has no exception class for this.
TOO_MANY_HEADERS = "Too many headers received"


def error_of_parser_failure(error: BaseException | None) -> MatrixError:
    """Return the error for an exception of aiohttp's parser, without its text: it repeats the request and
    names the parser."""
    if isinstance(error, LineTooLong) or (isinstance(error, BadHttpMessage) and error.message == TOO_MANY_HEADERS):
        return head_too_large()
    return not_http()
