"""What is said while nothing else is under way: its transaction is written down with it, and written to the
other server in the same turn.
"""

from collections.abc import AsyncIterator, Mapping

import pytest

from federation.destination import State
from federation.pdu import Pdu
from federation.peer_settings import PeerSettings
from storage import outbox as table
from storage.database import Database
from storage.saying import Offered
from storage.saying import Queued as Place
from tests.federation.service.receiving_server import ReceivingServer
from tests.federation.service.sending import Sending, committed, says, sending, write
from tests.support.neighbourhood import Neighbourhood
from tests.support.rooms import public_room

PEER = "peer.test"


@pytest.fixture
async def peer() -> ReceivingServer:
    return ReceivingServer()


@pytest.fixture
async def us(
    database: Database, neighbourhood: Neighbourhood, peer: ReceivingServer
) -> AsyncIterator[Sending]:
    server = await neighbourhood.server(peer, PEER)
    reach = neighbourhood.reach({PEER: PeerSettings(address=f"127.0.0.1:{server.port}")})
    async with sending(database, reach.client) as us:
        yield us


async def test_what_is_said_is_sent_in_the_transaction_that_was_begun_with_it(
    us: Sending, peer: ReceivingServer
) -> None:
    """A sender with nothing to do offers one; what comes while that is under way goes in another."""
    first, second, third = says(public_room("11"), "1", "2", "3")
    await us.send([first], PEER)
    ids: list[str] = []
    for pdu in (second, third):
        await us.seen.until(
            lambda seen: len(seen.left) == len(ids) + 1 and seen.states.get(PEER) is State.IDLE
        )
        offered = us.outbox.offered([PEER, "nobody.test"])
        assert offered.keys() == {PEER}
        await say_queued(us, pdu, offered)
        # Nobody had to wait for anything: it is on its way.
        view = us.outbox.view()[PEER]
        assert (view.state, view.in_flight) == (State.SENDING, 1)
        ids.append(offered[PEER].transaction_id)
    await us.seen.until(lambda seen: len(seen.left) == 3)
    assert [name for name, _ in peer.transactions[1:]] == ids
    assert peer.received == ["1", "2", "3"]
    await us.settled(PEER)
    async with us.database.transaction() as connection:
        assert await table.destinations(connection) == []


async def say_queued(us: Sending, pdu: Pdu, offered: Mapping[str, Offered]) -> None:
    """As the room graph does what is said: all of it at once."""
    async with us.database.transaction() as connection:
        await write(connection, [pdu])
        (row,) = await table.queue_pdus(connection, [(PEER, pdu.room_id, pdu.event_id)], us.clock())
        begun = table.InFlight(offered[PEER].transaction_id, us.clock(), [row.position], [])
        await table.insert_transaction(connection, PEER, begun)
    place = Place(PEER, pdu.event_id, row.position, begun.transaction_id, begun.origin_server_ts)
    us.outbox.queued(committed([pdu], PEER), [place])


async def test_what_was_delivered_leaves_the_queue_later_and_is_not_sent_again(
    us: Sending, peer: ReceivingServer
) -> None:
    """Many of them at once, while the next are said: their transactions take each other's places."""
    first, *others = says(public_room("11"), *"12345")
    await us.send([first], PEER)
    for count, pdu in enumerate(others, 1):
        await us.seen.until(
            lambda seen, count=count: len(seen.left) == count and seen.states.get(PEER) is State.IDLE
        )
        await say_queued(us, pdu, us.outbox.offered([PEER]))
    await us.seen.until(lambda seen: len(seen.left) == 5)
    await us.settled(PEER)
    assert len(peer.transactions) == 5
    assert peer.received == list("12345")
    async with us.database.transaction() as connection:
        assert await table.destinations(connection) == []
