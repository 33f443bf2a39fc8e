"""Transactions are processed once, one at a time per origin, and committed before the response."""

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest

from federation.events import Pdu
from federation.matrix.errors import MatrixError
from federation.transactions.inbox import Inbox
from storage.database import Database
from tests.federation.inbox_transactions import NoEdus, in_transactions
from tests.support.graph import graph_on, join, raw, streamed
from tests.support.postgres import pool_on
from tests.support.rooms import ALICE, BOB, public_room

ROOT = Path(__file__).parents[3]
PROCESSED = {"io.palaver.processed": True}
NOTHING = b'{"io.palaver.processed":true,"pdus":{}}'


@dataclass
class Edus:
    """Records the EDUs that it receives; can be made to fail or to block."""

    received: list[Any] = field(default_factory=list)
    failing: bool = False
    waiting: asyncio.Event | None = None

    async def receive(self, origin: str, edus: Sequence[Any]) -> None:
        if self.waiting is not None:
            await self.waiting.wait()
        if self.failing:
            raise OSError("the disk is full")
        self.received += [(origin, edu) for edu in edus]


async def test_the_response_has_a_result_for_each_event(database: Database) -> None:
    """The status is 200 even if all events are rejected; EDUs are handled."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        good = room.say(BOB)
        bad = room.propose("m.room.topic", "@nobody:b.example", {}, "")
        edus = Edus()
        body = {"pdus": raw(bad, good), "edus": [{"edu_type": "m.typing"}]}
        answer = json.loads(await Inbox(database, here.graph, edus).receive("b.example", "1", body))
        assert answer["pdus"][good.event_id] == {}
        assert answer["pdus"][bad.event_id]["error"].startswith("rule ")
        assert edus.received == [("b.example", {"edu_type": "m.typing"})]


async def test_a_repeated_transaction_gets_the_stored_response(database: Database) -> None:
    """Origin and id identify it, whatever its content. Another process returns the same response, including
    `io.palaver.processed`."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        inbox, edus = Inbox(database, here.graph, NoEdus()), Edus()
        first = await inbox.receive("b.example", "1", {"pdus": raw(room.say(BOB))})
        again = Inbox(database, here.graph, edus)
        other = room.say(BOB)
        assert await again.receive("b.example", "1", {"pdus": raw(other), "edus": [{}]}) == first
        assert edus.received == []
        assert await here.graph.events([other.event_id]) == {}
        assert json.loads(await again.receive("a.example", "1", {"pdus": raw(other)})) == {
            **PROCESSED,
            "pdus": {other.event_id: {}},
        }


async def test_a_repeated_transaction_changes_nothing(database: Database) -> None:
    """Its events are not stored, be they at the head of the room or behind a gap."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        inbox = Inbox(database, here.graph, NoEdus())
        first = await inbox.receive("b.example", "1", {"pdus": raw(room.say(BOB))})
        others = [room.say(BOB) for _ in range(3)]
        for body in ({"pdus": raw(others[0])}, {"pdus": raw(others[2])}, {}):
            assert await inbox.receive("b.example", "1", body) == first
        assert await here.graph.events([other.event_id for other in others]) == {}
        again = json.loads(await inbox.receive("b.example", "2", {"pdus": raw(*others, others[0])}))
        assert again["pdus"] == {other.event_id: {} for other in others}


@pytest.mark.parametrize("number", [1, 2])
async def test_the_latest_events_are_repeated_after_a_restart(database: Database, number: int) -> None:
    """A new process that has not loaded the events accepts them again from the same server and from another
    one."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here, pool_on(database.address) as pool:
        await join(here, room)
        said = [room.say(BOB) for _ in range(number)]
        first = await Inbox(database, here.graph, NoEdus()).receive("b.example", "1", {"pdus": raw(*said)})
        async with graph_on(pool, room) as again:
            inbox = Inbox(pool, again.graph, NoEdus())
            assert await inbox.receive("b.example", "1", {"pdus": raw(*said)}) == first
        async with graph_on(pool, room) as again:
            other = json.loads(await Inbox(pool, again.graph, NoEdus()).receive("a.example", "1", {"pdus": raw(*said)}))
            assert other["pdus"] == {one.event_id: {} for one in said}


