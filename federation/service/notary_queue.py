"""One query to a notary at a time: whatever is needed while it is under way goes into the next one."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from typing import Final

from federation.key_documents import KeyDocument
from federation.key_needs import KeyNeed

MOST_SERVERS: Final = 100

Needs = Mapping[str, Sequence[KeyNeed]]
Ask = Callable[[Needs], Awaitable[Mapping[str, Sequence[KeyDocument]]]]


class NotaryQueue:
    """What `ask` could not learn it leaves out. When it raises, that is an error of this machine."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._waiting: dict[str, tuple[Sequence[KeyNeed], asyncio.Future[Sequence[KeyDocument]]]] = {}
        self._worker: asyncio.Task[None] | None = None

    async def documents(self, server: str, needs: Sequence[KeyNeed]) -> Sequence[KeyDocument]:
        """What the notaries have. Nobody else may be waiting for the same server."""
        assert server not in self._waiting, "who asks for one server asks once"
        answer: asyncio.Future[Sequence[KeyDocument]] = asyncio.get_running_loop().create_future()
        self._waiting[server] = needs, answer
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        try:
            return await answer
        finally:
            self._waiting.pop(server, None)

    async def close(self) -> None:
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)

    async def _work(self) -> None:
        while self._waiting:
            batch = dict(islice(self._waiting.items(), MOST_SERVERS))
            for server in batch:
                del self._waiting[server]
            found: Mapping[str, Sequence[KeyDocument]] = {}
            problem: Exception | None = None
            try:
                found = await self._ask({server: needs for server, (needs, _) in batch.items()})
            except Exception as error:
                problem = error
            for server, (_, answer) in batch.items():
                if answer.done():
                    continue  # nobody waits any more
                if problem is not None:
                    answer.set_exception(problem)
                else:
                    answer.set_result(found.get(server, ()))
