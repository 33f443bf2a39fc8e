"""One after the other, for each office by itself."""

import asyncio


class Turns:
    """Who came first is first. Nothing is kept of an office for which nobody waits."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    def of(self, office_id: str) -> "Turn":
        return Turn(self._locks, office_id)


class Turn:
    def __init__(self, turns: dict[str, tuple[asyncio.Lock, int]], office_id: str) -> None:
        self._turns = turns
        self._office_id = office_id

    async def __aenter__(self) -> None:
        lock, waiting = self._turns.get(self._office_id, (asyncio.Lock(), 0))
        self._turns[self._office_id] = lock, waiting + 1
        try:
            await lock.acquire()
        except BaseException:
            self._give_back(lock)
            raise

    async def __aexit__(self, *_: object) -> None:
        lock, _waiting = self._turns[self._office_id]
        lock.release()
        self._give_back(lock)

    def _give_back(self, lock: asyncio.Lock) -> None:
        _, waiting = self._turns[self._office_id]
        if waiting == 1:
            del self._turns[self._office_id]
        else:
            self._turns[self._office_id] = lock, waiting - 1
