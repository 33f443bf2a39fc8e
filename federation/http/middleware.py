"""Runs around each handler: checks the head, receives the body, limits the time, and maps errors to HTTP."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from http import HTTPStatus
from typing import Any

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict, CIMultiDictProxy

from federation.http import responses as refusals
from federation.http.responses import error_response
from federation.http.server.capacity import Budget, Limits
from federation.http.server.connection import Connection, connection_of
from federation.http.server.observer import UNMATCHED, Observer
from federation.keys.x_matrix import BadAuthorization, parse_all
from federation.matrix.errors import MatrixError, PeerError
from federation.matrix.networks import lacks_required_certificate

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

# For HTTP statuses that aiohttp or a handler raises. A handler with more information raises MatrixError.
ERRCODES = {401: "M_UNAUTHORIZED", 403: "M_FORBIDDEN", 429: "M_LIMIT_EXCEEDED"}


class PeerDisconnected(ConnectionError):
    """The peer closed the connection during its request, so no response can be sent."""


class ResponseTimeout(Exception):
    """A handler did not begin its response in time and was cancelled."""


def wrap_server(
    server: web.Server, limits: Limits, observer: Observer, required: Callable[[], Collection[str]]
) -> None:
    """Wrap aiohttp's request handling, including routing.

    `required` returns the peers that must present a client certificate, in lower case.
    """
    server.request_factory = _wrap_request_factory(server.request_factory)
    server.request_handler = _wrap_request_handler(server.request_handler, limits, observer, required)


def _wrap_request_factory(inner: Callable[..., web.BaseRequest]) -> Callable[..., web.BaseRequest]:
    def make_request(message: Any, payload: Any, protocol: Connection, writer: Any, task: Any) -> web.BaseRequest:
        expectation = message.headers.get(hdrs.EXPECT)
        if expectation is not None:
            # aiohttp would handle it before our checks, and outside of our error handling.
            headers = CIMultiDict(message.headers)
            headers.popall(hdrs.EXPECT)
            message = message._replace(headers=CIMultiDictProxy(headers))
        protocol.begin(payload, expectation)
        return inner(message, payload, protocol, writer, task)

    return make_request


def _wrap_request_handler(
    inner: Handler, limits: Limits, observer: Observer, required: Callable[[], Collection[str]]
) -> Handler:
    budget = Budget(limits.max_bodies)

    max_head = limits.max_head

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        connection = connection_of(request)
        reserved = 0
        try:
            if connection.received > max_head and _head_size(request) > max_head:
                raise refusals.head_too_large()
            peers = required()
            if peers and hdrs.AUTHORIZATION in request.headers:
                check_certificate(request.headers.getall(hdrs.AUTHORIZATION), connection, peers)
            if connection.expectation is not None or connection.body is not None:
                reserved = await _receive_body(request, connection, limits, budget)
            response = await _respond_in_time(inner, request, limits.response_timeout)
            connection.route = route_of(request)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            connection.route = route_of(request)
            if isinstance(error, web.HTTPException) and error.status < 400:
                raise
            response = _error_response(error, request, observer)
        finally:
            if reserved:
                budget.release(reserved)
        if connection.is_stopping:
            response.force_close()
        if connection.body is not None and not connection.body.is_eof():
            # Unread bytes of the body would be parsed as the next request.
            response.force_close()
            connection.end()
        return response

    return handle


async def _respond_in_time(inner: Handler, request: web.BaseRequest, seconds: float) -> web.StreamResponse:
    """Cancel a handler that hangs, which would otherwise keep its connection and resources for ever.

    A response that has begun may last: a WebSocket, a stream. The connection limits how long its peer may
    take.
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
            raise ResponseTimeout(f"No response had begun after {seconds:g} seconds.") from error
        raise
    finally:
        timer.cancel()


