"""The outbox with servers on loopback, over TLS, and Postgres."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence

import pytest

from federation.client.client import FederationClient
from federation.client.requests import Content, RequestTarget
from federation.observer import Outcome, QueueDepth
from federation.outbox.destination import MAX_BACKLOG, State
from federation.outbox.messages import RemovalReason
from federation.outbox.retry_schedule import NO_CONTACT, Contact
from federation.rooms.ports import CommittedEvent
from federation.transactions.edus import Receipt, ToDevice, Typing
from federation.transactions.outgoing_edus import receipt, to_device, typing
from storage.database import Database, connect_once
from storage.federation import outbox as table
from storage.federation.outbox import fetch_outage
from tests.federation.outbox.receiving_server import ReceivingServer
from tests.federation.sending import Clock, Sending, committed, queue, rooms, says, sending, write
from tests.support.neighbourhood import OWN_KEYS, OWN_NAME, Neighbourhood, answering
from tests.support.postgres import end_sessions
from tests.support.rooms import ALICE, public_room

PEER = "peer.test"


class FailureCase(Exception):
    """How a transaction fails."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


BOB = "@bob:us.test"


@pytest.fixture
async def peer() -> ReceivingServer:
    return ReceivingServer()


@pytest.fixture
async def client(neighbourhood: Neighbourhood, peer: ReceivingServer) -> FederationClient:
    server = await neighbourhood.server(peer, PEER)
    neighbourhood.names.add(f"_matrix-fed._tcp.{PEER}", "SRV", f"0 0 {server.port} {PEER}.")
    return neighbourhood.reach().client


@pytest.fixture
async def us(database: Database, client: FederationClient) -> AsyncIterator[Sending]:
    async with sending(database, client) as running:
        yield running


async def test_committed_events_are_sent_in_order(us: Sending, peer: ReceivingServer) -> None:
    """Each once; then the queue is empty."""
    room = public_room("11")
    await us.send(says(room, "1", "2"), PEER)
    await us.send(says(room, "3"), PEER)
    await peer.until_received(3)
    assert peer.received == ["1", "2", "3"]
    await us.seen.until(lambda seen: sum(count for _, count in seen.left) == 3)
    assert {reason for reason, _ in us.seen.left} == {RemovalReason.DELIVERED}
    assert peer.transactions[0][1]["origin"] == OWN_NAME
    await us.settled(PEER)
    async with us.database.transaction() as connection:
        assert await table.list_destinations(connection) == []


async def test_events_that_were_not_committed_are_not_sent(us: Sending, peer: ReceivingServer) -> None:
    """Queue rows and events are committed together."""
    room = public_room("11")
    first, second = says(room, "1", "2")
    with contextlib.suppress(FailureCase):
        async with us.database.transaction() as connection:
            await write(connection, [first])
            await queue(connection, us.outbox, committed([first], PEER), us.clock())
            raise FailureCase
    await us.send([second], PEER)
    await peer.until_received(1)
    assert peer.received == ["2"]


async def test_one_transaction_at_a_time_of_at_most_fifty_events(us: Sending, peer: ReceivingServer) -> None:
    """Synapse responds with 429 to a concurrent one."""
    peer.holds.clear()
    every = [says(room, *(f"{number}.{word}" for word in range(20))) for number, room in enumerate(rooms(7))]
    for pdus in every:
        await us.send(pdus, PEER)
    await peer.until(lambda peer: peer.transactions)
    peer.holds.set()
    await us.until(PEER, lambda: len(peer.received) == 140)
    assert peer.most_at_once == 1
    assert max(len(body["pdus"]) for _, body in peer.transactions) == 50
    assert len(set(peer.ids)) == len(peer.ids)


async def test_a_failed_transaction_is_sent_again_unchanged(us: Sending, peer: ReceivingServer) -> None:
    """With the same id and body, whatever was queued meanwhile: the peer may have processed it."""
    # aiohttp itself repeats a PUT on a new connection when its kept-alive connection is broken.
    peer.refusals += [500, 0, 0, 502]
    room = public_room("11")
    await us.send(says(room, "1"), PEER)
    for attempt in range(1, 4):
        await us.until_failed(PEER, attempt)
        await us.send(says(room, f"later {attempt}"), PEER)
        us.later(PEER, 3_600_000)
    await us.until(PEER, lambda: len(peer.received) == 4)
    assert peer.ids[:5] == [peer.ids[0]] * 5
    assert all(body == peer.transactions[0][1] for _, body in peer.transactions[:5])
    assert peer.received == ["1", "later 1", "later 2", "later 3"]
    assert us.seen.ended[:3] == [Outcome.FAILED, Outcome.UNREACHABLE, Outcome.FAILED]


