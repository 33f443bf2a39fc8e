"""What a machine wants done in the database, and what a process before has left there."""

from collections.abc import Sequence

from federation.canonical_json import decode
from federation.destination_messages import (
    Backlog,
    Fate,
    Forget,
    Load,
    Loaded,
    Outage,
    Probe,
    Remember,
    Send,
    Skip,
    Survey,
    Surveyed,
)
from federation.edu import Typing
from federation.edu.making import typing
from federation.passing_edus import PassingEdus
from federation.pdu import Pdu
from federation.send_queue import EduRef, PduRef
from federation.service.destination_queue import DestinationQueue, Fresh
from federation.weighted_cache import WeightedCache
from storage import outbox
from storage.database import Database
from storage.outbox import InFlight, StoredPdu
from tests.federation.service.sending import Seen, says, write
from tests.support.rooms import public_room

US, PEER = "us.test", "peer.test"
NOW = 1_000


def queue_of(database: Database) -> DestinationQueue:
    return DestinationQueue(US, PEER, database, Seen())


async def queued(database: Database, pdus: Sequence[Pdu]) -> tuple[PduRef, ...]:
    async with database.transaction() as connection:
        await write(connection, pdus)
        rows = await outbox.queue_pdus(connection, [(PEER, pdu.room_id, pdu.event_id) for pdu in pdus], NOW)
    return tuple(PduRef(row.position, row.room_id) for row in rows)


async def queued_edu(database: Database, content: bytes = b"{}") -> EduRef:
    async with database.transaction() as connection:
        (row,) = await outbox.queue_edu(connection, [PEER], "m.direct_to_device", content, NOW)
    return EduRef(row.position)


async def test_nothing_was_left(database: Database) -> None:
    """A server that was never sent anything begins with nothing, and nothing wanted is nothing done."""
    queue = queue_of(database)
    assert await queue.restore() == (None, None)
    done = await queue.carry_out([], PassingEdus(), NOW)
    assert (done.answers, done.transaction, done.probes, done.left) == ([], None, [], [])


async def test_questions_are_answered(database: Database) -> None:
    """What waits, by room, and the oldest of each lane."""
    one, two = await queued(database, says(public_room("11"), "1", "2"))
    edu = await queued_edu(database)
    room_id = one.room_id
    probe = Probe(room_id, one.position)
    done = await queue_of(database).carry_out(
        [Survey(), Load(room_id), Load(None), probe], PassingEdus(), NOW
    )
    assert done.answers == [
        Surveyed((Backlog(room_id, 2, two.position),)),
        Loaded(room_id, (one.position, two.position)),
        Loaded(None, (edu.position,)),
    ]
    assert done.probes == [probe]


async def test_a_transaction_is_written_down_before_it_is_sent(database: Database) -> None:
    """With everything in it; the same number means the same transaction, another one a new one."""
    pdus = says(public_room("11"), "1", "2")
    one, two = await queued(database, pdus)
    edu = await queued_edu(database, b'{"message_id":"m"}')
    passing = PassingEdus()
    types = passing.put(typing(Typing("!r:us.test", "@b:us.test", True)), NOW)
    assert types is not None
    queue = queue_of(database)
    send = Send(1, (one,), (edu, types))
    first = (await queue.carry_out([send], passing, NOW)).transaction
    again = (await queue.carry_out([send], passing, NOW + 5)).transaction
    assert first is not None
    assert first == again
    body = decode(first.body)
    assert body["origin_server_ts"] == NOW
    assert body["pdus"] == [pdus[0].event]
    assert [edu["edu_type"] for edu in body["edus"]] == ["m.direct_to_device", "m.typing"]
    assert first.places == {pdus[0].event_id: one}
    other = (await queue.carry_out([Send(2, (two,), ())], passing, NOW)).transaction
    assert other is not None
    assert other.transaction_id != first.transaction_id


