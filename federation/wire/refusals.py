"""The errors that the port itself gives, in words. Endpoints have their own.

Each is made anew when it is needed: a shared exception would keep the frames of whoever raised it last.
"""

from collections.abc import Callable
from functools import partial

from federation.errors import MatrixError, limit_exceeded

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
unexpected: Refusal = partial(MatrixError, "M_UNKNOWN", "Internal server error", 500)


def peer_failed(peer: str) -> MatrixError:
    """What exactly it did is for the log: it may hold a status, and CIS nodes search texts for those."""
    return MatrixError("M_UNKNOWN", f"The server {peer} could not be reached, or answered wrongly.", 502)