async def test_a_request_from_a_server_ends_its_back_off(us: Sending, peer: ReceivingServer) -> None:
    """It may be up to an hour long."""
    peer.refusals += [500] * 10
    await us.send(says(public_room("11"), "1"), PEER)
    for attempt in range(1, 11):
        await us.until_failed(PEER, attempt)
        if attempt < 10:
            us.later(PEER, 3_600_000)
    async with us.database.transaction() as connection:
        outage = await fetch_outage(connection, PEER)
    assert outage is not None
    assert outage.retry_at - us.clock.now > 1_000_000
    us.clock.now += 5_000
    us.outbox.request_received(PEER)
    us.outbox.request_received("stranger.test")
    await us.seen.until(lambda seen: seen.states[PEER] is State.IDLE)
    assert len(peer.transactions) == 11
    async with us.database.transaction() as connection:
        assert await fetch_outage(connection, PEER) is None


async def test_an_operator_can_retry_a_server(us: Sending, peer: ReceivingServer) -> None:
    """This ends the back-off. Servers that may not be contacted, and this server, are ignored."""
    peer.refusals += [500] * 10
    await us.send(says(public_room("11"), "1"), PEER)
    for attempt in range(1, 11):
        await us.until_failed(PEER, attempt)
        if attempt < 10:
            us.later(PEER, 3_600_000)
    us.clock.now += 5_000
    us.outbox.retry(OWN_NAME)
    us.outbox.retry(PEER)
    await us.seen.until(lambda seen: seen.states[PEER] is State.IDLE)
    assert len(peer.transactions) == 11
    assert OWN_NAME not in us.outbox._senders


async def test_contacts_are_recorded(us: Sending, peer: ReceivingServer) -> None:
    """The last success, the last failure with its reason, and the last incoming request."""
    peer.refusals.append(502)
    assert us.outbox.contact(PEER) == NO_CONTACT
    await us.send(says(public_room("11"), "1"), PEER)
    await us.until_failed(PEER)
    first = us.clock.now
    contact = us.outbox.contact(PEER)
    assert (contact.reached_at, contact.failed_at, contact.request_received_at) == (None, first, None)
    assert contact.failure is not None
    assert contact.failure.startswith("answered 502")
    us.later(PEER, 60_000)
    await us.seen.until(lambda seen: (RemovalReason.DELIVERED, 1) in seen.left)
    us.clock.now += 1
    us.outbox.request_received(PEER)
    assert us.outbox.contact(PEER) == Contact(first + 60_000, first, contact.failure, first + 60_001)
    assert us.outbox.contacts() == {PEER}


async def test_429_repeats_the_transaction_later(us: Sending, peer: ReceivingServer) -> None:
    """It is the same transaction."""
    peer.refusals.append(429)
    await us.send(says(public_room("11"), "1"), PEER)
    await us.until_failed(PEER)
    us.later(PEER, 60_000)
    await peer.until(lambda peer: len(peer.transactions) == 2)
    assert len(set(peer.ids)) == 1


async def test_a_late_response_counts_as_none(
    database: Database, client: FederationClient, peer: ReceivingServer
) -> None:
    """The peer has the transaction and recognises it when it is repeated."""
    peer.holds.clear()
    async with sending(database, client, timeout=0.1) as us:
        await us.send(says(public_room("11"), "1"), PEER)
        await us.until_failed(PEER)
        assert us.seen.ended == [Outcome.TIMED_OUT]
        peer.holds.set()
        us.later(PEER, 60_000)
        await us.seen.until(lambda seen: (RemovalReason.DELIVERED, 1) in seen.left)
    assert peer.transactions[0] == peer.transactions[1]


