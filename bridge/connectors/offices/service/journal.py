"""Writes down what happens, before anybody is answered: all that came while one commit was under way goes
into the next one.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from storage.database import Database
from storage.office_records import NewRecord, insert_records

MOST_AT_ONCE = 1_000


class Journal:
    """It is closed at the end; what was given before is written."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[tuple[NewRecord, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def write(self, record: NewRecord) -> None:
        """When it returns, it has been committed. Raises `ConnectionLost`."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((record, written))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        await written

    async def close(self) -> None:
        if self._writing is not None:
            with suppress(asyncio.CancelledError):
                await self._writing

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[:MOST_AT_ONCE]
                del self._waiting[:MOST_AT_ONCE]
                await self._write(batch)
        finally:
            self._writing = None

    async def _write(self, batch: Sequence[tuple[NewRecord, "asyncio.Future[None]"]]) -> None:
        try:
            # A single statement is a transaction: BEGIN and COMMIT would be two round trips more.
            async with self._database.statements() as connection:
                await insert_records(connection, [record for record, _ in batch])
        except Exception as error:
            for _, written in batch:
                if not written.done():
                    written.set_exception(error)
            return
        for _, written in batch:
            if not written.done():
                written.set_result(None)
