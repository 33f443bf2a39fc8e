"""What stands round every handler: the checks that need only the head, the reading of the body, and the one
place where errors become HTTP.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from http import HTTPStatus

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError

from federation.admission import certificate_is_missing
from federation.errors import MatrixError, PeerError
from federation.request_auth import BadAuthorization, parse_all
from federation.wire import refusals
from federation.wire.answers import SERVER, error_answer
from federation.wire.capacity import Budget
from federation.wire.connection import Connection, connection_of
from federation.wire.limits import Limits
from federation.wire.observer import UNMATCHED, Observer

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

# For what aiohttp or a handler raises as an HTTP status. A handler that has more to say raises MatrixError.
ERRCODES = {
    401: "M_UNAUTHORIZED",
    403: "M_FORBIDDEN",
    404: "M_UNRECOGNIZED",
    405: "M_UNRECOGNIZED",
    413: "M_TOO_LARGE",
    429: "M_LIMIT_EXCEEDED",
}


class PeerLeft(ConnectionError):
    """In the middle of its request. There is nobody to answer."""


def answering(
    inner: Handler, limits: Limits, observer: Observer, required: Callable[[], Collection[str]]
) -> Handler:
    """Round aiohttp's own handling, routing included. `required`: the peers that must show a certificate."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        connection = connection_of(request)
        connection.begin()
        try:
            check_head(request, connection, limits, required())
            response = await inner(request)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if isinstance(error, web.HTTPException) and error.status < 400:
                raise
            if isinstance(error, PeerLeft):
                raise
            response = _answer_error(error, request, observer)
        if connection.is_stopping:
            response.force_close()
        if not request.content.is_eof() and not response.prepared:
            # What was not read would be taken for the next request.
            response.force_close()
            connection.end()
        return response

    return answer


def check_head(
    request: web.BaseRequest, connection: Connection, limits: Limits, required: Collection[str]
) -> None:
    """What can be refused before the body is looked at."""
    headers = request.headers
    if connection.head_may_be_too_large() and _weight_of_head(request) > limits.max_head:
        raise refusals.head_too_large()
    if request.body_exists:
        length = request.content_length
        if length is not None and length > limits.max_body:
            raise refusals.body_too_large()
        if headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
            raise refusals.body_encoded()
    if required and hdrs.AUTHORIZATION in headers:
        check_certificate(headers.getall(hdrs.AUTHORIZATION), connection, required)


def check_certificate(authorization: list[str], connection: Connection, required: Collection[str]) -> None:
    """A peer with a configured certificate is believed only where the connection showed it."""
    try:
        claims = parse_all(authorization)
    except BadAuthorization:
        # Whoever needs the authorization reads it with the same function, and refuses it. Whoever needs
        # none, such as the key endpoint, does not mind.
        return
    shown = connection.certificate.peers if connection.certificate else ()
    if any(certificate_is_missing(claim.origin, shown, required) for claim in claims):
        raise refusals.certificate_missing()


def reading_bodies(limits: Limits) -> Callable[..., Awaitable[web.StreamResponse]]:
    """An aiohttp middleware: the handler finds its body whole, so that `await request.read()` never waits."""
    budget = Budget(limits.max_bodies)

    @web.middleware
    async def read_body(request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = connection_of(request)
        connection.route = route_of(request)
        if not request.body_exists:
            return await handler(request)
        body = request.content
        if body.is_eof():
            await request.read()
            return await handler(request)
        length = request.content_length
        reserved = limits.max_body if length is None else length
        if not budget.take(reserved):
            raise refusals.too_many_bodies()
        try:
            connection.wait_for_body(body)
            try:
                await request.read()
            except Exception as error:
                if request.transport is None:
                    raise PeerLeft from error
                raise
            finally:
                connection.body_complete()
            return await handler(request)
        finally:
            budget.give_back(reserved)

    return read_body


def route_of(request: web.Request) -> str:
    """The template that matched, never the path: paths are the peer's, and without number."""
    resource = request.match_info.route.resource
    return UNMATCHED if resource is None else resource.canonical


async def name_server(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """aiohttp would name itself and its version."""
    response.headers.setdefault(hdrs.SERVER, SERVER)


def _answer_error(error: Exception, request: web.BaseRequest, observer: Observer) -> web.Response:
    if request.writer.output_size > 0:
        # Too late for a second answer: the peer would read it as part of the first.
        observer.problem("A handler failed in the middle of its answer.", error)
        raise ConnectionError("the answer broke off") from error
    if isinstance(error, MatrixError):
        return error_answer(error)
    if isinstance(error, web.HTTPException):
        return error_answer(_from_http(error), _allow(error))
    if isinstance(error, (web.RequestPayloadError, HttpProcessingError)):
        return error_answer(refusals.not_http())
    if isinstance(error, PeerError):
        # Asked to do something, this node needed another server, and that one failed.
        observer.problem("Another server kept this node from answering.", error)
        return error_answer(MatrixError("M_UNKNOWN", f"{error.peer} {error.problem}", 502))
    observer.problem("A request failed in a way that nobody foresaw.", error)
    return error_answer(refusals.unexpected())


def _from_http(error: web.HTTPException) -> MatrixError:
    if error.status == 404:
        return refusals.unrecognized()
    if error.status == 405:
        return refusals.wrong_method()
    if error.status == 413:
        return refusals.body_too_large()
    if error.status == 417:
        return refusals.expectation()
    return MatrixError(ERRCODES.get(error.status, "M_UNKNOWN"), HTTPStatus(error.status).phrase, error.status)


def _allow(error: web.HTTPException) -> dict[str, str]:
    allow = error.headers.get(hdrs.ALLOW)
    return {hdrs.ALLOW: allow} if allow else {}


def _weight_of_head(request: web.BaseRequest) -> int:
    """As it stood on the wire: the request line, and for each field a colon, a blank and the end of line."""
    fields = sum(len(name) + len(value) + 4 for name, value in request.raw_headers)
    return len(request.method) + len(request.raw_path) + len(" HTTP/1.1  \r\n\r\n") + fields
