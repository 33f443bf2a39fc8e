"""Commands of the control socket that answer with one JSON object after the other.

Nothing is produced ahead of what is read: a command waits until its asker has taken what came before, and so
keeps no more for one that is slow than it has chosen to. When the asker goes away, the command is ended at
once; when the node stops, the asker is told so in a last line.

The lines of a stream on the control socket: JSON objects, and a last line that says how it ended.

A stream that breaks off without a last line has lost its node.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from aiohttp import web

from storage.concurrency import BackgroundTasks
from storage.errors import LocalError

LONGEST: Final = 16 * 1024 * 1024
"""Bytes of one line. An answer of a megabyte has less, with each of its characters escaped."""
STOPPING: Final = "stopping"
DONE: Final = "done"


@dataclass(frozen=True, slots=True)
class Item:
    """What the command has to say."""

    value: dict[str, Any]


@dataclass(frozen=True, slots=True)
class End:
    """`because` is `done`, or `stopping` when it was the node that ended it."""

    because: str


@dataclass(frozen=True, slots=True)
class Failure:
    problem: str
    advice: str


@dataclass(frozen=True, slots=True)
class NoLine:
    """Whoever speaks there is no node, or of another version."""


Line: TypeAlias = Item | End | Failure | NoLine


def item_line(value: Mapping[str, Any]) -> bytes | None:
    """None for one that is too long."""
    line = _line({"item": value})
    return line if len(line) <= LONGEST else None


def end_line(because: str) -> bytes:
    return _line({"end": because})


def failure_line(problem: str, advice: str) -> bytes:
    return _line({"error": {"problem": problem, "advice": advice}})


def _line(value: Mapping[str, Any]) -> bytes:
    # Everything but ASCII is escaped: it may hold halves of characters, which UTF-8 cannot write.
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


class Lines:
    """Bytes in, lines out. What follows a line that is none is not read."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def add(self, data: bytes) -> Iterator[Line]:
        looked_at = len(self._rest)
        self._rest += data
        while (end := self._rest.find(b"\n", looked_at)) >= 0:
            line = bytes(self._rest[:end])
            del self._rest[: end + 1]
            looked_at = 0
            yield _read(line)
        if len(self._rest) > LONGEST:
            self._rest.clear()
            yield NoLine()


def _read(line: bytes) -> Line:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return NoLine()
    match said:
        case {"item": dict(value)}:
            return Item(value)
        case {"end": str(because)}:
            return End(because)
        case {"error": {"problem": str(problem), "advice": str(advice)}}:
            return Failure(problem, advice)
    return NoLine()


MOST: Final = 200
"""Streams at the same time."""
LAST_WORDS: Final = 1.0
"""Seconds that an asker has to take the last line."""

Items: TypeAlias = AsyncGenerator[Mapping[str, Any], None]
Stream = Callable[[Mapping[str, Any]], Awaitable[Items]]
"""What it refuses before its first object is answered as that of any other command."""


class ControlStreams:
    """Ended by `stop`, after which there are no new ones."""

    def __init__(self) -> None:
        self._pumps = BackgroundTasks()
        self._answering: set[asyncio.Future[None]] = set()
        self._is_stopping = False

    async def stop(self) -> None:
        """Returns when each asker has had its last line, or has not taken it."""
        self._is_stopping = True
        await self._pumps.close()
        await asyncio.gather(*self._answering, return_exceptions=True)

    async def answer(
        self, request: web.Request, stream: Stream, given: Mapping[str, Any]
    ) -> web.StreamResponse:
        """The handler that calls it is cancelled when the asker goes away."""
        if self._is_stopping or self._pumps.running >= MOST:
            raise LocalError(
                "The node follows as many commands as it may already."
                if not self._is_stopping
                else "The node is stopping.",
                "Try again a little later.",
            )
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answering.add(answered)
        try:
            return await self._answer(request, await stream(given))
        finally:
            self._answering.discard(answered)
            answered.set_result(None)

    async def _answer(self, request: web.Request, items: Items) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        pump = self._pumps.spawn("stream to the operator", _pump(request, response, items), reports=False)
        try:
            await asyncio.wait({pump})
        finally:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
        await _end(request, response, _last_line(pump))
        error = None if pump.cancelled() else pump.exception()
        if error is not None and not isinstance(error, LocalError | ConnectionError):
            raise error  # the server logs it
        return response


async def _pump(request: web.Request, response: web.StreamResponse, items: Items) -> None:
    async with contextlib.aclosing(items):
        await response.prepare(request)
        async for item in items:
            line = item_line(item)
            if line is None:
                raise LocalError(
                    "What comes next is too long to be shown in one piece.", "Ask for less, or for it alone."
                )
            await response.write(line)


async def _end(request: web.Request, response: web.StreamResponse, line: bytes) -> None:
    try:
        async with asyncio.timeout(LAST_WORDS):
            if not response.prepared:
                await response.prepare(request)
            await response.write(line)
            await response.write_eof()
    except (TimeoutError, ConnectionError):
        if request.transport is not None:
            request.transport.abort()


def _last_line(pump: "asyncio.Task[None]") -> bytes:
    if pump.cancelled():
        return end_line(STOPPING)
    match pump.exception():
        case None:
            return end_line(DONE)
        case LocalError(problem=problem, advice=advice):
            return failure_line(problem, advice)
    return failure_line("The node could not go on with that.", "Its log says why; please report that.")