async def test_what_is_in_flight_survives(database: Database) -> None:
    """Number 0 is the transaction of the process before: its id, its time, its content."""
    pdus = says(public_room("11"), "1", "2")
    refs = await queued(database, pdus)
    edu = await queued_edu(database)
    first = (await queue_of(database).carry_out([Send(7, refs, (edu,))], PassingEdus(), NOW)).transaction
    queue = queue_of(database)
    assert await queue.restore() == (None, (refs, (edu,)))
    again = (await queue.carry_out([Send(0, refs, (edu,))], PassingEdus(), NOW + 99)).transaction
    assert again == first


async def test_a_transaction_of_which_nothing_is_left_is_none(database: Database) -> None:
    """It held only what need not arrive."""
    await queue_of(database).carry_out([Send(1, (), ())], PassingEdus(), NOW)
    assert await queue_of(database).restore() == (None, None)
    async with database.transaction() as connection:
        assert await outbox.fetch_transaction(connection, PEER) is None


async def test_what_was_delivered_is_forgotten_with_its_transaction(database: Database) -> None:
    """All or nothing; what is stale goes without it."""
    one, two = await queued(database, says(public_room("11"), "1", "2"))
    edu = await queued_edu(database)
    passing = PassingEdus()
    types = passing.put(typing(Typing("!r:us.test", "@b:us.test", True)), NOW)
    assert types is not None
    queue = queue_of(database)
    await queue.carry_out([Send(1, (one,), (edu, types))], passing, NOW)
    done = await queue.carry_out([Forget((), (types,), Fate.STALE)], passing, NOW)
    assert done.left == [(Fate.STALE, 1)]
    assert len(passing) == 0
    assert (await queue_of(database).restore())[1] == ((one,), (edu,))
    await queue.carry_out([Forget((one,), (edu,), Fate.DELIVERED)], passing, NOW)
    assert await queue_of(database).restore() == (None, None)
    async with database.transaction() as connection:
        assert await outbox.oldest_pdus(connection, PEER, one.room_id, 9) == [two.position]
        assert await outbox.oldest_edus(connection, PEER, 9) == []


async def test_what_is_skipped_is_counted(database: Database) -> None:
    """The peer can pull it."""
    *_, newest = await queued(database, says(public_room("11"), *map(str, range(5))))
    done = await queue_of(database).carry_out([Skip(newest.room_id, newest.position)], PassingEdus(), NOW)
    assert done.left == [(Fate.STALE, 4)]


async def test_an_outage_is_remembered(database: Database) -> None:
    """Until it is over."""
    outage = Outage(1, 2, 3)
    await queue_of(database).carry_out([Remember(outage)], PassingEdus(), NOW)
    assert await queue_of(database).restore() == (outage, None)
    await queue_of(database).carry_out([Remember(None)], PassingEdus(), NOW)
    assert await queue_of(database).restore() == (None, None)


async def test_what_this_process_has_queued_is_not_read(database: Database) -> None:
    """As long as it has to be sent; and only if all of it is remembered."""
    pdus = says(public_room("11"), "1", "2")
    one, two = await queued(database, pdus)
    fresh: Fresh = WeightedCache(100)
    queue = DestinationQueue(US, PEER, database, Seen(), fresh)
    for ref, pdu, said in ((one, pdus[0], b'{"from":1}'), (two, pdus[1], b'{"from":2}')):
        fresh.put(ref.position, StoredPdu(ref.position, pdu.event_id, said), len(said))
    send = Send(1, (two, one), ())
    sent = (await queue.carry_out([send], PassingEdus(), NOW)).transaction
    assert sent is not None
    assert decode(sent.body)["pdus"] == [{"from": 1}, {"from": 2}]
    assert sent.places == {pdus[0].event_id: one, pdus[1].event_id: two}
    fresh.forget(one.position)
    again = (await queue.carry_out([send], PassingEdus(), NOW)).transaction
    assert again is not None
    assert decode(again.body)["pdus"] == [pdu.event for pdu in pdus]
    await queue.carry_out([Forget((one, two), (), Fate.DELIVERED)], PassingEdus(), NOW)
    assert len(fresh) == 0


