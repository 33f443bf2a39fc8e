"""What stands round every handler: the checks that need only the head, the reading of the body, and the one
place where errors become HTTP.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from http import HTTPStatus
from typing import Any

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict, CIMultiDictProxy

from federation.http import responses as refusals
from federation.http.responses import error_answer
from federation.http.server.capacity import Budget, Limits
from federation.http.server.connection import Connection, connection_of
from federation.http.server.observer import UNMATCHED, Observer
from federation.keys.x_matrix import BadAuthorization, parse_all
from federation.matrix.errors import MatrixError, PeerError
from federation.matrix.networks import certificate_is_missing

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

# For what aiohttp or a handler raises as an HTTP status. A handler that has more to say raises MatrixError.
ERRCODES = {401: "M_UNAUTHORIZED", 403: "M_FORBIDDEN", 429: "M_LIMIT_EXCEEDED"}


class PeerLeft(ConnectionError):
    """In the middle of its request. There is nobody to answer."""


class AnswerOverdue(Exception):
    """A handler had not begun its answer in time, and was cancelled."""


def stand_round(
    server: web.Server, limits: Limits, observer: Observer, required: Callable[[], Collection[str]]
) -> None:
    """Put all of this round what aiohttp does by itself, routing included.

    `required` gives the peers that must show a client certificate, in lower case.
    """
    server.request_factory = _beginning(server.request_factory)
    server.request_handler = _answering(server.request_handler, limits, observer, required)


def _beginning(inner: Callable[..., web.BaseRequest]) -> Callable[..., web.BaseRequest]:
    def make_request(
        message: Any, payload: Any, protocol: Connection, writer: Any, task: Any
    ) -> web.BaseRequest:
        expectation = message.headers.get(hdrs.EXPECT)
        if expectation is not None:
            # aiohttp would answer it before any of our checks, and before there is a place for errors.
            headers = CIMultiDict(message.headers)
            headers.popall(hdrs.EXPECT)
            message = message._replace(headers=CIMultiDictProxy(headers))
        protocol.begin(payload, expectation)
        return inner(message, payload, protocol, writer, task)

    return make_request


def _answering(
    inner: Handler, limits: Limits, observer: Observer, required: Callable[[], Collection[str]]
) -> Handler:
    budget = Budget(limits.max_bodies)

    max_head = limits.max_head

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        connection = connection_of(request)
        reserved = 0
        try:
            if connection.received > max_head and _weight_of_head(request) > max_head:
                raise refusals.head_too_large()
            peers = required()
            if peers and hdrs.AUTHORIZATION in request.headers:
                check_certificate(request.headers.getall(hdrs.AUTHORIZATION), connection, peers)
            if connection.expectation is not None or connection.body is not None:
                reserved = await _receive_body(request, connection, limits, budget)
            response = await _answer_in_time(inner, request, limits.answer_timeout)
            connection.route = route_of(request)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            connection.route = route_of(request)
            if isinstance(error, web.HTTPException) and error.status < 400:
                raise
            response = _answer_error(error, request, observer)
        finally:
            if reserved:
                budget.give_back(reserved)
        if connection.is_stopping:
            response.force_close()
        if connection.body is not None and not connection.body.is_eof():
            # What was not read would be taken for the next request.
            response.force_close()
            connection.end()
        return response

    return answer


async def _answer_in_time(inner: Handler, request: web.BaseRequest, seconds: float) -> web.StreamResponse:
    """Cancel a handler that hangs, or its connection and what it holds would be held with it.

    An answer that has begun may last: a WebSocket, a stream. How long its peer may take is the connection's
    to limit.
    """
    loop = asyncio.get_running_loop()

    def expire() -> None:
        if request.writer.output_size == 0:
            timeout.reschedule(loop.time())

    timer = loop.call_later(seconds, expire)
    try:
        async with asyncio.timeout(None) as timeout:
            return await inner(request)
    except TimeoutError as error:
        if timeout.expired():
            raise AnswerOverdue(f"No answer had begun after {seconds:g} seconds.") from error
        raise
    finally:
        timer.cancel()


async def _receive_body(
    request: web.BaseRequest, connection: Connection, limits: Limits, budget: Budget
) -> int:
    """The body, whole, so that a handler's `await request.read()` never waits.

    Returns what it took of the budget: nothing for small ones, which are here already with the head.
    """
    body = connection.body
    if body is not None and request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        raise refusals.body_encoded()
    if body is None or body.is_eof():
        if connection.expectation is not None:
            await _meet_expectation(request, connection.expectation)
        # aiohttp refuses what is too large while it reads.
        await request.read()
        return 0
    length = request.content_length
    if length is not None and length > limits.max_body:
        raise refusals.body_too_large()
    if connection.expectation is not None:
        await _meet_expectation(request, connection.expectation)
    reserved = limits.max_body if length is None else length
    if not budget.take(reserved):
        raise refusals.too_many_bodies()
    connection.wait_for_body()
    try:
        await request.read()
    except BaseException as error:
        budget.give_back(reserved)
        if request.transport is None and isinstance(error, Exception):
            raise PeerLeft from error
        raise
    finally:
        connection.body_complete()
    return reserved


async def _meet_expectation(request: web.BaseRequest, expectation: str) -> None:
    if request.version < (1, 1):
        # HTTP/1.0 knows no Expect.
        return
    if expectation.lower() != "100-continue":
        raise refusals.expectation()
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    # The answer itself has not begun.
    request.writer.output_size = 0
    await request.writer.drain()


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


def route_of(request: web.BaseRequest) -> str:
    """The template that matched, never the path: paths are the peer's, and without number."""
    # `request.match_info` insists that there is one; a request refused by its head was never matched.
    matched = getattr(request, "_match_info", None)
    resource = None if matched is None else matched.route.resource
    return UNMATCHED if resource is None else resource.canonical


