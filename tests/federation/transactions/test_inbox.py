"""Transactions: each once, one at a time of each server, committed before they are answered."""

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
    """Remembers what it is given, and can be made to fail or to wait."""

    received: list[Any] = field(default_factory=list)
    failing: bool = False
    waiting: asyncio.Event | None = None

    async def receive(self, origin: str, edus: Sequence[Any]) -> None:
        if self.waiting is not None:
            await self.waiting.wait()
        if self.failing:
            raise OSError("the disk is full")
        self.received += [(origin, edu) for edu in edus]


async def test_a_transaction_is_answered_with_what_became_of_each_event(database: Database) -> None:
    """200 even when all are rejected; EDUs are handed on."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        good = room.say(BOB)
        bad = room.propose("m.room.topic", "@nobody:b.example", {}, "")
        edus = Edus()
        body = {"pdus": raw(bad, good), "edus": [{"edu_type": "m.typing"}]}
        answer = json.loads(await Inbox(database, here.graph, edus).take_in("b.example", "1", body))
        assert answer["pdus"][good.event_id] == {}
        assert answer["pdus"][bad.event_id]["error"].startswith("rule ")
        assert edus.received == [("b.example", {"edu_type": "m.typing"})]


async def test_a_repeated_transaction_gets_the_same_answer(database: Database) -> None:
    """By origin and id, whatever it holds the second time; another process gives the same. That events are
    in their rooms is part of it."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        inbox, edus = Inbox(database, here.graph, NoEdus()), Edus()
        first = await inbox.take_in("b.example", "1", {"pdus": raw(room.say(BOB))})
        again = Inbox(database, here.graph, edus)
        other = room.say(BOB)
        assert await again.take_in("b.example", "1", {"pdus": raw(other), "edus": [{}]}) == first
        assert edus.received == []
        assert await here.graph.events([other.event_id]) == {}
        assert json.loads(await again.take_in("a.example", "1", {"pdus": raw(other)})) == {
            **PROCESSED,
            "pdus": {other.event_id: {}},
        }


async def test_a_repeated_transaction_changes_nothing(database: Database) -> None:
    """Whatever it holds the second time: a message at the head of the room, one behind a gap, or none."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        inbox = Inbox(database, here.graph, NoEdus())
        first = await inbox.take_in("b.example", "1", {"pdus": raw(room.say(BOB))})
        others = [room.say(BOB) for _ in range(3)]
        for body in ({"pdus": raw(others[0])}, {"pdus": raw(others[2])}, {}):
            assert await inbox.take_in("b.example", "1", body) == first
        assert await here.graph.events([other.event_id for other in others]) == {}
        again = json.loads(await inbox.take_in("b.example", "2", {"pdus": raw(*others, others[0])}))
        assert again["pdus"] == {other.event_id: {} for other in others}


@pytest.mark.parametrize("number", [1, 2])
async def test_what_ends_the_room_comes_again_after_a_restart(database: Database, number: int) -> None:
    """The answer was lost with the process: it is given again, also to another server that has the same
    events. The new process has not seen them yet."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here, pool_on(database.address) as pool:
        await join(here, room)
        said = [room.say(BOB) for _ in range(number)]
        first = await Inbox(database, here.graph, NoEdus()).take_in("b.example", "1", {"pdus": raw(*said)})
        async with graph_on(pool, room) as again:
            inbox = Inbox(pool, again.graph, NoEdus())
            assert await inbox.take_in("b.example", "1", {"pdus": raw(*said)}) == first
        async with graph_on(pool, room) as again:
            other = json.loads(
                await Inbox(pool, again.graph, NoEdus()).take_in("a.example", "1", {"pdus": raw(*said)})
            )
            assert other["pdus"] == {one.event_id: {} for one in said}