async def test_one_transaction_follows_another(database: Database) -> None:
    """What was in the first one is gone, and the second one survives."""
    pdus = says(public_room("11"), "1", "2")
    one, two = await queued(database, pdus)
    queue = queue_of(database)
    await queue.carry_out([Send(1, (one,), ())], PassingEdus(), NOW)
    done = await queue.carry_out(
        [Forget((one,), (), Fate.DELIVERED), Send(2, (two,), ())], PassingEdus(), NOW
    )
    assert done.left == [(Fate.DELIVERED, 1)]
    assert done.transaction is not None
    assert decode(done.transaction.body)["pdus"] == [pdus[1].event]
    other = queue_of(database)
    assert await other.restore() == (None, ((two,), ()))
    again = (await other.carry_out([Send(0, (two,), ())], PassingEdus(), NOW)).transaction
    assert again == done.transaction
    (left,) = (await other.carry_out([Load(one.room_id)], PassingEdus(), NOW)).answers
    assert left == Loaded(one.room_id, (two.position,))


async def test_messages_to_devices_go_with_the_transaction_that_they_were_in(database: Database) -> None:
    """Another transaction in its place takes none of them along."""
    (one,) = await queued(database, says(public_room("11"), "1"))
    edu, next_edu = await queued_edu(database), await queued_edu(database)
    queue = queue_of(database)
    await queue.carry_out([Send(1, (one,), (edu,))], PassingEdus(), NOW)
    await queue.carry_out(
        [Forget((one,), (edu,), Fate.DELIVERED), Send(2, (), (next_edu,))], PassingEdus(), NOW
    )
    assert await queue_of(database).restore() == (None, ((), (next_edu,)))
    (left,) = (await queue.carry_out([Load(None)], PassingEdus(), NOW)).answers
    assert left == Loaded(None, (next_edu.position,))


async def write_down(database: Database, transaction: InFlight) -> None:
    async with database.transaction() as connection:
        await outbox.insert_transaction(connection, PEER, transaction)


async def test_a_transaction_may_be_written_down_by_whoever_queues(database: Database) -> None:
    """It is sent under the id that was offered, and comes again under it."""
    pdus = says(public_room("11"), "1", "2")
    refs = await queued(database, pdus)
    queue = queue_of(database)
    assert queue.offer(NOW) is None, "nobody has looked yet what was left"
    await queue.restore()
    offered = queue.offer(NOW)
    assert offered is not None
    assert queue.offer(NOW) is None, "one at a time"
    begun = InFlight(offered.transaction_id, NOW - 1, [ref.position for ref in refs], [])
    await write_down(database, begun)
    queue.begun(begun)
    sent = (await queue.carry_out([Send(1, refs, ())], PassingEdus(), NOW)).transaction
    assert sent is not None
    assert sent.transaction_id == offered.transaction_id
    assert decode(sent.body)["origin_server_ts"] == NOW - 1
    assert queue.offer(NOW) is None, "it is in flight"
    again = (await queue.carry_out([Send(1, refs, ())], PassingEdus(), NOW + 5)).transaction
    assert again == sent
    other = queue_of(database)
    assert await other.restore() == (None, (refs, ()))
    assert other.offer(NOW) is None, "it is in flight"
    assert (await other.carry_out([Send(0, refs, ())], PassingEdus(), NOW + 9)).transaction == sent
    await queue.carry_out([Forget(refs, (), Fate.DELIVERED)], PassingEdus(), NOW)
    assert queue.offer(NOW) not in {None, offered}
    assert await queue_of(database).restore() == (None, None)


