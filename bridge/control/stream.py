"""Commands of the control socket that answer with a stream of JSON objects, one on each line.

The last line has the reason for the end of the stream. A stream that ends without it has lost its node.

A command produces its next object when the client has read the previous one, so a slow client does not cause
buffering. When the client disconnects, the command is cancelled. When the node stops, the last line says so.
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
"""Maximum bytes of a line. An answer of one megabyte fits even if every character is escaped."""
STOPPING: Final = "stopping"
DONE: Final = "done"


@dataclass(frozen=True, slots=True)
class Item:
    """An object of the command's answer."""

    value: dict[str, Any]


@dataclass(frozen=True, slots=True)
class End:
    """The last line. `reason` is `done`, or `stopping` if the node ended the stream."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failure:
    """The last line of a command that failed."""

    problem: str
    advice: str


@dataclass(frozen=True, slots=True)
class InvalidLine:
    """A line that is not of this format: the other side is not a node, or has another version."""


Line: TypeAlias = Item | End | Failure | InvalidLine


def item_line(value: Mapping[str, Any]) -> bytes | None:
    """Encode an object, or return None if it is too long."""
    line = _line({"item": value})
    return line if len(line) <= LONGEST else None


def end_line(reason: str) -> bytes:
    return _line({"end": reason})


def failure_line(problem: str, advice: str) -> bytes:
    return _line({"error": {"problem": problem, "advice": advice}})


def _line(value: Mapping[str, Any]) -> bytes:
    # Escaped to ASCII, because text may contain lone surrogates, which UTF-8 cannot encode.
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


class LineParser:
    """Splits received bytes into lines and parses them. The caller stops at the first `InvalidLine`."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def add(self, data: bytes) -> Iterator[Line]:
        searched = len(self._rest)
        self._rest += data
        while (end := self._rest.find(b"\n", searched)) >= 0:
            line = bytes(self._rest[:end])
            del self._rest[: end + 1]
            searched = 0
            yield _parse(line)
        if len(self._rest) > LONGEST:
            self._rest.clear()
            yield InvalidLine()


def _parse(line: bytes) -> Line:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return InvalidLine()
    match value:
        case {"item": dict(item)}:
            return Item(item)
        case {"end": str(reason)}:
            return End(reason)
        case {"error": {"problem": str(problem), "advice": str(advice)}}:
            return Failure(problem, advice)
    return InvalidLine()


MAX_STREAMS: Final = 200
"""Maximum number of simultaneous streams."""
LAST_LINE_TIMEOUT: Final = 1.0
"""Seconds within which the client must read the last line."""

Items: TypeAlias = AsyncGenerator[Mapping[str, Any], None]
Stream = Callable[[Mapping[str, Any]], Awaitable[Items]]
"""A streaming command. A `LocalError` before its first object is answered like that of any other command."""


class ControlStreams:
    """Serves streaming commands. `stop` ends all of them, and no new ones are accepted after it."""

    def __init__(self) -> None:
        self._pumps = BackgroundTasks()
        self._answering: set[asyncio.Future[None]] = set()
        self._is_stopping = False

    async def stop(self) -> None:
        """Return when every client has received its last line, or `LAST_LINE_TIMEOUT` has passed for it."""
        self._is_stopping = True
        await self._pumps.close()
        await asyncio.gather(*self._answering, return_exceptions=True)

    async def answer(self, request: web.Request, stream: Stream, given: Mapping[str, Any]) -> web.StreamResponse:
        """Serve the stream. aiohttp cancels this handler when the client disconnects."""
        if self._is_stopping or self._pumps.running >= MAX_STREAMS:
            raise LocalError(
                f"The node already serves {MAX_STREAMS} streaming commands."
                if not self._is_stopping
                else "The node is stopping.",
                "Try again later.",
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
                raise LocalError("The next object of the answer is too long.", "Request less, or only this object.")
            await response.write(line)


async def _end(request: web.Request, response: web.StreamResponse, line: bytes) -> None:
    try:
        async with asyncio.timeout(LAST_LINE_TIMEOUT):
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
    return failure_line("The command failed in the node.", "The node's log has the reason. Please report it.")
