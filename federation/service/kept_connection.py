"""A connection to another server that is kept for its transactions: one request at a time, one piece each.

It does no more than that. Whatever comes that is not a usual answer to what was asked ends it, and whoever
asked may ask in another way.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, cast

from federation.answer_head import END, MOST, AnswerHead, read_head

MOST_OF_AN_ERROR: Final = 64 * 1024
"""Bytes that are read of an answer that is none of success."""

_BEGINS: Final = b"HTTP/1.1 "


class Unusual(Exception):
    """Something came that is left to a whole implementation of HTTP."""


class BrokenOff(Exception):
    """The connection ended before the answer. `began`: its head had come."""

    def __init__(self, *, began: bool) -> None:
        super().__init__("broken off")
        self.began = began


@dataclass(frozen=True, slots=True)
class Answer:
    """`body` is None where it is larger than it may be, and has not been read."""

    head: AnswerHead
    body: bytes | None = field(repr=False)


class KeptConnection(asyncio.Protocol):
    """`prefix`: the lines that all requests on it have, but for the authorization at their end. `leads`:
    whatever decided where it leads, and is compared before it is used. `limit`: bytes of an answer. `keep`:
    seconds without use, and half of those without an answer, for whoever has no patience of his own."""

    def __init__(
        self,
        prefix: str,
        leads: object,
        *,
        limit: int,
        keep: float,
        ended: Callable[["KeptConnection"], None] = lambda _: None,
    ) -> None:
        self.leads = leads
        self._prefix = prefix
        # The request line, the authorization, the length and the empty line beside them.
        self._lines = prefix.count("\n") + 4
        self._limit = limit
        self._keep = keep
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._asked: asyncio.Future[Answer] | None = None
        self._came = bytearray()
        self._head: AnswerHead | None = None
        self._used_at = self._loop.time()
        self._idle: asyncio.TimerHandle | None = None

    @property
    def is_free(self) -> bool:
        """A request can be written now."""
        return self._transport is not None and self._asked is None

    def put(self, uri: str, authorization: str, body: bytes) -> "asyncio.Future[Answer]":
        """Written at once. What comes of it: an answer, `Unusual` or `BrokenOff`. Whoever no longer waits for
        it calls `abort`."""
        assert self._transport is not None, "there is a connection"
        assert self._asked is None, "one at a time"
        head = (
            f"PUT {uri} HTTP/1.1\r\n{self._prefix}{authorization}\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode("ascii")
        assert head.count(b"\n") == self._lines, "no line is smuggled in"
        asked = self._asked = self._loop.create_future()
        self._used_at = self._loop.time()
        self._transport.write(head + body)
        return asked

    def abort(self) -> None:
        """Nobody waits for what may come."""
        if self._idle is not None:
            self._idle.cancel()
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
            self._ended(self)
        self._fail(BrokenOff(began=self._head is not None))

    # -- what the loop tells --

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._idle = self._loop.call_later(self._keep, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        self.abort()

    def data_received(self, data: bytes) -> None:
        asked = self._asked
        if asked is None:
            self.abort()  # it says something that it was not asked for
            return
        came = self._came
        looked_at = max(0, len(came) - len(END) + 1)
        came += data
        if self._head is None:
            end = came.find(END, looked_at)
            if end < 0 and len(came) <= MOST and _BEGINS.startswith(came[: len(_BEGINS)]):
                return
            self._head = read_head(bytes(came[: end + 2])) if 0 <= end <= MOST else None
            if self._head is None:
                self._give_up(Unusual())
                return
            del came[: end + len(END)]
        head = self._head
        if head.length > (self._limit if 200 <= head.status < 300 else MOST_OF_AN_ERROR):
            self._answer(asked, Answer(head, None), stays=False)
        elif len(came) >= head.length:
            self._answer(asked, Answer(head, bytes(came[: head.length])), stays=len(came) == head.length)

    # -- what follows --

    def _answer(self, asked: "asyncio.Future[Answer]", answer: Answer, *, stays: bool) -> None:
        transport = self._transport
        self._asked = self._head = None
        self._came.clear()
        if not asked.done():
            asked.set_result(answer)
        # A server that has answered before it could have read everything may never read the rest.
        if not stays or not answer.head.stays or (transport is None or transport.get_write_buffer_size()):
            self.abort()
        self._used_at = self._loop.time()

    def _give_up(self, problem: Exception) -> None:
        self._fail(problem)
        self.abort()

    def _fail(self, problem: Exception) -> None:
        asked, self._asked = self._asked, None
        if asked is not None and not asked.done():
            asked.set_exception(problem)
            asked.exception()  # whoever asked may have been stopped before it came to wait

    def _look(self) -> None:
        """One that was not used for long is closed, before the other side does it; and one that whoever asked
        has forgotten."""
        keep = self._keep if self._asked is None else 2 * self._keep
        left = self._used_at + keep - self._loop.time()
        if left <= 0:
            self.abort()
        else:
            self._idle = self._loop.call_later(left, self._look)
