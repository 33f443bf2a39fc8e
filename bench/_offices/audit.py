"""The records of the node: the numbers of calls and answers, and how many of them the rooms have."""

import asyncio
from collections.abc import Mapping
from time import perf_counter
from typing import Final

from bench._harness.child import ChildError
from bench._harness.database import Database, connected

_COUNT: Final = "SELECT kind, count(*) FROM office_records GROUP BY kind"
_UNTOLD: Final = "SELECT count(*) FROM office_records WHERE event_id IS NULL"
_NOT_TAKEN: Final = "SELECT count(*) FROM office_records WHERE event_id = ''"
TIMEOUT: Final = 600.0
LOOK: Final = 0.2
"""Seconds between two polls of the records, which send no notifications."""


async def written_down(behind: Database) -> Mapping[str, int]:
    """Return the number of records of each kind."""
    async with connected(behind.address) as connection:
        return dict(map(tuple, await connection.fetch(_COUNT)))


async def untold(behind: Database) -> int:
    """Return the number of records that are not yet in the rooms."""
    async with connected(behind.address) as connection:
        return int(await connection.fetchval(_UNTOLD))


async def not_taken(behind: Database) -> int:
    """Return the number of records that rooms did not accept, or that another node sends."""
    async with connected(behind.address) as connection:
        return int(await connection.fetchval(_NOT_TAKEN))


async def until_told(behind: Database) -> float:
    """Wait until the rooms have all records; return the seconds that it took."""
    began = perf_counter()
    async with connected(behind.address) as connection:
        while await connection.fetchval(_UNTOLD):
            if perf_counter() > began + TIMEOUT:
                raise ChildError(f"after {TIMEOUT:g} s the rooms have not been told of all calls")
            await asyncio.sleep(LOOK)
    return perf_counter() - began