async def _receive_body(request: web.BaseRequest, connection: Connection, limits: Limits, budget: Budget) -> int:
    """Receive the whole body, so that a handler's `await request.read()` never waits.

    Return how many bytes of the budget were reserved: none for small bodies, which arrive with the head.
    """
    body = connection.body
    if body is not None and request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        raise refusals.body_encoded()
    if body is None or body.is_eof():
        if connection.expectation is not None:
            await _handle_expectation(request, connection.expectation)
        # aiohttp raises while reading if the body is too large.
        await request.read()
        return 0
    length = request.content_length
    if length is not None and length > limits.max_body:
        raise refusals.body_too_large()
    if connection.expectation is not None:
        await _handle_expectation(request, connection.expectation)
    reserved = limits.max_body if length is None else length
    if not budget.reserve(reserved):
        raise refusals.too_many_bodies()
    connection.wait_for_body()
    try:
        await request.read()
    except BaseException as error:
        budget.release(reserved)
        if request.transport is None and isinstance(error, Exception):
            raise PeerDisconnected from error
        raise
    finally:
        connection.body_complete()
    return reserved


async def _handle_expectation(request: web.BaseRequest, expectation: str) -> None:
    if request.version < (1, 1):
        # HTTP/1.0 has no Expect header.
        return
    if expectation.lower() != "100-continue":
        raise refusals.expectation()
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    # The response itself has not begun.
    request.writer.output_size = 0
    await request.writer.drain()


def check_certificate(authorization: list[str], connection: Connection, required: Collection[str]) -> None:
    """Refuse a request whose Authorization names a peer with a configured certificate that the connection
    did not present."""
    try:
        claims = parse_all(authorization)
    except BadAuthorization:
        # Endpoints that require authorization parse it with the same function and refuse it. Others, such
        # as the key endpoint, ignore it.
        return
    presented = connection.certificate.peers if connection.certificate else ()
    if any(lacks_required_certificate(claim.origin, presented, required) for claim in claims):
        raise refusals.certificate_missing()


def route_of(request: web.BaseRequest) -> str:
    """Return the route template, not the path: there are unlimited paths, and peers choose them."""
    # `request.match_info` raises without a match, and a request refused by its head was never routed.
    matched = getattr(request, "_match_info", None)
    resource = None if matched is None else matched.route.resource
    return UNMATCHED if resource is None else resource.canonical


def _error_response(error: Exception, request: web.BaseRequest, observer: Observer) -> web.Response:
    if isinstance(error, PeerDisconnected):
        raise error
    if request.transport is None and isinstance(error, ConnectionError):
        raise PeerDisconnected from error
    if request.writer.output_size > 0:
        # Too late for another response: the peer would read it as part of the first one.
        observer.problem("A handler failed after its response had begun.", error)
        raise PeerDisconnected from error
    if isinstance(error, MatrixError):
        return error_response(error)
    if isinstance(error, ResponseTimeout):
        observer.problem(f"The handler of {route_of(request)} did not respond in time.", error)
        return error_response(refusals.response_overdue())
    if isinstance(error, web.HTTPException):
        return error_response(_error_of_http_exception(error), _allow(error))
    if isinstance(error, (web.RequestPayloadError, HttpProcessingError)):
        return error_response(refusals.not_http())
    if isinstance(error, PeerError):
        # The request needed another server, which failed.
        observer.problem("A request failed because of another server.", error)
        return error_response(refusals.remote_server_failed(error.peer))
    observer.problem("A request failed with an unexpected error.", error)
    return error_response(refusals.unexpected())


def _error_of_http_exception(error: web.HTTPException) -> MatrixError:
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


def _head_size(request: web.BaseRequest) -> int:
    """Return the size of the head on the wire: the request line, and for each field a colon, a space and
    the end of line."""
    fields = sum(len(name) + len(value) + 4 for name, value in request.raw_headers)
    return len(request.method) + len(request.raw_path) + len(" HTTP/1.1  \r\n\r\n") + fields