async def test_messages_at_the_head_of_a_room_need_no_transaction(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One statement writes them, also if this process's cached room is outdated: the room is read then. A
    state event, a repeated event, or an event after unknown ones needs a database transaction."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here, pool_on(database.address) as pool:
        await join(here, room)
        begun: list[bool] = []
        transaction = database.transaction

        def note(**options: Any) -> Any:
            if not options.get("readonly"):
                begun.append(True)
            return transaction(**options)

        monkeypatch.setattr(database, "transaction", note)
        inbox = Inbox(database, here.graph, NoEdus())

        async def transactions_for(transaction_id: str, *pdus: Pdu) -> int:
            begun.clear()
            body = {"pdus": raw(*pdus)}
            given = json.loads(await inbox.receive("b.example", transaction_id, body))["pdus"]
            assert given == {pdu.event_id: {} for pdu in pdus}
            events = await here.graph.events([pdu.event_id for pdu in pdus])
            assert list(events) == [pdu.event_id for pdu in pdus]
            view = await here.graph.room(room.room_id)
            assert view is not None
            assert view.forward_extremities == (pdus[-1].event_id,)
            return len(begun)

        begin = await here.graph.stream.last_position()
        one, two, three = room.say(BOB), room.say(BOB), room.say(ALICE)
        assert await transactions_for("1", one) == 0
        assert await transactions_for("2", two, three) == 0
        assert await transactions_for("3", three) == 1
        topic = room.propose("m.room.topic", ALICE, {"topic": "Soup"}, "")
        room.add(topic)
        assert await transactions_for("4", topic) == 1
        async with graph_on(pool, room) as there:
            four = room.say(BOB)
            other = Inbox(pool, there.graph, NoEdus())
            assert json.loads(await other.receive("b.example", "5", {"pdus": raw(four)}))["pdus"]
        five = room.say(BOB)
        assert await transactions_for("6", five) == 1
        six = room.say(BOB)
        assert await transactions_for("7", six) == 0
        read = await streamed(here.graph, begin)
        assert read == [one, two, three, topic, four, five, six]


@pytest.mark.parametrize("number", [1, 2])
async def test_a_database_connection_lost_while_receiving(database: Database, number: int) -> None:
    """The events are received all the same, once."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        begin = await here.graph.stream.last_position()
        answered: list[Any] = []

        async def end_all_others() -> None:
            async with pool_on(database.address) as pool, pool.connection() as other:
                await other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )

        def audit(*about: Any) -> None:
            answered.append(about)
            if len(answered) == 1:
                # The event loop is blocked meanwhile.
                with ThreadPoolExecutor(1) as thread:
                    thread.submit(asyncio.run, end_all_others()).result()

        said = [room.say(BOB) for _ in range(number)]
        inbox = Inbox(database, here.graph, NoEdus(), audit=audit)
        answer = await inbox.receive("b.example", "1", {"pdus": raw(*said)})
        assert json.loads(answer)["pdus"] == {one.event_id: {} for one in said}
        assert len(answered) == 2
        assert await streamed(here.graph, begin) == said


async def test_the_response_to_an_empty_transaction_is_stored_too(database: Database) -> None:
    """A repeated empty transaction gets the same response."""
    async with graph_on(database, public_room("12")) as here:
        inbox = Inbox(database, here.graph, NoEdus())
        assert [await inbox.receive("a.example", "1", {}) for _ in range(2)] == [NOTHING] * 2


async def test_one_transaction_per_server_at_a_time(database: Database) -> None:
    """A concurrent one gets 429; other servers are not affected."""
    async with graph_on(database, public_room("12")) as here:
        edus = Edus(waiting=asyncio.Event())
        inbox = Inbox(database, here.graph, edus)
        first = asyncio.create_task(inbox.receive("a.example", "1", {"edus": [{}]}))
        while "a.example" not in inbox._in_flight:
            await asyncio.sleep(0)
        with pytest.raises(MatrixError) as refused:
            await inbox.receive("a.example", "2", {})
        assert (refused.value.status, refused.value.errcode) == (429, "M_LIMIT_EXCEEDED")
        assert await inbox.receive("b.example", "1", {}) == NOTHING
        assert edus.waiting is not None
        edus.waiting.set()
        await first
        assert await inbox.receive("a.example", "2", {}) == NOTHING


async def test_an_edu_that_could_not_be_stored_fails_the_transaction(database: Database) -> None:
    """The server repeats it, and then everything in it is received."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        said, edus = room.say(BOB), Edus(failing=True)
        inbox = Inbox(database, here.graph, edus)
        body = {"pdus": raw(said), "edus": [{}]}
        with pytest.raises(OSError, match="full"):
            await inbox.receive("b.example", "1", body)
        assert await here.graph.events([said.event_id]) == {}
        edus.failing = False
        assert json.loads(await inbox.receive("b.example", "1", body)) == {**PROCESSED, "pdus": {said.event_id: {}}}


async def test_an_invalid_transaction_is_refused(database: Database) -> None:
    """The status is 400, and nothing is received."""
    async with graph_on(database, public_room("12")) as here:
        inbox = Inbox(database, here.graph, NoEdus())
        for body, errcode in (({"pdus": [{}] * 51}, "M_TOO_LARGE"), (5, "M_BAD_JSON")):
            with pytest.raises(MatrixError) as refused:
                await inbox.receive("a.example", "1", body)
            assert (refused.value.status, refused.value.errcode) == (400, errcode)
        for transaction_id in ("\0", "x" * 256):
            with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
                await inbox.receive("a.example", transaction_id, {})


async def test_recent_responses_are_not_pruned(database: Database) -> None:
    """Only responses older than `RESPONSE_RETENTION` are deleted."""
    async with graph_on(database, public_room("12")) as here:
        inbox = Inbox(database, here.graph, NoEdus())
        await inbox.receive("a.example", "1", {})
        assert await inbox.prune() == 0


async def test_a_killed_process_loses_and_duplicates_nothing(database: Database, tmp_path: Path) -> None:
    """After SIGKILL in the middle of 1,000 events, sending all of them again stores each once and rejects
    none."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
    said = [room.say(BOB if number % 2 else ALICE, str(number)) for number in range(1000)]
    transactions = in_transactions(said, 10)
    file = tmp_path / "transactions"
    file.write_bytes(b"\n".join(map(orjson.dumps, transactions)))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.federation.inbox_process",
        database.address.url,
        str(file),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    while int(await process.stdout.readline()) < 40:
        pass
    process.send_signal(signal.SIGKILL)
    answered = 41 + (await process.stdout.read()).count(b"\n")
    assert await process.wait() == -signal.SIGKILL
    assert answered < 100
    async with pool_on(database.address) as pool, graph_on(pool, room) as here:
        # Events of transactions with a response are stored.
        known = await here.graph.known_events(pdu.event_id for pdu in said[: answered * 10])
        assert len(known) == answered * 10
        inbox = Inbox(pool, here.graph, NoEdus())
        for number, body in enumerate(transactions):
            answer = json.loads(await inbox.receive("b.example", str(number), body))
            assert set(map(str, answer["pdus"].values())) == {"{}"}
        stream = await streamed(here.graph, 0, 2000)
        assert stream[1:] == said
        view = await here.graph.room(room.room_id)
        assert view is not None
        assert view.forward_extremities == (said[-1].event_id,)
        assert here.peer.calls == []
