"""One HTTP connection: aiohttp's protocol with deadlines, Matrix errors and metrics.

aiohttp's private attribute `_request_count` is read here: nothing else tells how many requests its parser
has found so far. The tests of slow and of pipelined requests fail if it changes.

Nearly all peers send complete requests and read complete responses, and should not pay for those that do
not. So the deadline machine receives requests and responses only when something else happens or its timer
fires. Until then they are counted, and the time of the last response is kept.
"""

import asyncio
import contextlib
from collections.abc import Callable
from enum import StrEnum
from time import monotonic
from typing import Any, cast

from aiohttp import web
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader

from federation.http import responses as refusals
from federation.http.responses import error_of_parser_failure, error_response, raw_response
from federation.http.server.capacity import Limits
from federation.http.server.deadlines import NO_DEADLINE, ConnectionEvent, Deadlines, Effect, Phase
from federation.http.server.observer import METHODS, OTHER_METHOD, UNMATCHED, UNREADABLE, Observer
from federation.http.server.peer_certificates import ClientCertificate
from federation.matrix.errors import MatrixError


class Kind(StrEnum):
    """The values are metric labels."""

    TLS = "tls"
    PLAIN = "plain"


# The phases in which the machine receives every event of bytes.
RECEIVING = frozenset({Phase.HEAD, Phase.BODY})

# `deadlines.py` closes idle connections, so aiohttp's own timer is disabled.
NEVER = 365 * 24 * 3600.0