async def test_an_unreachable_server_does_not_delay_others(
    us: Sending, peer: ReceivingServer, neighbourhood: Neighbourhood
) -> None:
    """Each server has its own queue."""
    await us.send(says(public_room("11"), "1"), "nowhere.test", PEER)
    await peer.until_received(1)
    await us.seen.until(lambda seen: seen.states.get("nowhere.test") is State.BACKING_OFF)
    await us.seen.until(lambda seen: (RemovalReason.DELIVERED, 1) in seen.left)
    await us.settled(PEER)
    async with us.database.transaction() as connection:
        assert await table.list_destinations(connection) == ["nowhere.test"]


async def test_events_are_queued_only_for_servers_that_may_be_contacted(
    database: Database, client: FederationClient, peer: ReceivingServer
) -> None:
    """Others would stay queued for ever. This server does not send to itself."""
    async with sending(database, client, may_contact=lambda name: name == PEER) as us:
        await us.send(says(public_room("11"), "1"), "stranger.test", OWN_NAME, PEER)
        await peer.until_received(1)
        async with database.transaction() as connection:
            assert set(await table.list_destinations(connection)) <= {PEER}


async def test_after_an_outage_a_long_queue_is_not_sent_completely(us: Sending, peer: ReceivingServer) -> None:
    """Of a room with a long queue the newest event is sent, and the peer fetches the others; a short queue
    is sent completely."""
    peer.refusals.append(500)
    long, short = rooms(2)
    await us.send(says(short, "short 1"), PEER)
    await us.until_failed(PEER)
    peer.refusals.append(500)
    us.later(PEER, 2 * 3_600_000)
    await us.until_failed(PEER, 2)
    await us.send(says(long, *(f"long {number}" for number in range(MAX_BACKLOG + 10))), PEER)
    await us.send(says(short, "short 2"), PEER)
    us.later(PEER, 3_600_000)
    await us.until(PEER, lambda: len(peer.received) == 3)
    assert sorted(peer.received) == [f"long {MAX_BACKLOG + 9}", "short 1", "short 2"]
    assert (RemovalReason.STALE, MAX_BACKLOG + 9) in us.seen.left


async def test_a_room_is_paced_by_what_the_peer_has_processed(
    database: Database, client: FederationClient, peer: ReceivingServer
) -> None:
    """A 200 only means that events are staged: fewer than a hundred events of one room are in flight, and
    the peer is probed."""
    peer.processed = False
    peer.has = lambda event_id: False
    async with sending(database, client, now_ms) as us:
        await us.send(says(public_room("11"), *map(str, range(200))), PEER)
        await peer.until(lambda peer: peer.probed)
        assert len(peer.received) <= 80
        peer.has = lambda event_id: True
        await peer.until_received(200)
    assert peer.received == [str(number) for number in range(200)]


class FailsOnce:
    """A witness of requests that raises at the first probe."""

    def __init__(self) -> None:
        self.has_failed = False

    async def request_ended(
        self, peer: str, method: str, target: RequestTarget, content: Content, problem: BaseException | None
    ) -> None:
        if method == "GET" and not self.has_failed:
            self.has_failed = True
            raise ZeroDivisionError


async def test_a_probe_that_fails_is_followed_by_another(
    database: Database, neighbourhood: Neighbourhood, peer: ReceivingServer
) -> None:
    """Whatever the exception; otherwise the room would never be probed again."""
    peer.processed = False
    server = await neighbourhood.server(peer, PEER)
    neighbourhood.names.add(f"_matrix-fed._tcp.{PEER}", "SRV", f"0 0 {server.port} {PEER}.")
    reach = neighbourhood.reach()
    client = FederationClient(
        OWN_NAME, lambda: OWN_KEYS, reach.resolver, reach.connections, may_contact=lambda _: True, recorder=FailsOnce()
    )
    async with sending(database, client, now_ms) as us:
        await us.send(says(public_room("11"), *map(str, range(200))), PEER)
        await peer.until(lambda peer: len(peer.probed) > 1)
        assert us.seen.problems == [f"A probe of {PEER} failed."]


async def test_progress_of_the_peer_lets_more_events_be_sent(us: Sending, peer: ReceivingServer) -> None:
    """It has referred to an event, or one of its users has read it."""
    peer.processed = False
    peer.has = lambda event_id: False
    pdus = says(public_room("11"), *map(str, range(100)))
    await us.send(pdus, PEER)
    while len(peer.received) < 100:
        await us.seen.until(lambda seen: seen.states.get(PEER) is State.PACED)
        sent = len(peer.received)
        us.outbox.mark_seen(PEER, [pdus[sent - 1].event_id, "$unknown"])
        us.outbox.mark_seen("stranger.test", [pdus[sent - 1].event_id])
        await peer.until_received(sent + 1)


