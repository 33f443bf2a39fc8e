"""Blocking work in a thread that is waited for even by whoever is cancelled meanwhile."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def uninterrupted(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """As `asyncio.to_thread`, which goes away when it is cancelled and leaves the thread at its work.

    A file that is closed while a thread still writes to it may be another one by then: numbers are used
    again.
    """
    under_way = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    cancelled: asyncio.CancelledError | None = None
    while not under_way.done():
        try:
            await asyncio.wait({under_way})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not under_way.cancelled():
            # What came of it is nobody's any more.
            under_way.exception()
        raise cancelled
    return under_way.result()
