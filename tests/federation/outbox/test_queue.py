"""The queue of one server in Postgres, and the transactions built from it."""

from collections.abc import Sequence

from federation.caches import WeightedCache
from federation.events import Pdu
from federation.matrix.canonical_json import decode
from federation.observer import HomeserverObserver
from federation.outbox.lossy_edus import LossyEdus
from federation.outbox.messages import Backlog, LoadResult, Outage, Send, SurveyResult
from federation.outbox.queue import DestinationQueue, RecentPdus
from federation.outbox.send_queue import EduRef, PduRef
from federation.transactions.edus import Typing
from federation.transactions.outgoing_edus import typing
from storage.database import Database
from storage.federation import outbox
from storage.federation.outbox import StoredPdu
from tests.federation.sending import says, write
from tests.support.rooms import public_room

US, PEER = "us.test", "peer.test"
NOW = 1_000


def queue_of(database: Database, epoch: str = "epoch", fresh: RecentPdus | None = None) -> DestinationQueue:
    remembered = WeightedCache(0) if fresh is None else fresh
    return DestinationQueue(US, PEER, database, epoch, remembered, HomeserverObserver())


async def queued(database: Database, pdus: Sequence[Pdu]) -> tuple[PduRef, ...]:
    async with database.transaction() as connection:
        await write(connection, pdus)
        rows = await outbox.queue_pdus(connection, [(PEER, pdu.room_id, pdu.event_id) for pdu in pdus], NOW)
    rooms = {pdu.event_id: pdu.room_id for pdu in pdus}
    return tuple(PduRef(row.position, rooms[row.event_id]) for row in rows)


async def queued_edu(database: Database, content: bytes = b"{}") -> EduRef:
    async with database.transaction() as connection:
        (row,) = await outbox.queue_edu(connection, [PEER], "m.direct_to_device", content, NOW)
    return EduRef(row.position)


async def test_queued_items_are_counted_and_loaded(database: Database) -> None:
    """Counted by room; the oldest of each are loaded."""
    one, two = await queued(database, says(public_room("11"), "1", "2"))
    edu = await queued_edu(database)
    room_id, queue = one.room_id, queue_of(database)
    assert await queue.survey() == SurveyResult((Backlog(room_id, 2, two.position),))
    assert await queue.load(room_id) == LoadResult(room_id, (one.position, two.position))
    assert await queue.load(None) == LoadResult(None, (edu.position,))
    assert await queue.skip(room_id, two.position) == 1
    assert await queue.load(room_id) == LoadResult(room_id, (two.position,))


async def test_an_outage_is_stored(database: Database) -> None:
    """Until it ends."""
    outage = Outage(1, 2, 3)
    assert await queue_of(database).fetch_outage() is None
    await queue_of(database).store_outage(outage)
    assert await queue_of(database).fetch_outage() == outage
    await queue_of(database).store_outage(None)
    assert await queue_of(database).fetch_outage() is None


async def test_a_repeated_transaction_is_the_same(database: Database) -> None:
    """The same number means the same transaction, another number a new one."""
    pdus = says(public_room("11"), "1", "2")
    one, two = await queued(database, pdus)
    edu = await queued_edu(database, b'{"message_id":"m"}')
    passing = LossyEdus()
    types = passing.put(typing(Typing("!r:us.test", "@b:us.test", True)), NOW)
    assert types is not None
    queue = queue_of(database)
    send = Send(1, (one,), (edu, types))
    first = await queue.build_transaction(send, passing, NOW)
    assert await queue.build_transaction(send, passing, NOW + 5) == first
    body = decode(first.body)
    assert body["origin_server_ts"] == NOW
    assert body["pdus"] == [pdus[0].event]
    assert [edu["edu_type"] for edu in body["edus"]] == ["m.direct_to_device", "m.typing"]
    assert first.refs == {pdus[0].event_id: one}
    other = await queue.build_transaction(Send(2, (two,), ()), passing, NOW)
    assert other.transaction_id != first.transaction_id