async def test_a_received_event_confirms_its_prev_events(us: Sending, peer: ReceivingServer) -> None:
    """The server of an event has the events that it refers to."""
    peer.processed = False
    peer.has = lambda event_id: False
    room = public_room("11")
    pdus = says(room, *map(str, range(100)))
    await us.send(pdus, PEER)
    while len(peer.received) < 100:
        await us.seen.until(lambda seen: seen.states.get(PEER) is State.PACED)
        sent = len(peer.received)
        answer = room.propose("m.room.message", ALICE, {}, after=[pdus[sent - 1]], auth=[])
        us.outbox.notify_queued([CommittedEvent(answer, room.version, PEER, frozenset())], [])
        await peer.until_received(sent + 1)


async def test_edus_that_must_be_delivered_are_queued_in_the_database(us: Sending, peer: ReceivingServer) -> None:
    """In the transaction of the data they belong to, until the peer has them."""
    peer.refusals.append(500)
    message = ToDevice(BOB, "t", "m1", {"@p:peer.test": {"*": {"body": "x"}}})
    async with us.database.transaction() as connection:
        await us.outbox.queue_edu(connection, [PEER, OWN_NAME], to_device(message))
    await us.until_failed(PEER)
    async with us.database.transaction() as connection:
        assert len(await table.list_oldest_edus(connection, PEER, 9)) == 1
    us.later(PEER, 3_600_000)
    await us.seen.until(lambda seen: (RemovalReason.DELIVERED, 1) in seen.left)
    assert [edu["content"]["message_id"] for edu in peer.edus] == ["m1", "m1"]
    assert len(set(peer.ids)) == 1


async def test_an_ephemeral_edu_can_start_a_sender(us: Sending, peer: ReceivingServer) -> None:
    """For example a receipt after a long silence."""
    us.outbox.send_lossy([PEER], receipt(Receipt("!r:us.test", BOB, "$1", 1)))
    await peer.until(lambda peer: peer.edus)
    assert [edu["edu_type"] for edu in peer.edus] == ["m.receipt"]


async def test_ephemeral_edus_are_coalesced(us: Sending, peer: ReceivingServer) -> None:
    """A queued EDU is replaced by a newer one, and none is in the database."""
    peer.holds.clear()
    await us.send(says(public_room("11"), "1"), PEER)
    await peer.until(lambda peer: peer.transactions)
    for number in range(5):
        us.outbox.send_lossy([PEER], typing(Typing("!r:us.test", BOB, number % 2 == 0)))
        us.outbox.send_lossy([PEER, OWN_NAME], receipt(Receipt("!r:us.test", BOB, f"${number}", number)))
    peer.holds.set()
    await peer.until(lambda peer: len(peer.edus) == 2)
    types, reads = sorted(peer.edus, key=lambda edu: edu["edu_type"], reverse=True)
    assert types["content"]["typing"] is True
    assert reads["content"]["!r:us.test"]["m.read"][BOB]["event_ids"] == ["$4"]


async def test_a_new_outbox_resumes_the_previous_one(
    database: Database, client: FederationClient, peer: ReceivingServer
) -> None:
    """Even in the middle of a transaction, which is repeated with the same id unless more was queued
    since."""
    peer.holds.clear()
    room = public_room("11")
    clock = Clock()
    async with sending(database, client, clock) as us:
        await us.send(says(room, "1", "2"), PEER)
        await peer.until(lambda peer: peer.transactions)
    async with sending(database, client, clock) as us:
        await peer.until(lambda peer: len(peer.transactions) == 2)
        await us.send(says(room, "3"), PEER)
    peer.holds.set()
    async with sending(database, client, clock) as us:
        await peer.until_received(3)
        await us.seen.until(lambda seen: sum(count for _, count in seen.left) == 3)
    first, again, later = peer.transactions
    assert first == again
    assert [pdu["content"]["body"] for pdu in later[1]["pdus"]] == ["1", "2", "3"]
    assert later[0] != first[0]
    async with database.transaction() as connection:
        assert await table.list_destinations(connection) == [], "what was delivered is not sent once more"


