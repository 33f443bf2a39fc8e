"""The write throughput of Postgres: commits of one row, on one and on many connections, and of a thousand
rows."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import asyncpg

from bench._harness.database import Database, connected, database
from bench._harness.measurement import Measurement, rate
from bench._harness.repeat import repeat_async
from bench._harness.row import Row, Section, Side

CONNECTIONS = 16
BATCH = 1_000
_BODY = "r" * 220

# The statements stand here, and not in a .sql file, because they are what the rows below measure.
_CREATE = "CREATE TABLE written (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text NOT NULL)"
_EMPTY = "TRUNCATE written"
_INSERT = "INSERT INTO written (body) VALUES ($1)"
_INSERT_MANY = "INSERT INTO written (body) SELECT unnest($1::text[])"


@dataclass(frozen=True, slots=True)
class Writers:
    """A database with one table, and connections that write to it."""

    database: Database
    connections: "list[asyncpg.Connection[asyncpg.Record]]"


@asynccontextmanager
async def writers() -> AsyncIterator[Writers]:
    """Use a new database."""
    async with database() as served, writing_into(served) as subject:
        yield subject


@asynccontextmanager
async def writing_into(served: Database) -> AsyncIterator[Writers]:
    """Connect once; connecting is in no figure."""
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(connected(served.address)) for _ in range(CONNECTIONS)]
        await opened[0].execute(_CREATE)
        yield Writers(served, opened)


async def single_rows(subject: Writers, seconds: float, *, connections: int) -> Measurement:
    """One row per commit on each of this many connections."""
    await subject.connections[0].execute(_EMPTY)
    writing = subject.connections[:connections]
    return await repeat_async(seconds, *(partial(each.execute, _INSERT, _BODY) for each in writing))


async def unnested(subject: Writers, seconds: float) -> Measurement:
    """A thousand rows per commit in one statement, as an array."""
    connection, bodies = subject.connections[0], [_BODY] * BATCH
    await connection.execute(_EMPTY)
    return _in_rows(await repeat_async(seconds, partial(connection.execute, _INSERT_MANY, bodies)))


async def copied(subject: Writers, seconds: float) -> Measurement:
    """A thousand rows per commit through COPY."""
    connection, records = subject.connections[0], [(_BODY,)] * BATCH
    await connection.execute(_EMPTY)
    copy = partial(connection.copy_records_to_table, "written", records=records, columns=["body"])
    return _in_rows(await repeat_async(seconds, copy))


def _in_rows(batches: Measurement) -> Measurement:
    return rate(batches.operations * BATCH, batches.seconds)


_alone = partial(single_rows, connections=1)
_together = partial(single_rows, connections=CONNECTIONS)
# The harder of the two opponents: what single rows reach when many write them at once.
_ONE_BY_ONE = Side(f"1 per commit, {CONNECTIONS} connections", _together)

SECTION = Section(
    setup=writers,
    remarks=lambda subject: subject.database.remarks,
    rows=[
        Row(
            name="commits",
            what="commits of one row",
            ours=Side(f"{CONNECTIONS} connections", _together),
            other=Side("1 connection", _alone),
        ),
        Row(
            name="rows-unnest",
            what="rows written",
            ours=Side(f"{BATCH:,} per commit by unnest", unnested),
            other=_ONE_BY_ONE,
        ),
        Row(
            name="rows-copy", what="rows written", ours=Side(f"{BATCH:,} per commit by COPY", copied), other=_ONE_BY_ONE
        ),
    ],
)