def _answer_error(error: Exception, request: web.BaseRequest, observer: Observer) -> web.Response:
    if isinstance(error, PeerLeft):
        raise error
    if request.transport is None and isinstance(error, ConnectionError):
        raise PeerLeft from error
    if request.writer.output_size > 0:
        # Too late for a second answer: the peer would read it as part of the first.
        observer.problem("A handler failed in the middle of its answer.", error)
        raise PeerLeft from error
    if isinstance(error, MatrixError):
        return error_answer(error)
    if isinstance(error, AnswerOverdue):
        observer.problem(f"A request to {route_of(request)} was not answered in time.", error)
        return error_answer(refusals.overdue())
    if isinstance(error, web.HTTPException):
        return error_answer(_from_http(error), _allow(error))
    if isinstance(error, (web.RequestPayloadError, HttpProcessingError)):
        return error_answer(refusals.not_http())
    if isinstance(error, PeerError):
        # Asked to do something, this node needed another server, and that one failed.
        observer.problem("Another server kept this node from answering.", error)
        return error_answer(refusals.peer_failed(error.peer))
    observer.problem("A request failed in a way that nobody foresaw.", error)
    return error_answer(refusals.unexpected())


def _from_http(error: web.HTTPException) -> MatrixError:
    if error.status == 404:
        return refusals.unrecognized()
    if error.status == 405:
        return refusals.wrong_method()
    if error.status == 413:
        return refusals.body_too_large()
    return MatrixError(ERRCODES.get(error.status, "M_UNKNOWN"), HTTPStatus(error.status).phrase, error.status)


def _allow(error: web.HTTPException) -> dict[str, str]:
    allow = error.headers.get(hdrs.ALLOW)
    return {hdrs.ALLOW: allow} if allow else {}


def _weight_of_head(request: web.BaseRequest) -> int:
    """As it stood on the wire: the request line, and for each field a colon, a blank and the end of line."""
    fields = sum(len(name) + len(value) + 4 for name, value in request.raw_headers)
    return len(request.method) + len(request.raw_path) + len(" HTTP/1.1  \r\n\r\n") + fields
