"""One writer at a time for each room."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from federation.events.received import ACCEPTED
from federation.rooms.receive import IncomingTransaction
from storage.connect import ConnectionLost
from storage.database import Database
from storage.federation.incoming_transactions import TransactionResponse
from tests.support.graph import HERE, US, graph_on, join, raw, streamed
from tests.support.postgres import pool_on
from tests.support.rooms import ALICE, BOB, public_room


async def test_two_processes_write_to_one_room_in_turn(database: Database) -> None:
    """Each sees the other's events: all of them form one chain."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here, pool_on(database.address) as pool:
        await join(here, room)
        async with graph_on(pool, room) as there:
            made = await asyncio.gather(
                *(
                    one.graph.send_event(room.room_id, "m.room.message", {"body": str(number)}, US)
                    for number in range(40)
                    for one in (here, there)
                )
            )
            assert len({pdu.prev_events for pdu in made}) == len(made)
            assert all(len(pdu.prev_events) == 1 for pdu in made)
            depths = sorted(pdu.depth for pdu in made)
            assert depths == list(range(depths[0], depths[0] + 80))
            assert [pdu.depth for pdu in (await streamed(here.graph))[1:]] == depths
            assert await there.graph.servers_in_room(room.room_id) == {"a.example", "b.example", HERE}


async def test_the_state_that_another_process_has_changed_is_seen(database: Database) -> None:
    """The generation shows that the cached room is outdated."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here, pool_on(database.address) as pool:
        await join(here, room)
        async with graph_on(pool, room) as there:
            assert "b.example" in await there.graph.servers_in_room(room.room_id)
            banned = room.member(ALICE, BOB, "ban")
            await here.graph.receive("a.example", raw(banned))
            assert "b.example" not in await there.graph.servers_in_room(room.room_id)
            message = await there.graph.send_event(room.room_id, "m.room.message", {}, US)
            assert message.prev_events == (banned.event_id,)


async def test_sessions_with_the_same_rooms_do_not_deadlock(database: Database) -> None:
    """Two transactions with the same rooms, from two servers and in two processes."""
    rooms = [public_room("12", BOB, number=number) for number in range(5)]
    async with graph_on(database, rooms[0]) as here, pool_on(database.address) as pool:
        for room in rooms:
            await join(here, room)
        async with graph_on(pool, rooms[0]) as there:
            for _ in range(10):
                starts = {room.room_id: room.head for room in rooms}
                first = [room.say(ALICE, after=starts[room.room_id]) for room in rooms]
                second = [room.say(BOB, after=starts[room.room_id]) for room in reversed(rooms)]
                results = await asyncio.gather(
                    here.graph.receive("a.example", raw(*first)), there.graph.receive("b.example", raw(*second))
                )
                assert [len(one) for one in results] == [5, 5]
            views = [await here.graph.room(room.room_id) for room in rooms]
            assert all(view is not None and len(view.forward_extremities) == 2 for view in views)


NAMED = {"membership": "join", "displayname": "Us"}
"""State is written in a session."""


async def test_rolled_back_events_are_not_cached(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit fails after everything was written; the next one succeeds."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        before = await here.graph.room(room.room_id)

        def fail(*_: object) -> None:
            raise OSError("no space left")

        with monkeypatch.context() as patched:
            patched.setattr(here.hook, "queue_entries", fail)
            with pytest.raises(OSError, match="no space"):
                await here.graph.send_event(room.room_id, "m.room.member", NAMED, US, US)
            with pytest.raises(OSError, match="no space"):
                await here.graph.receive("a.example", raw(room.propose("m.room.topic", ALICE, {}, "")))
        assert await here.graph.room(room.room_id) == before
        assert len(here.hook.committed) == 1
        message = await here.graph.send_event(room.room_id, "m.room.member", NAMED, US, US)
        assert message.prev_events == (room.head[0].event_id,)


async def test_a_lost_connection_fails_one_commit_only(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it was committed is seen from the room's generation."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)

        def cut(*_: object) -> list[tuple[str, str]]:
            # Nothing else is committed meanwhile.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(asyncio.run, end_all_others(database)).result()
            return []

        with monkeypatch.context() as patched:
            patched.setattr(here.hook, "queue_entries", cut)
            with pytest.raises(ConnectionLost):
                await here.graph.send_event(room.room_id, "m.room.member", NAMED, US, US)
        message = await here.graph.send_event(room.room_id, "m.room.member", NAMED, US, US)
        assert message.prev_events == (room.head[0].event_id,)


async def end_all_others(database: Database) -> None:
    async with pool_on(database.address) as pool, pool.connection() as other:
        await other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


async def test_a_message_is_written_without_a_transaction(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a cached room; the outbox gets it as usual."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)

        def fail(**_: object) -> None:
            raise AssertionError("a transaction is begun")

        monkeypatch.setattr(database, "transaction", fail)
        texts = [{"body": str(number)} for number in range(5)]
        messages = [await here.graph.send_event(room.room_id, "m.room.message", text, US) for text in texts]
        assert here.hook.ids[-5:] == [pdu.event_id for pdu in messages]
        assert here.hook.committed[-1].destinations == {"a.example", "b.example"}


async def test_a_message_follows_the_events_of_another_process(database: Database) -> None:
    """The statement compares the cached head; if it is outdated, the room is loaded again."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here, pool_on(database.address) as pool, graph_on(pool, room) as there:
        await join(here, room)
        messages = [room.head[0].event_id]
        for number in range(3):
            for one in (here, there):
                pdu = await one.graph.send_event(room.room_id, "m.room.message", {"body": str(number)}, US)
                assert pdu.prev_events == (messages[-1],)
                messages.append(pdu.event_id)
        both = await asyncio.gather(
            *(one.graph.send_event(room.room_id, "m.room.message", {}, US) for one in (here, there))
        )
        first, second = sorted(both, key=lambda pdu: pdu.depth)
        assert second.prev_events == (first.event_id,)