async def test_what_was_written_down_for_something_else_is_not_what_is_sent(database: Database) -> None:
    """Other events, or anything done since it was offered: then it is written down as ever."""
    one, two = await queued(database, says(public_room("11"), "1", "2"))
    queue = queue_of(database)
    await queue.restore()
    offered = queue.offer(NOW)
    assert offered is not None
    begun = InFlight(offered.transaction_id, NOW, [one.position], [])
    await write_down(database, begun)
    queue.begun(begun)
    sent = (await queue.carry_out([Send(1, (two,), ())], PassingEdus(), NOW)).transaction
    assert sent is not None
    assert sent.transaction_id != offered.transaction_id
    assert await queue_of(database).restore() == (None, ((two,), ()))
    await queue.carry_out([Forget((two,), (), Fate.DELIVERED)], PassingEdus(), NOW)
    late = queue.offer(NOW)
    assert late is not None
    await queue.carry_out([Remember(None)], PassingEdus(), NOW)
    queue.begun(InFlight(late.transaction_id, NOW, [one.position], []))
    sent = (await queue.carry_out([Send(2, (one,), ())], PassingEdus(), NOW)).transaction
    assert sent is not None
    assert sent.transaction_id != late.transaction_id
    assert await queue_of(database).restore() == (None, ((one,), ()))


async def test_nothing_is_written_of_what_was_written_down_and_is_remembered(database: Database) -> None:
    """What was delivered is taken out later, before the queue is read at the latest; the transaction that it
    was in gives its place to the next."""
    pdus = says(public_room("11"), "1", "2", "3")
    refs = await queued(database, pdus)
    fresh: Fresh = WeightedCache(1_000_000)
    queue = DestinationQueue(US, PEER, database, Seen(), fresh)
    await queue.restore()
    for number, (pdu, ref) in enumerate(zip(pdus[:2], refs, strict=False), 1):
        fresh.put(ref.position, StoredPdu(ref.position, pdu.event_id, pdu.canonical), 1)
        assert queue.done_at_once([Send(number, (ref,), ())], NOW) is None, "it was not written down"
        offered = queue.offer(NOW)
        assert offered is not None
        begun = InFlight(offered.transaction_id, NOW, [ref.position], [])
        await write_down(database, begun)
        queue.begun(begun)
        done = queue.done_at_once([Send(number, (ref,), ())], NOW)
        assert done is not None
        assert done.transaction is not None
        assert done.transaction.transaction_id == offered.transaction_id
        assert decode(done.transaction.body)["pdus"] == [decode(pdu.canonical)]
        assert queue.offer(NOW) is None, "it is in flight"
        done = queue.done_at_once([Forget((ref,), (), Fate.DELIVERED)], NOW)
        assert done is not None
        assert done.left == [(Fate.DELIVERED, 1)]
    assert not queue.is_settled
    assert (await queue_of(database).restore())[1] == ((refs[1],), ())
    following = queue.offer(NOW)
    assert following is not None
    assert following.answered == begun.transaction_id
    queue.begun(InFlight(following.transaction_id, NOW, [refs[2].position], []))
    assert queue.done_at_once([Send(3, (refs[2],), ())], NOW) is None, "it is not remembered"
    (answer,) = (await queue.carry_out([Load(refs[0].room_id)], PassingEdus(), NOW)).answers
    assert answer == Loaded(refs[0].room_id, (refs[2].position,))
    assert queue.is_settled
    assert await queue_of(database).restore() == (None, None)


async def test_what_is_taken_out_later_is_not_what_was_begun_meanwhile(database: Database) -> None:
    """Only the events: the transaction is another one."""
    refs = await queued(database, says(public_room("11"), "1", "2"))
    queue = queue_of(database)
    await queue.carry_out([Send(1, refs[:1], ())], PassingEdus(), NOW)
    assert queue.done_at_once([Forget(refs[:1], (), Fate.STALE)], NOW) is None
    assert queue.done_at_once([Forget(refs[:1], (), Fate.DELIVERED)], NOW) is not None
    await queue.carry_out([Send(2, refs[1:], ())], PassingEdus(), NOW)
    await queue.settle()
    await queue.settle()
    assert await queue_of(database).restore() == (None, (refs[1:], ()))
