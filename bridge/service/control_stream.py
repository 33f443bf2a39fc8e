"""Commands of the control socket that answer with one JSON object after the other.

Nothing is produced ahead of what is read: a command waits until its asker has taken what came before, and so
keeps no more for one that is slow than it has chosen to. When the asker goes away, the command is ended at
once; when the node stops, the asker is told so in a last line.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from aiohttp import web

from bridge.stream_lines import DONE, STOPPING, end_line, failure_line, item_line
from storage.errors import LocalError

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
        self._pumps: set[asyncio.Task[None]] = set()
        self._answering: set[asyncio.Future[None]] = set()
        self._is_stopping = False

    async def stop(self) -> None:
        """Returns when each asker has had its last line, or has not taken it."""
        self._is_stopping = True
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)

    async def answer(
        self, request: web.Request, stream: Stream, given: Mapping[str, Any]
    ) -> web.StreamResponse:
        """The handler that calls it is cancelled when the asker goes away."""
        if self._is_stopping or len(self._pumps) >= MOST:
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
        pump = asyncio.create_task(_pump(request, response, items))
        self._pumps.add(pump)
        if self._is_stopping:
            pump.cancel()
        try:
            await asyncio.wait({pump})
        finally:
            self._pumps.discard(pump)
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