async def test_the_same_rows_give_the_same_id_in_any_process(database: Database) -> None:
    """For the same database. Ephemeral EDUs do not affect the id."""
    refs = await queued(database, says(public_room("11"), "1", "2"))
    edu = await queued_edu(database)
    sent = await queue_of(database).build_transaction(Send(7, refs, (edu,)), LossyEdus(), NOW)
    passing = LossyEdus()
    types = passing.put(typing(Typing("!r:us.test", "@b:us.test", True)), NOW)
    assert types is not None
    again = await queue_of(database).build_transaction(Send(1, refs, (edu, types)), passing, NOW + 99)
    assert again.transaction_id == sent.transaction_id
    others = [
        await queue_of(database, "another epoch").build_transaction(Send(1, refs, (edu,)), LossyEdus(), NOW),
        await queue_of(database).build_transaction(Send(1, refs[:1], (edu,)), LossyEdus(), NOW),
        await queue_of(database).build_transaction(Send(1, refs, ()), LossyEdus(), NOW),
    ]
    assert len({sent.transaction_id, *(other.transaction_id for other in others)}) == 4


async def test_a_transaction_without_rows_has_a_random_id(database: Database) -> None:
    """For typing, receipts and presence alone; the id stays the same while the transaction is in flight."""
    passing = LossyEdus()
    types = passing.put(typing(Typing("!r:us.test", "@b:us.test", True)), NOW)
    assert types is not None
    queue = queue_of(database)
    first = await queue.build_transaction(Send(1, (), (types,)), passing, NOW)
    assert (await queue.build_transaction(Send(1, (), (types,)), passing, NOW + 5)) == first
    ids = {first.transaction_id}
    ids.add((await queue.build_transaction(Send(2, (), (types,)), passing, NOW)).transaction_id)
    ids.add((await queue_of(database).build_transaction(Send(1, (), (types,)), passing, NOW)).transaction_id)
    assert len(ids) == 3


async def test_cached_events_are_not_read(database: Database) -> None:
    """Events stay cached until they are removed; the database is read unless all events of a transaction
    are cached."""
    pdus = says(public_room("11"), "1", "2")
    one, two = await queued(database, pdus)
    fresh: RecentPdus = WeightedCache(100, lambda pdu: len(pdu.canonical))
    queue = queue_of(database, fresh=fresh)
    for ref, pdu, said in ((one, pdus[0], b'{"from":1}'), (two, pdus[1], b'{"from":2}')):
        fresh[ref.position] = StoredPdu(ref.position, pdu.event_id, said)
    send = Send(1, (two, one), ())
    sent = await queue.build_transaction(send, LossyEdus(), NOW)
    assert decode(sent.body)["pdus"] == [{"from": 1}, {"from": 2}]
    assert sent.refs == {pdus[0].event_id: one, pdus[1].event_id: two}
    del fresh[one.position]
    again = await queue.build_transaction(send, LossyEdus(), NOW)
    assert again.transaction_id == sent.transaction_id
    assert decode(again.body)["pdus"] == [pdu.event for pdu in pdus]
    queue.remove((one, two), ())
    assert len(fresh) == 0


async def test_delivered_items_are_deleted_in_batches(database: Database) -> None:
    """At the latest before the queue is read."""
    one, two, three = await queued(database, says(public_room("11"), "1", "2", "3"))
    edu, later = await queued_edu(database), await queued_edu(database)
    queue = queue_of(database)
    queue.remove((one,), (edu, EduRef(9, ephemeral=True)))
    queue.remove((two,), ())
    assert not queue.is_flushed
    assert (await queue_of(database).load(one.room_id)).positions == (one.position, two.position, three.position)
    assert (await queue.load(one.room_id)).positions == (three.position,)
    assert queue.is_flushed
    assert (await queue_of(database).load(None)).positions == (later.position,)
    queue.remove((three,), (later,))
    await queue.flush()
    async with database.transaction() as connection:
        assert await outbox.list_destinations(connection) == []
