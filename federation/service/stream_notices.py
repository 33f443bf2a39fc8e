"""What the processes of a node tell each other: that something was committed that readers of the stream have
to read. A process that is alone on its database, as nearly every one is, tells nobody."""

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from functools import partial
from typing import Final

from storage import room_stream
from storage.connecting import BROKEN, ConnectionLost
from storage.database import Connection, Database

ASKED_EVERY: Final = 1.0
"""Seconds between two looks whether there is another process, and before a connection is made anew."""


class StreamNotices:
    """`heard` is called when another process may have committed something."""

    def __init__(self, database: Database, heard: Callable[[], None]) -> None:
        self._database = database
        self._report = heard
        self._name = secrets.token_hex(8)
        self._to_tell = asyncio.Event()
        # Known only while this process is listening.
        self._is_alone = False
        self._count_heard = 0
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_alone(self) -> bool:
        """Whether nobody else listens, as far as is known here."""
        return self._is_alone

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._tell_for_ever()), asyncio.create_task(self._hear_for_ever())]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def tell(self) -> None:
        """Something was committed here."""
        if not self._is_alone:
            self._to_tell.set()

    async def _tell_for_ever(self) -> None:
        """One notice for all that is committed while the one before is on its way."""
        while True:
            await self._to_tell.wait()
            await asyncio.sleep(
                0
            )  # after all that waits here: the other process has its own way to go anyhow
            self._to_tell.clear()
            with contextlib.suppress(ConnectionLost):
                await self._database.look(partial(room_stream.notify, process=self._name))

    async def _hear_for_ever(self) -> None:
        while True:
            with contextlib.suppress(ConnectionLost):
                async with self._database.connection() as connection:
                    await self._hear(connection)
            await asyncio.sleep(ASKED_EVERY)

    async def _hear(self, connection: Connection) -> None:
        """Until the connection ends."""
        ended = asyncio.Event()
        connection.add_termination_listener(lambda _: ended.set())
        try:
            # In this order: whoever asks from now on knows of this process; whoever has asked before hears of
            # it, and tells what it has kept to itself until then.
            await room_stream.lock_listener(connection)
            await connection.add_listener(room_stream.CHANNEL, self._heard)
            self._report()  # for what was missed until now
            await room_stream.notify(connection, self._name)
            while not ended.is_set():
                await self._look_for_others(connection)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(ASKED_EVERY):
                        await ended.wait()
        finally:
            self._is_alone = False
            if not connection.is_closed():
                # One that breaks at this very moment must not hide that this process is to stop.
                with contextlib.suppress(*BROKEN):
                    await connection.remove_listener(room_stream.CHANNEL, self._heard)

    async def _look_for_others(self, connection: Connection) -> None:
        before = self._count_heard
        is_alone = await room_stream.is_only_listener(connection)
        # Who was heard while it was asked may have come since.
        self._is_alone = is_alone and self._count_heard == before

    def _heard(self, connection: object, pid: int, channel: str, process: object) -> None:
        if process == self._name:
            return  # what this one has written it knows already
        self._count_heard += 1
        if self._is_alone:
            self._is_alone = False
            self._to_tell.set()
        self._report()
