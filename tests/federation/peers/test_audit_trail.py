"""The audit trail: what is written at once, and what is written deferred."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from federation.client.errors import PeerRefused, PeerTimedOut
from federation.client.requests import request_target
from federation.peers.actions import Action, action_of
from federation.peers.audit import AuditBuffer, AuditOutcome, Identifiers
from federation.peers.audit_trail import AuditTrail
from federation.transactions.inbox import Inbox
from storage.database import Database
from storage.federation.audit import AuditRow, AuditSearch
from tests.federation.inbox_transactions import NoEdus
from tests.support.graph import graph_on, join, raw
from tests.support.postgres import pool_on
from tests.support.rooms import BOB, public_room

NOW = 1_700_000_000_000
HOUR = 3600.0
PEER = "b.example"
V1, V2 = "/_matrix/federation/v1", "/_matrix/federation/v2"
ROOM = "!room:a.example"


def action(method: str, template: str) -> Action:
    found = action_of(method, template)
    assert found is not None
    return found


SEND_JOIN = action("PUT", f"{V2}/send_join/{{}}/{{}}")
STATE = action("GET", f"{V1}/state/{{}}")
VERSION = action("GET", f"{V1}/version")
TRANSACTION = action("PUT", f"{V1}/send/{{}}")


class Trail(AuditTrail):
    """An audit trail that keeps its reports."""

    def __init__(self, database: Database, **how: Any) -> None:
        self.reported: list[tuple[str, BaseException | None]] = []
        self.has_reported = asyncio.Event()

        def report(sentence: str, error: BaseException | None) -> None:
            self.reported.append((sentence, error))
            self.has_reported.set()

        super().__init__(database, now_ms=lambda: NOW, report=report, **how)

    async def rows(self) -> list[AuditRow]:
        return (await self.search(AuditSearch(), 100))[::-1]

    async def until(self, condition: Callable[[list[AuditRow]], object]) -> list[AuditRow]:
        """Poll, since nothing notifies of new rows."""
        async with asyncio.timeout(30):
            while not condition(rows := await self.rows()):
                await asyncio.sleep(0.01)
        return rows


@asynccontextmanager
async def trail_on(database: Database, **how: Any) -> AsyncIterator[Trail]:
    """Writes nothing deferred until it is closed, unless it gets another interval."""
    trail = Trail(database, **{"flush_interval": HOUR, **how})
    trail.start()
    try:
        yield trail
    finally:
        await trail.close()


async def test_a_change_is_written_before_the_response(database: Database) -> None:
    """With its identifiers."""
    async with trail_on(database) as trail:
        await trail.record_success(PEER, SEND_JOIN, Identifiers(BOB, ROOM, "$e"))
        [row] = await trail.rows()
        when = datetime.fromtimestamp(NOW / 1000, UTC)
        assert row == AuditRow(when, PEER, "in", "send_join", BOB, ROOM, "$e", "done", None)


async def test_a_change_fails_if_it_cannot_be_written(database: Database) -> None:
    """The other server retries, and then it is both done and written."""
    async with pool_on(database.address) as pool:
        trail = Trail(pool)
    with pytest.raises(Exception, match="closed"):
        await trail.record_success(PEER, SEND_JOIN, Identifiers())


async def test_reads_and_refusals_are_written_deferred(database: Database) -> None:
    """Together, and at the latest on `close`."""
    async with trail_on(database) as trail:
        await trail.record_success(PEER, STATE, Identifiers(None, ROOM))
        trail.record_refusal(PEER, SEND_JOIN, Identifiers(BOB, ROOM), AuditOutcome.REFUSED, "403 M_FORBIDDEN: No.\n")
        assert await trail.rows() == []
    rows = await trail.rows()
    assert [(row.act, row.outcome, row.detail) for row in rows] == [
        ("state", "done", None),
        ("send_join", "refused", "403 M_FORBIDDEN: No. "),
    ]


async def test_deferred_entries_are_written_periodically(database: Database) -> None:
    """After each interval."""
    async with trail_on(database, flush_interval=0.001) as trail:
        for number in range(3):
            await trail.record_success(PEER, STATE, Identifiers(subject=str(number)))
            await trail.until(lambda rows, number=number: len(rows) == number + 1)  # type: ignore[misc]


async def test_public_requests_and_transactions_are_not_written(database: Database) -> None:
    """The version is public; a transaction is written in its own commit."""
    async with trail_on(database) as trail:
        await trail.record_success(None, VERSION, Identifiers())
        await trail.record_success(PEER, TRANSACTION, Identifiers())
        trail.record_refusal(None, VERSION, Identifiers(), AuditOutcome.RATE_LIMITED, "192.0.2.1: 429")
    assert [row.outcome for row in await trail.rows()] == ["rate_limited"]


async def test_a_transaction_is_written_in_the_commit_of_its_events(database: Database) -> None:
    """One row in the same commit; none for a repeated one, none if it could not be committed."""
    room = public_room("12", BOB)
    async with trail_on(database) as trail, graph_on(database, room) as here:
        await join(here, room)
        inbox = Inbox(database, here.graph, NoEdus(), audit=trail.transaction_row)
        body = {"pdus": raw(room.say(BOB), room.say(BOB)), "edus": [{}]}
        for _ in range(2):
            await inbox.receive(PEER, "7", body)
        [row] = await trail.rows()
        assert row[1:] == (
            PEER, "in", "transaction", None, room.room_id, "7", "done", "2 accepted; 1 EDUs"
        )  # fmt: skip

        def failing(*_: object) -> None:
            raise OSError("the disk is full")

        message = room.say(BOB)
        with pytest.raises(OSError, match="full"):
            await Inbox(database, here.graph, NoEdus(), audit=failing).receive(PEER, "8", {"pdus": raw(message)})
        assert await here.graph.events([message.event_id]) == {}


async def test_outgoing_requests_are_written(database: Database) -> None:
    """With identifiers and outcome; a change before the caller gets the response."""
    async with trail_on(database) as trail:
        read = request_target(f"{V1}/state/{{roomId}}", roomId=ROOM, query=[("event_id", "$e")])
        await trail.request_ended(PEER, "GET", read, None, PeerTimedOut(PEER, "took too long"))
        send = request_target(f"{V1}/send/{{txnId}}", txnId="9")
        await trail.request_ended(PEER, "PUT", send, b"{}", None)
        other = request_target("/_cis/v1/event/receive")
        await trail.request_ended(PEER, "POST", other, {"secret": "secret"}, None)
        change = request_target(f"{V2}/send_join/{{roomId}}/{{eventId}}", roomId=ROOM, eventId="$e")
        await trail.request_ended(PEER, "PUT", change, {"sender": BOB}, PeerRefused(PEER, 403, "M_X", "No."))
        assert await trail.rows() == []
        await trail.request_ended(PEER, "PUT", change, {"sender": BOB}, None)
        [row] = await trail.rows()
        assert row[1:] == (PEER, "out", "send_join", BOB, ROOM, "$e", "done", None)
    written = {row[2:] for row in await trail.rows()}
    assert written == {
        ("out", "send_join", BOB, ROOM, "$e", "done", None),
        ("out", "send_join", BOB, ROOM, "$e", "refused", "answered 403 M_X: No."),
        ("out", "state", None, ROOM, "$e", "timed_out", "took too long"),
        ("out", "transaction", None, None, "9", "done", None),
        ("out", "other", None, None, None, "done", None),
    }


async def test_an_outgoing_change_succeeds_even_if_it_cannot_be_written(database: Database) -> None:
    """The other server has accepted it: the entry is buffered, and its loss is reported on `close`."""
    async with pool_on(database.address) as pool:
        trail = Trail(pool)
    change = request_target(f"{V2}/send_join/{{roomId}}/{{eventId}}", roomId=ROOM, eventId="$e")
    await trail.request_ended(PEER, "PUT", change, None, None)
    await trail.close()
    sentences = [sentence for sentence, _ in trail.reported]
    assert sentences == [
        "Failed to write the audit. Its entries are buffered and will be written later.",
        "Lost 1 audit entries: the database was unavailable.",
    ]


async def test_entries_are_buffered_during_an_outage(database: Database) -> None:
    """The outage is reported once, and all entries are written after it."""
    async with trail_on(database, flush_interval=0.001) as trail:
        async with database.transaction() as connection:
            await connection.execute("ALTER TABLE audit RENAME TO elsewhere")
        await trail.record_success(PEER, STATE, Identifiers(subject="1"))
        await trail.has_reported.wait()
        await trail.record_success(PEER, STATE, Identifiers(subject="2"))
        async with database.transaction() as connection:
            await connection.execute("ALTER TABLE elsewhere RENAME TO audit")
        rows = await trail.until(lambda rows: len(rows) == 2)
        assert [row.subject for row in rows] == ["1", "2"]
        assert len(trail.reported) == 1
        assert isinstance(trail.reported[0][1], asyncpg.UndefinedTableError)


async def test_dropped_entries_are_counted(database: Database) -> None:
    """In an entry of their own."""
    async with trail_on(database, buffer=AuditBuffer(most=2)) as trail:
        for _ in range(5):
            await trail.record_success(PEER, STATE, Identifiers())
        assert trail.lost == 3
    assert [(row.act, row.outcome, row.detail) for row in await trail.rows()][-1] == (
        "audit",
        "lost",
        "3 entries were dropped because the buffer was full",
    )


async def test_hostile_identifiers_are_stored(database: Database) -> None:
    """NUL, surrogates and long ids are replaced or cut."""
    async with trail_on(database) as trail:
        hostile = request_target(f"{V1}/state/{{roomId}}", roomId="!\0" + "x" * 1000)
        await trail.request_ended("\0" + "a" * 1000, "GET", hostile, None, PeerTimedOut("a", "\0\ud800"))
    [row] = await trail.rows()
    assert row.room_id is not None
    assert row.room_id.startswith("!\ufffdx")
    assert row.detail == "  "


async def test_old_entries_are_pruned(database: Database) -> None:
    """By their age in days."""
    async with trail_on(database) as trail:
        trail._now_ms = lambda: NOW - 2 * 86_400_000
        await trail.record_success(PEER, SEND_JOIN, Identifiers(subject="old"))
        trail._now_ms = lambda: NOW
        await trail.record_success(PEER, SEND_JOIN, Identifiers(subject="new"))
        assert await trail.prune(3) == 0
        assert await trail.prune(1) == 1
        assert [row.subject for row in await trail.rows()] == ["new"]


async def test_the_audit_is_searched_by_user_room_and_time(database: Database) -> None:
    """For `palaver audit`."""
    async with trail_on(database) as trail:
        await trail.record_success(PEER, SEND_JOIN, Identifiers(BOB, ROOM, "1"))
        await trail.record_success("c.example", SEND_JOIN, Identifiers(None, ROOM, "2"))
        assert [row.subject for row in await trail.search(AuditSearch(room_id=ROOM), 1)] == ["2"]
        assert [row.subject for row in await trail.search(AuditSearch(user_id=BOB), 9)] == ["1"]
        later = datetime.fromtimestamp(NOW / 1000, UTC) + timedelta(seconds=1)
        assert await trail.search(AuditSearch(since=later), 9) == []