async def test_an_outage_survives_a_restart(
    database: Database, client: FederationClient, peer: ReceivingServer
) -> None:
    """A new process does not try an unreachable server at once."""
    peer.refusals.append(500)
    clock = Clock()
    async with sending(database, client, clock) as us:
        await us.send(says(public_room("11"), "1"), PEER)
        await us.until_failed(PEER)
    async with sending(database, client, clock) as us:
        await us.seen.until(lambda seen: PEER in seen.waiting)
        us.later(PEER, 1_000)
        assert len(peer.transactions) == 1
        us.later(PEER, 5_000)
        await us.seen.until(lambda seen: seen.ended == [Outcome.ANSWERED])
    assert len(peer.transactions) == 2


async def test_two_processes_never_send_to_one_server(
    database: Database, client: FederationClient, peer: ReceivingServer
) -> None:
    """Items that one process queues are sent at once by the process that sends to the server."""
    room = public_room("11")
    async with sending(database, client) as one, sending(database, client) as two:
        await one.send(says(room, "1"), PEER)
        await peer.until_received(1)
        await two.send(says(room, "2"), PEER)
        await peer.until_received(2)
        assert two.outbox.view() == {}
        assert two.seen.ended == []
        await one.outbox.close()
        await two.send(says(room, "3"), PEER)
        await peer.until_received(3)
        await two.seen.until(lambda seen: seen.ended)
    assert peer.most_at_once == 1


@pytest.mark.parametrize("how", ["heard from", "told to"])
async def test_the_sending_process_is_notified_of_requests_at_another_process(
    database: Database, client: FederationClient, peer: ReceivingServer, how: str
) -> None:
    """Any process may receive a request or an operator's command."""
    peer.refusals += [500, 500]
    clock = Clock()
    async with sending(database, client, clock) as one:
        await one.send(says(public_room("11"), "1"), PEER)
        await one.until_failed(PEER)
        one.later(PEER, 3_600_000)
        await one.until_failed(PEER, 2)
        async with sending(database, client, clock) as two:
            while two.outbox._senders or not two.seen.waiting:
                await asyncio.sleep(0.01)
            clock.now += 5_000
            if how == "heard from":
                two.outbox.request_received(PEER)
                two.outbox.request_received(PEER)
            else:
                two.outbox.retry(PEER)
            await peer.until_received(1)
            assert two.seen.ended == []
            await one.seen.until(lambda seen: (RemovalReason.DELIVERED, 1) in seen.left)


async def test_a_lost_session_stops_sending_until_it_is_restored(
    database: Database, client: FederationClient, peer: ReceivingServer
) -> None:
    """Another process may hold the locks meanwhile. The transaction in flight is repeated with the same
    id."""
    peer.holds.clear()
    async with sending(database, client) as us:
        await us.send(says(public_room("11"), "1"), PEER)
        await peer.until(lambda peer: peer.transactions)
        await end_sessions(database)
        await peer.until(lambda peer: len(peer.transactions) == 2)
        peer.holds.set()
        await us.seen.until(lambda seen: (RemovalReason.DELIVERED, 1) in seen.left)
    assert peer.transactions[0] == peer.transactions[1]


async def test_an_idle_sender_ends(database: Database, client: FederationClient, peer: ReceivingServer) -> None:
    """Any process can then send to the server, and delivered items are deleted."""
    room = public_room("11")
    async with sending(database, client, idle_timeout=0.0) as us:
        await us.send(says(room, "1"), PEER)
        await us.seen.until(lambda seen: (RemovalReason.DELIVERED, 1) in seen.left)
        while us.outbox._running:
            await asyncio.gather(*us.outbox._running.values())
        assert us.outbox.view() == {}
        async with database.transaction() as connection:
            assert await table.list_destinations(connection) == []
        await us.send(says(room, "2"), PEER)
        await peer.until_received(2)


