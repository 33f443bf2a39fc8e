"""One HTTP connection: aiohttp's own protocol, with our deadlines, errors and counting laid over it.

One of aiohttp's own attributes is read here, `_request_count`: what its parser has made of the bytes so far
is to be learned nowhere else. The tests of slow and of pipelined requests fail if it changes.

A peer that sends whole requests and takes whole answers, as nearly all do, is not to pay for those that do
not. So the machine is told of requests and answers only when something else happens, or when its timer rings.
Until then it is enough to count them, and to remember when the last answer was written.
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
from federation.http.responses import error_answer, raw_answer, refusal_of
from federation.http.server.capacity import Limits
from federation.http.server.deadlines import NO_DEADLINE, Deadlines, Effect, Happening, Phase
from federation.http.server.observer import METHODS, OTHER_METHOD, UNMATCHED, UNREADABLE, Observer
from federation.http.server.peer_certificates import ClientCertificate
from federation.matrix.errors import MatrixError


class Kind(StrEnum):
    """The values are metric labels."""

    TLS = "tls"
    PLAIN = "plain"


# Where the machine has to be told of every byte.
UNFINISHED = frozenset({Phase.HEAD, Phase.BODY})

# Idle connections are ours to close (`deadlines.py`), so aiohttp's own timer is put out of the way.
NEVER = 365 * 24 * 3600.0


class Connection(web.RequestHandler):
    """aiohttp makes one request after the other of what arrives; this watches the clock while it does."""

    __slots__ = (
        "_answered",
        "_ends",
        "_identify",
        "_leaving",
        "_limits",
        "_lost",
        "_observer",
        "_on_lost",
        "_on_made",
        "_resting_since",
        "_rings_at",
        "_started",
        "_timer",
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
            access_log=None,  # type: ignore[arg-type]  # this is how it is switched off; the annotation forgot
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
        # Of the request at hand: its body, if it has one; its Expect header; the template of its route.
        self.body: StreamReader | None = None
        self.expectation: str | None = None
        # Bytes since the answer before: the head of the request at hand, or more than that.
        self.received = 0
        self.route = UNMATCHED
        self._limits = limits
        self._observer = observer
        self._identify = identify
        self._on_made = on_made
        self._on_lost = on_lost
        self.deadlines = Deadlines(limits, loop.time())
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = NO_DEADLINE
        # Requests whose answers are written; when the last one was.
        self._answered = 0
        self._resting_since = 0.0
        self._started = 0.0
        self._ends = False
        self._lost = False
        self._leaving: asyncio.Transport | None = None

    # What the listener and the middleware call

    def begin(self, body: StreamReader, expectation: str | None) -> None:
        """A request begins to be worked on."""
        self._started = monotonic()
        self.route = UNMATCHED
        self.body = None if body is EMPTY_PAYLOAD else body
        self.expectation = expectation

    def wait_for_body(self) -> None:
        """The handler waits until the body is here."""
        self._happens(Happening.WAITS_FOR_BODY)

    def body_complete(self) -> None:
        self._happens(Happening.BODY_COMPLETE)

    def end(self) -> None:
        """The answer that follows is the last on this connection."""
        self._ends = True

    def stop(self) -> None:
        """Close once nothing is under way. A head that has begun to arrive is under way."""
        self.is_stopping = True
        self._catch_up()
        if self.deadlines.phase in (Phase.OPENING, Phase.IDLE):
            self.force_close()

    def abort(self) -> None:
        """Close now, whatever is under way."""
        transport = self._leaving or self.transport
        self.force_close()
        if transport is not None:
            transport.abort()

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A TLS handshake may have taken its time since this object was made.
        self.deadlines = Deadlines(self._limits, self._loop.time())
        self.certificate = self._identify(transport)
        super().connection_made(transport)
        self._on_made(self)
        self._observer.connection_opened(self.kind)
        self._arm()

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._lost = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._leaving = None
        self._observer.connection_closed(self.kind)
        self._on_lost(self)

    def data_received(self, data: bytes) -> None:
        before = self._request_count
        super().data_received(data)
        after = self._request_count
        if self.deadlines.phase in UNFINISHED:
            self._unfinished(data, has_request=after != before)
        elif after != before:
            self.received = len(data)
        elif data and after == self._answered:
            # The beginning of a head. While an answer is worked on, nobody minds what else arrives.
            self._happens(Happening.BYTES, len(data))

    def pause_writing(self) -> None:
        super().pause_writing()
        self._happens(Happening.STALLED)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._happens(Happening.FLOWING)

    # What aiohttp calls

    async def start(self) -> None:
        self.task = asyncio.current_task()
        try:
            await super().start()
        except Exception as error:
            # aiohttp could not make a request object of what its parser had accepted.
            self._observer.problem("A request could not be read at all.", error)
            self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """In place of aiohttp's own error pages. 400 is its parser's; the middleware leaves nothing else."""
        if isinstance(exc, ConnectionError) or request.writer.output_size > 0:
            raise ConnectionError("The peer is gone, or would read a second answer as part of the first.")
        self.route = UNREADABLE
        if status == 400:
            error = refusal_of(exc)
        else:
            self._observer.problem("A request failed outside of its handler.", exc)
            error = refusals.unexpected()
        self.end()
        answer = error_answer(error)
        answer.force_close()
        return answer

    def log_access(self, request: web.BaseRequest, response: web.StreamResponse, time: float | None) -> None:
        """aiohttp calls this once for every answer, when it is written."""
        # Both event loops keep their time by this clock too.
        self._resting_since = now = monotonic()
        self._answered += 1
        method = request.method if request.method in METHODS else OTHER_METHOD
        self._observer.request_answered(self.route, method, response.status, now - self._started)
        if self._ends:
            self._leave()
        elif self.is_stopping:
            self.close()

    def log_exception(self, *args: Any, **kw: Any) -> None:
        error = kw.get("exc_info")
        self._observer.problem(
            "A connection failed while a request was answered.",
            error if isinstance(error, BaseException) else None,
        )

    # The clock

    def _unfinished(self, data: bytes, *, has_request: bool) -> None:
        """More of a head or of a body that had begun before."""
        body = self.body
        if self.deadlines.phase is Phase.BODY and has_request and body is not None and not body.is_eof():
            # Behind an unfinished body there can be no request: the parser choked on the body, and whoever
            # waits for it would wait in vain.
            body.set_exception(refusals.not_http())
        self._happens(Happening.REQUEST if has_request else Happening.BYTES, len(data))
        self.received = self.deadlines.received

    def _catch_up(self) -> None:
        """Tell the machine of the requests and answers since it was last told."""
        working = self._request_count > self._answered
        phase = self.deadlines.phase
        if phase is Phase.ANSWERING and not working:
            self.deadlines.receive(Happening.ANSWERED, self._resting_since)
        elif phase in (Phase.OPENING, Phase.IDLE):
            if working:
                self.deadlines.receive(Happening.REQUEST, self._loop.time())
            elif self._answered:
                self.deadlines.receive(Happening.REQUEST, self._resting_since)
                self.deadlines.receive(Happening.ANSWERED, self._resting_since)

    def _happens(self, happening: Happening, size: int = 0) -> None:
        self._catch_up()
        effect = self.deadlines.receive(happening, self._loop.time(), size)
        if effect is not Effect.NOTHING:
            self._act(effect)
        self._arm()

    def _arm(self) -> None:
        """One timer a connection. One that is too early stays: when it rings it is set anew.

        While an answer is worked on there is no deadline, but nobody will say when that has ended: so it
        rings now and then, to look.
        """
        deadline = min(self.deadlines.deadline, self._loop.time() + self._limits.idle_timeout)
        if deadline >= self._rings_at or self._lost:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at = deadline
        self._timer = self._loop.call_at(deadline, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._rings_at = NO_DEADLINE
        self._catch_up()
        phase = self.deadlines.phase
        effect = self.deadlines.receive(Happening.DEADLINE, self._loop.time())
        if effect is not Effect.NOTHING:
            self._observer.connection_expired(phase)
            self._act(effect)
        self._arm()

    def _act(self, effect: Effect) -> None:
        if effect is Effect.TIME_OUT_HEAD:
            self._last_words(refusals.head_too_slow())
        elif effect is Effect.REFUSE_HEAD:
            self._last_words(refusals.head_too_large())
        elif effect is Effect.FAIL_BODY:
            if self.body is not None:
                self.body.set_exception(refusals.body_too_slow())
        elif effect is Effect.CLOSE:
            self.force_close()
        elif self.kind is Kind.TLS and self._leaving is not None:
            self._leaving.close()
        else:
            self.abort()

    # The end

    def _last_words(self, error: MatrixError) -> None:
        """Answer although there is no request yet."""
        if self.transport is not None:
            self.transport.write(raw_answer(error))
        self._observer.request_answered(UNREADABLE, OTHER_METHOD, error.status, 0.0)
        self._leave()

    def _leave(self) -> None:
        """Stop working, but keep the transport until the peer has had the time to read the last answer."""
        transport = self.transport
        self._happens(Happening.LAST_ANSWER)
        # aiohttp closes the transport it knows; this one closes when the peer does, or by the deadline.
        self.transport = None
        self.force_close()
        if transport is None or transport.is_closing():
            return
        self._leaving = transport
        # Nothing is left to end when the peer has reset the connection; its loss will be told in a moment.
        with contextlib.suppress(OSError):
            if transport.can_write_eof():
                transport.write_eof()
        # Flow control may have paused it, and then the peer's end would not be seen either.
        with contextlib.suppress(RuntimeError):
            transport.resume_reading()


def connection_of(request: web.BaseRequest) -> Connection:
    """The connection that a request came in by."""
    return cast(Connection, request.protocol)


def client_certificate(request: web.BaseRequest) -> ClientCertificate | None:
    """The verified client certificate of a request's connection, if it showed one."""
    return connection_of(request).certificate
