"""An unreliable link from one server to another.

It is a proxy on loopback that parses enough HTTP to break a connection in the middle of a request, to lose a
response, or to deliver a request twice. A link has one direction: two servers need two of them, each with its
own faults.
"""

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from enum import StrEnum
from random import Random
from typing import Final

MOST: Final = 1 << 24
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)


class Trouble(StrEnum):
    """A fault that a request can meet."""

    LOST = "nothing of it arrives"
    HALF_REQUEST = "half of it arrives"
    LOST_ANSWER = "it is answered, and the answer does not come back"
    HALF_ANSWER = "half of the answer comes back"
    TWICE = "it arrives a second time once it was answered, and that answer counts"
    AT_ONCE = "it arrives twice at the same moment, and one of the answers counts"
    AGAIN = "it arrives once more when later ones have"


STORM: Final[Mapping[Trouble, float]] = dict.fromkeys(Trouble, 0.08)
"""A share of the requests for each trouble; a little less than half get through unharmed."""


class Broken(Exception):
    """The connection is cut here."""


_ENDED: Final = (Broken, OSError, asyncio.IncompleteReadError)


class BadLink:
    """A proxy to a port on loopback. `chance` decides which requests meet which fault."""

    def __init__(self, to_port: int, chance: Random) -> None:
        self.port = 0
        self.befell: Counter[Trouble] = Counter()
        self._to_port = to_port
        self._chance = chance
        self._is_cut = False
        self._longest = 0.0
        self._shares: Mapping[Trouble, float] = {}
        self._of = b""
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._repeating: set[asyncio.Task[None]] = set()
        self._to_repeat: list[bytes] = []

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=MOST)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._server is not None, "it was started"
        self.cut()
        self._server.close()
        # Cut off, none of them has anything left to wait for.
        await asyncio.gather(*self._serving, *self._repeating)
        await self._server.wait_closed()

    # -- what can be wrong with it --

    def cut(self) -> None:
        """Break all connections, and let nothing through until `heal`."""
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    @contextlib.contextmanager
    def broken_off(self) -> Iterator[None]:
        """Cut the link within the context, and restore it afterwards."""
        was_cut = self._is_cut
        self.cut()
        try:
            yield
        finally:
            self._is_cut = was_cut

    def heal(self) -> None:
        """Remove all faults, and deliver the pending duplicates."""
        self._is_cut = False
        self._longest = 0.0
        self._shares = {}
        while self._to_repeat:
            self._repeat()

    def delay(self, longest: float) -> None:
        """Delay each request and each response by a random time in seconds, so that they overtake each
        other."""
        self._longest = longest

    def befall(self, shares: Mapping[Trouble, float], of: str = "") -> None:
        """Apply each fault to this share of the requests whose target contains the text."""
        self._shares = shares
        self._of = of.encode()

    def duplicate(self, share: float = 1.0) -> None:
        """Duplicate requests in all the ways in which a request can arrive more than once."""
        self.befall(dict.fromkeys((Trouble.TWICE, Trouble.AT_ONCE, Trouble.AGAIN), share / 3))

    def lose_answers(self, share: float = 1.0) -> None:
        self.befall({Trouble.LOST_ANSWER: share / 2, Trouble.HALF_ANSWER: share / 2})

    def is_quiet(self) -> bool:
        """Return whether all pending duplicates were delivered."""
        return not self._repeating and not self._to_repeat

    # -- how it is done --

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection of the requesting server."""
        task = asyncio.current_task()
        assert task is not None, "a connection is served by a task"
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        with self._open(writer), contextlib.suppress(*_ENDED):
            while not self._is_cut:
                await self._carry(await message(reader), writer)

    async def _carry(self, request: bytes, back: asyncio.StreamWriter) -> None:
        trouble = self._next_trouble() if self._of in request.partition(b"\r\n")[0] else None
        await self._hold_up()
        if trouble is Trouble.LOST:
            raise Broken
        if trouble is Trouble.HALF_REQUEST:
            await self._deliver(request[: len(request) // 2], is_whole=False)
        answer = await (self._deliver_at_once if trouble is Trouble.AT_ONCE else self._deliver)(request)
        if trouble is Trouble.TWICE:
            answer = await self._deliver(request)
        if self._to_repeat and self._chance.random() < 0.5:
            self._repeat()
        if trouble is Trouble.AGAIN:
            self._to_repeat.append(request)
            if not self._shares:  # healed meanwhile, so that perhaps nothing comes that it could follow
                self._repeat()
        await self._hold_up()
        if trouble is Trouble.LOST_ANSWER:
            raise Broken
        back.write(answer[: len(answer) // 2] if trouble is Trouble.HALF_ANSWER else answer)
        await back.drain()
        if trouble is Trouble.HALF_ANSWER:
            raise Broken

    def _next_trouble(self) -> Trouble | None:
        at = self._chance.random()
        for trouble, share in self._shares.items():
            if at < share:
                self.befell[trouble] += 1
                return trouble
            at -= share
        return None

    async def _hold_up(self) -> None:
        if self._longest:
            await asyncio.sleep(self._longest * self._chance.random())
        if self._is_cut:
            raise Broken

    async def _deliver(self, request: bytes, *, is_whole: bool = True) -> bytes:
        """Forward the request and return the response."""
        async with self._onwards() as (reader, writer):
            writer.write(request)
            await writer.drain()
            if not is_whole:
                raise Broken
            return await message(reader)

    async def _deliver_at_once(self, request: bytes) -> bytes:
        both = await asyncio.gather(self._deliver(request), self._deliver(request), return_exceptions=True)
        answer = self._chance.choice(both)
        if isinstance(answer, BaseException):
            raise Broken from answer
        return answer

    def _repeat(self) -> None:
        request = self._to_repeat.pop(self._chance.randrange(len(self._to_repeat)))

        async def deliver() -> None:
            with contextlib.suppress(*_ENDED):
                await self._deliver(request)

        task = asyncio.create_task(deliver())
        self._repeating.add(task)
        task.add_done_callback(self._repeating.discard)

    @contextlib.asynccontextmanager
    async def _onwards(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Open a connection to the requested server."""
        if self._is_cut:
            raise Broken
        reader, writer = await asyncio.open_connection("127.0.0.1", self._to_port, limit=MOST)
        with self._open(writer):
            if self._is_cut:
                raise Broken
            yield reader, writer

    @contextlib.contextmanager
    def _open(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        """Register a connection: a cut closes it, and so does the end of the block."""
        self._writers.add(writer)
        try:
            yield
        finally:
            self._writers.discard(writer)
            writer.transport.abort()


async def message(reader: asyncio.StreamReader) -> bytes:
    """Return a request or a response, head and body, as received."""
    head = await reader.readuntil(b"\r\n\r\n")
    assert not _CHUNKED.search(head), "no server here sends in chunks"
    length = _LENGTH.search(head)
    return head + await reader.readexactly(int(length[1]) if length else 0)