class Connection(web.RequestHandler):
    """An aiohttp request handler that enforces deadlines."""

    __slots__ = (
        "_answered_at",
        "_ends",
        "_identify",
        "_limits",
        "_lingering",
        "_lost",
        "_observer",
        "_on_lost",
        "_on_made",
        "_response_count",
        "_started",
        "_timer",
        "_timer_at",
        "body",
        "certificate",
        "deadlines",
        "expectation",
        "is_stopping",
        "kind",
        "received",
        "route",
        "task",
    )

    def __init__(
        self,
        server: web.Server,
        *,
        kind: Kind,
        limits: Limits,
        observer: Observer,
        identify: Callable[[asyncio.BaseTransport], ClientCertificate | None],
        on_made: Callable[["Connection"], None],
        on_lost: Callable[["Connection"], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=NEVER,
            access_log=None,  # type: ignore[arg-type]  # None disables it; the annotation is wrong
            max_line_size=limits.max_line,
            max_field_size=limits.max_line,
            max_headers=limits.max_fields,
            lingering_time=limits.linger_timeout,
            auto_decompress=False,
        )
        self.kind = kind
        self.certificate: ClientCertificate | None = None
        self.task: asyncio.Task[Any] | None = None
        self.is_stopping = False
        # The current request's body if it has one, its Expect header, and its route template.
        self.body: StreamReader | None = None
        self.expectation: str | None = None
        # Bytes since the previous response: the head of the current request, or more.
        self.received = 0
        self.route = UNMATCHED
        self._limits = limits
        self._observer = observer
        self._identify = identify
        self._on_made = on_made
        self._on_lost = on_lost
        self.deadlines = Deadlines(limits, loop.time())
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NO_DEADLINE
        # Number of written responses, and the time of the last one.
        self._response_count = 0
        self._answered_at = 0.0
        self._started = 0.0
        self._ends = False
        self._lost = False
        self._lingering: asyncio.Transport | None = None

    # Called by the listener and the middleware

    def begin(self, body: StreamReader, expectation: str | None) -> None:
        """Record that a request has begun."""
        self._started = monotonic()
        self.route = UNMATCHED
        self.body = None if body is EMPTY_PAYLOAD else body
        self.expectation = expectation

    def wait_for_body(self) -> None:
        """Record that the handler waits for the body."""
        self._handle_event(ConnectionEvent.WAITS_FOR_BODY)

    def body_complete(self) -> None:
        self._handle_event(ConnectionEvent.BODY_COMPLETE)

    def end(self) -> None:
        """Close the connection after the next response."""
        self._ends = True

    def stop(self) -> None:
        """Close when no request is in progress, including one whose head has begun to arrive."""
        self.is_stopping = True
        self._sync_deadlines()
        if self.deadlines.phase in (Phase.OPENING, Phase.IDLE):
            self.force_close()

    def abort(self) -> None:
        """Close now, even if a request is in progress."""
        transport = self._lingering or self.transport
        self.force_close()
        if transport is not None:
            transport.abort()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A TLS handshake may have taken some time since this object was created.
        self.deadlines = Deadlines(self._limits, self._loop.time())
        self.certificate = self._identify(transport)
        super().connection_made(transport)
        self._on_made(self)
        self._observer.connection_opened(self.kind)
        self._schedule_timer()

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._lost = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._lingering = None
        self._observer.connection_closed(self.kind)
        self._on_lost(self)

    def data_received(self, data: bytes) -> None:
        before = self._request_count
        super().data_received(data)
        after = self._request_count
        if self.deadlines.phase in RECEIVING:
            self._unfinished(data, has_request=after != before)
        elif after != before:
            self.received = len(data)
        elif data and after == self._response_count:
            # The beginning of a head. Bytes that arrive while a request is handled have no deadline.
            self._handle_event(ConnectionEvent.BYTES, len(data))

    def pause_writing(self) -> None:
        super().pause_writing()
        self._handle_event(ConnectionEvent.STALLED)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._handle_event(ConnectionEvent.FLOWING)

    # Called by aiohttp

    async def start(self) -> None:
        self.task = asyncio.current_task()
        try:
            await super().start()
        except Exception as error:
            # aiohttp could not create a request object from its parser's result.
            self._observer.problem("A request could not be read.", error)
            self.force_close()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Respond to an error outside of the middleware, in place of aiohttp's error pages. Status 400
        comes from its parser."""
        if isinstance(exc, ConnectionError) or request.writer.output_size > 0:
            raise ConnectionError("The peer has disconnected, or would read a second response as part of the first.")
        self.route = UNREADABLE
        if status == 400:
            error = error_of_parser_failure(exc)
        else:
            self._observer.problem("A request failed outside of its handler.", exc)
            error = refusals.unexpected()
        self.end()
        response = error_response(error)
        response.force_close()
        return response

    def log_access(self, request: web.BaseRequest, response: web.StreamResponse, time: float | None) -> None:
        """aiohttp calls this once for each response, when it is written."""
        # Both event loops use this clock too.
        self._answered_at = now = monotonic()
        self._response_count += 1
        method = request.method if request.method in METHODS else OTHER_METHOD
        self._observer.request_answered(self.route, method, response.status, now - self._started)
        if self._ends:
            self._linger()
        elif self.is_stopping:
            self.close()

    def log_exception(self, *args: Any, **kw: Any) -> None:
        error = kw.get("exc_info")
        self._observer.problem(
            "A connection failed during a response.", error if isinstance(error, BaseException) else None
        )

    # Deadlines

    def _unfinished(self, data: bytes, *, has_request: bool) -> None:
        """Handle more bytes of a head or a body."""
        body = self.body
        if self.deadlines.phase is Phase.BODY and has_request and body is not None and not body.is_eof():
            # A request cannot follow an unfinished body: the parser has failed in the body, which will not
            # be completed.
            body.set_exception(refusals.not_http())
        self._handle_event(ConnectionEvent.REQUEST if has_request else ConnectionEvent.BYTES, len(data))
        self.received = self.deadlines.received

    def _sync_deadlines(self) -> None:
        """Pass the requests and responses since the last event to the deadline machine."""
        working = self._request_count > self._response_count
        phase = self.deadlines.phase
        if phase is Phase.ANSWERING and not working:
            self.deadlines.receive(ConnectionEvent.RESPONDED, self._answered_at)
        elif phase in (Phase.OPENING, Phase.IDLE):
            if working:
                self.deadlines.receive(ConnectionEvent.REQUEST, self._loop.time())
            elif self._response_count:
                self.deadlines.receive(ConnectionEvent.REQUEST, self._answered_at)
                self.deadlines.receive(ConnectionEvent.RESPONDED, self._answered_at)

    def _handle_event(self, event: ConnectionEvent, size: int = 0) -> None:
        self._sync_deadlines()
        effect = self.deadlines.receive(event, self._loop.time(), size)
        if effect is not Effect.NOTHING:
            self._perform(effect)
        self._schedule_timer()

    def _schedule_timer(self) -> None:
        """Set the connection's timer. An earlier one is kept: it sets the timer again when it fires.

        There is no deadline while a request is handled. Its end causes no event, so the timer fires every
        `idle_timeout` seconds to check.
        """
        deadline = min(self.deadlines.deadline, self._loop.time() + self._limits.idle_timeout)
        if deadline >= self._timer_at or self._lost:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_at(deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_at = NO_DEADLINE
        self._sync_deadlines()
        phase = self.deadlines.phase
        effect = self.deadlines.receive(ConnectionEvent.DEADLINE, self._loop.time())
        if effect is not Effect.NOTHING:
            self._observer.connection_expired(phase)
            self._perform(effect)
        self._schedule_timer()

    def _perform(self, effect: Effect) -> None:
        if effect is Effect.TIME_OUT_HEAD:
            self._respond_and_close(refusals.head_too_slow())
        elif effect is Effect.REFUSE_HEAD:
            self._respond_and_close(refusals.head_too_large())
        elif effect is Effect.FAIL_BODY:
            if self.body is not None:
                self.body.set_exception(refusals.body_too_slow())
        elif effect is Effect.CLOSE:
            self.force_close()
        elif self.kind is Kind.TLS and self._lingering is not None:
            self._lingering.close()
        else:
            self.abort()

    # Closing

    def _respond_and_close(self, error: MatrixError) -> None:
        """Send an error before there is a request, and close."""
        if self.transport is not None:
            self.transport.write(raw_response(error))
        self._observer.request_answered(UNREADABLE, OTHER_METHOD, error.status, 0.0)
        self._linger()

    def _linger(self) -> None:
        """Stop handling requests, but keep the transport so that the peer can read the last response."""
        transport = self.transport
        self._handle_event(ConnectionEvent.LAST_RESPONSE)
        # aiohttp would close its transport. This one is closed when the peer closes it or at the deadline.
        self.transport = None
        self.force_close()
        if transport is None or transport.is_closing():
            return
        self._lingering = transport
        # The peer may have reset the connection; `connection_lost` follows.
        with contextlib.suppress(OSError):
            if transport.can_write_eof():
                transport.write_eof()
        # If flow control has paused reading, the peer's end would not be noticed.
        with contextlib.suppress(RuntimeError):
            transport.resume_reading()


def connection_of(request: web.BaseRequest) -> Connection:
    """Return the connection of a request."""
    return cast(Connection, request.protocol)


def client_certificate(request: web.BaseRequest) -> ClientCertificate | None:
    """Return the verified client certificate of the request's connection, if it presented one."""
    return connection_of(request).certificate