async def test_messages_at_the_head_of_a_room_need_no_transaction(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are written by one statement, with all that belongs to them, also when the room is not what this
    process remembers: then it looks. What changes the state, comes a second time, or follows what is not
    known is taken in a transaction."""
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
            given = json.loads(await inbox.take_in("b.example", transaction_id, body))["pdus"]
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
            assert json.loads(await other.take_in("b.example", "5", {"pdus": raw(four)}))["pdus"]
        five = room.say(BOB)
        assert await transactions_for("6", five) == 1
        six = room.say(BOB)
        assert await transactions_for("7", six) == 0
        read = await streamed(here.graph, begin)
        assert read == [one, two, three, topic, four, five, six]


@pytest.mark.parametrize("number", [1, 2])
async def test_a_connection_that_is_lost_while_something_comes(database: Database, number: int) -> None:
    """It is taken in all the same, once."""
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
                # Nothing else happens meanwhile.
                with ThreadPoolExecutor(1) as thread:
                    thread.submit(asyncio.run, end_all_others()).result()

        said = [room.say(BOB) for _ in range(number)]
        inbox = Inbox(database, here.graph, NoEdus(), audit=audit)
        answer = await inbox.take_in("b.example", "1", {"pdus": raw(*said)})
        assert json.loads(answer)["pdus"] == {one.event_id: {} for one in said}
        assert len(answered) == 2
        assert await streamed(here.graph, begin) == said


async def test_an_empty_transaction_is_answered_too(database: Database) -> None:
    """And remembered."""
    async with graph_on(database, public_room("12")) as here:
        inbox = Inbox(database, here.graph, NoEdus())
        assert [await inbox.take_in("a.example", "1", {}) for _ in range(2)] == [NOTHING] * 2


async def test_a_server_sends_one_transaction_after_the_other(database: Database) -> None:
    """429 for a second one; other servers are not kept waiting."""
    async with graph_on(database, public_room("12")) as here:
        edus = Edus(waiting=asyncio.Event())
        inbox = Inbox(database, here.graph, edus)
        first = asyncio.create_task(inbox.take_in("a.example", "1", {"edus": [{}]}))
        while "a.example" not in inbox._in_flight:
            await asyncio.sleep(0)
        with pytest.raises(MatrixError) as refused:
            await inbox.take_in("a.example", "2", {})
        assert (refused.value.status, refused.value.errcode) == (429, "M_LIMIT_EXCEEDED")
        assert await inbox.take_in("b.example", "1", {}) == NOTHING
        assert edus.waiting is not None
        edus.waiting.set()
        await first
        assert await inbox.take_in("a.example", "2", {}) == NOTHING


async def test_an_edu_that_could_not_be_stored_fails_the_transaction(database: Database) -> None:
    """It comes again, and then with everything in it."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        said, edus = room.say(BOB), Edus(failing=True)
        inbox = Inbox(database, here.graph, edus)
        body = {"pdus": raw(said), "edus": [{}]}
        with pytest.raises(OSError, match="full"):
            await inbox.take_in("b.example", "1", body)
        assert await here.graph.events([said.event_id]) == {}
        edus.failing = False
        assert json.loads(await inbox.take_in("b.example", "1", body)) == {
            **PROCESSED,
            "pdus": {said.event_id: {}},
        }


async def test_too_much_is_refused(database: Database) -> None:
    """400 and nothing is taken in."""
    async with graph_on(database, public_room("12")) as here:
        inbox = Inbox(database, here.graph, NoEdus())
        for body, errcode in (({"pdus": [{}] * 51}, "M_TOO_LARGE"), (5, "M_BAD_JSON")):
            with pytest.raises(MatrixError) as refused:
                await inbox.take_in("a.example", "1", body)
            assert (refused.value.status, refused.value.errcode) == (400, errcode)
        for transaction_id in ("\0", "x" * 256):
            with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
                await inbox.take_in("a.example", transaction_id, {})


async def test_old_answers_are_forgotten(database: Database) -> None:
    """Not those of today."""
    async with graph_on(database, public_room("12")) as here:
        inbox = Inbox(database, here.graph, NoEdus())
        await inbox.take_in("a.example", "1", {})
        assert await inbox.prune() == 0


async def test_a_process_that_is_killed_loses_and_doubles_nothing(database: Database, tmp_path: Path) -> None:
    """SIGKILL in the middle of 1,000 events; sent again, all of them are there once, none rejected."""
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
        # What was answered is there.
        known = await here.graph.known_events(pdu.event_id for pdu in said[: answered * 10])
        assert len(known) == answered * 10
        inbox = Inbox(pool, here.graph, NoEdus())
        for number, body in enumerate(transactions):
            answer = json.loads(await inbox.take_in("b.example", str(number), body))
            assert set(map(str, answer["pdus"].values())) == {"{}"}
        stream = await streamed(here.graph, 0, 2000)
        assert stream[1:] == said
        view = await here.graph.room(room.room_id)
        assert view is not None
        assert view.forward_extremities == (said[-1].event_id,)
        assert here.peer.calls == []