async def test_a_connection_that_is_lost_while_a_message_is_written(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent again with its transaction id, it is the same event whether it was committed or not."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)

        def cut(*_: object) -> list[tuple[str, str]]:
            # Nothing else is committed meanwhile.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(asyncio.run, end_all_others(database)).result()
            return []

        with monkeypatch.context() as patched:
            patched.setattr(here.hook, "queue_entries", cut)
            with pytest.raises(ConnectionLost):
                await here.graph.send_event(room.room_id, "m.room.message", {}, US, transaction_id="1")
        message = await here.graph.send_event(room.room_id, "m.room.message", {}, US, transaction_id="1")
        again = await here.graph.send_event(room.room_id, "m.room.message", {}, US, transaction_id="1")
        assert message == again
        assert message.prev_events == (room.head[0].event_id,)


@pytest.mark.parametrize("what", ["a message", "state", "a message of another server", "state of another server"])
async def test_a_failure_after_the_commit_does_not_fail_the_event(
    database: Database, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Otherwise the sender would send it again, and without a transaction id there would be two. Readers of
    the stream get it nevertheless."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        begin = await here.graph.stream.last_position()

        def fail(*_: object) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(here.hook, "notify_queued", fail)
        reading = asyncio.create_task(here.graph.stream.reader(begin).next())
        if what == "a message":
            pdu = await here.graph.send_event(room.room_id, "m.room.message", {"body": "x"}, US)
        elif what == "state":
            content = {"membership": "join", "displayname": "Us"}
            pdu = await here.graph.send_event(room.room_id, "m.room.member", content, US, US)
        else:
            pdu = room.say(BOB) if what == "a message of another server" else room.topic(ALICE, "Soup")
            answered = TransactionResponse("b.example", "1", b"{}")
            transaction = IncomingTransaction("1", lambda _: answered)
            results = await here.graph.receive_transaction("b.example", raw(pdu), transaction)
            assert results == {pdu.event_id: ACCEPTED}
        assert [entry.event.event_id for entry in await reading] == [pdu.event_id]
        after = await here.graph.send_event(room.room_id, "m.room.message", {"body": "y"}, US)
        assert after.prev_events == (pdu.event_id,)
