"""Keeps those figures of a guest up to date that have to be asked of the database."""

import asyncio
from contextlib import suppress
from typing import Final

from appservice.service.guest import Guest
from bridge.guest_metrics import GuestMetrics
from storage.connecting import ConnectionLost
from storage.guest_figures import count

EVERY: Final = 10.0
"""Seconds: as often as anybody scrapes."""


async def keep_figures(guest: Guest, metrics: GuestMetrics) -> None:
    """For ever, beginning at once."""
    while True:
        # That the database is away is shown by others.
        with suppress(ConnectionLost):
            await show(guest, metrics)
        await asyncio.sleep(EVERY)


async def show(guest: Guest, metrics: GuestMetrics) -> None:
    for reader, lag in (await guest.rooms.lags()).items():
        metrics.lag.labels(reader).set(lag)
    figures = await guest.database.look(count)
    metrics.ghosts.set(figures.ghosts)
    metrics.rooms.set(figures.rooms)
