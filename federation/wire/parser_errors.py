"""aiohttp's parser says in words what it could not read; this makes one of our refusals of it."""

from aiohttp.http_exceptions import BadHttpMessage, LineTooLong

from federation.errors import MatrixError
from federation.wire import refusals

# The parser has no class of its own for this.
TOO_MANY_FIELDS = "Too many headers received"


def refusal_of(error: BaseException | None) -> MatrixError:
    """Never the parser's own text: it repeats what was sent and names the parser."""
    if isinstance(error, LineTooLong) or (
        isinstance(error, BadHttpMessage) and error.message == TOO_MANY_FIELDS
    ):
        return refusals.head_too_large()
    return refusals.not_http()