async def test_a_server_in_a_long_outage_has_no_sender(
    database: Database, client: FederationClient, peer: ReceivingServer
) -> None:
    """Until it is retried or sends a request. Many such servers use neither memory nor locks."""
    peer.refusals += [500] * 3
    async with sending(database, client, sweep=0.01, idle_timeout=0.0) as us:
        await us.send(says(public_room("11"), "1"), PEER)
        await us.until_failed(PEER)
        us.later(PEER, 7_200_000)
        await us.seen.until(lambda seen: len(seen.ended) == 2)
        while us.outbox.view():
            await asyncio.sleep(0.01)
        us.clock.now += 7_200_000
        await us.seen.until(lambda seen: len(seen.ended) == 3)
        while us.outbox.view():
            await asyncio.sleep(0.01)
        us.seen.waiting.clear()
        await us.seen.until(lambda seen: PEER in seen.waiting)
        assert us.outbox.view() == {}
        us.clock.now += 5_000
        us.outbox.request_received(PEER)
        await peer.until_received(1)
        await us.seen.until(lambda seen: seen.left)


async def test_queue_depths_are_reported(database: Database, client: FederationClient, peer: ReceivingServer) -> None:
    """For each server, every few seconds."""
    peer.refusals.append(500)
    async with sending(database, client, sweep=0.01) as us:
        await us.send(says(public_room("11"), "1", "2"), PEER)
        us.clock.now += 700
        await us.seen.until(lambda seen: seen.waiting.get(PEER) == QueueDepth(PEER, 2, 0, 700))


async def test_a_sweep_that_fails_is_followed_by_another(
    database: Database, client: FederationClient, peer: ReceivingServer
) -> None:
    """Whatever the exception: only a sweep finds items without a notification."""
    async with sending(database, client, sweep=0.01) as us:
        (pdu,) = says(public_room("11"), "1")
        working, failed = us.seen.queue_depths, asyncio.Event()

        def queue_depths(waiting: Sequence[QueueDepth]) -> None:
            us.seen.queue_depths = working  # type: ignore[method-assign]
            failed.set()
            raise ZeroDivisionError

        us.seen.queue_depths = queue_depths  # type: ignore[method-assign]
        await failed.wait()
        async with database.transaction() as connection:
            await write(connection, [pdu])
            await table.queue_pdus(connection, [(PEER, pdu.room_id, pdu.event_id)], us.clock.now)
        await peer.until_received(1)


async def test_closing_does_not_wait_for_an_unresponsive_database(
    database: Database, client: FederationClient, peer: ReceivingServer
) -> None:
    """Delivered items that could not be deleted are sent again, and another process can send at once."""
    peer.holds.clear()
    other = await connect_once(database.address)
    try:
        async with sending(database, client) as us:
            await us.send(says(public_room("11"), "1"), PEER)
            await peer.until(lambda peer: peer.transactions)
            await other.execute("BEGIN")
            await other.execute("SELECT * FROM outbox_pdus FOR UPDATE")
            peer.holds.set()
            await us.seen.until(lambda seen: seen.left)
        lease = await database.session.try_lease(f"outbox {PEER}")
        assert lease is not None
        await lease.release()
    finally:
        await other.close()
    async with sending(database, client) as us:
        await us.seen.until(lambda seen: seen.left)
    assert peer.ids[0] == peer.ids[1]


async def test_a_sender_that_missed_a_notification_is_replaced(
    database: Database, client: FederationClient, peer: ReceivingServer
) -> None:
    """When items are queued for an idle sender, a new one counts the queue."""
    room = public_room("11")
    async with sending(database, client, sweep=0.01) as us:
        await us.send(says(room, "1"), PEER)
        await us.seen.until(lambda seen: (RemovalReason.DELIVERED, 1) in seen.left)
        (pdu,) = says(room, "2")
        async with database.transaction() as connection:
            await write(connection, [pdu])
            await table.queue_pdus(connection, [(PEER, pdu.room_id, pdu.event_id)], us.clock.now)
        us.clock.now += 31_000
        await peer.until_received(2)


async def test_refused_events_are_reported(
    database: Database, client: FederationClient, neighbourhood: Neighbourhood
) -> None:
    """The peer has the transaction nevertheless."""
    server = await neighbourhood.server(answering({"pdus": {"$e": {"error": "No."}}}), "picky.test")
    neighbourhood.names.add("_matrix-fed._tcp.picky.test", "SRV", f"0 0 {server.port} picky.test.")
    async with sending(database, neighbourhood.reach().client) as us:
        await us.send(says(public_room("11"), "1"), "picky.test")
        await us.seen.until(lambda seen: seen.objections == [("$e", "No.")])
