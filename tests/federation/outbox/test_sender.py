"""The sender of one server; `test_outbox.py` tests it within the outbox."""

import asyncio

import pytest

from federation.caches import WeightedCache
from federation.client.client import FederationClient
from federation.observer import Outcome
from federation.outbox.destination import State
from federation.outbox.messages import PeerRequest, QueuedItems, RemovalReason, TransactionSuccess
from federation.outbox.queue import DestinationQueue
from federation.outbox.retry_schedule import Contacts
from federation.outbox.sender import MAX_UNHANDLED, DestinationSender
from storage.database import Database
from storage.federation import outbox
from tests.federation.outbox.receiving_server import ReceivingServer
from tests.federation.outbox.test_queue import queued
from tests.federation.sending import Clock, Seen, says
from tests.support.neighbourhood import OWN_NAME, Neighbourhood
from tests.support.rooms import public_room

PEER = "peer.test"


async def client_of(neighbourhood: Neighbourhood, peer: ReceivingServer) -> FederationClient:
    server = await neighbourhood.server(peer, PEER)
    neighbourhood.names.add(f"_matrix-fed._tcp.{PEER}", "SRV", f"0 0 {server.port} {PEER}.")
    return neighbourhood.reach().client


def sender_of(
    database: Database, client: FederationClient, seen: Seen, clock: Clock, idle_timeout: float = 0.0
) -> DestinationSender:
    return DestinationSender(
        PEER,
        DestinationQueue(OWN_NAME, PEER, database, "epoch", WeightedCache(0), seen),
        client,
        now_ms=clock,
        jitter=lambda: 0.0,
        observer=seen,
        contacts=Contacts(),
        idle_timeout=idle_timeout,
    )


async def test_an_idle_sender_ends(database: Database, neighbourhood: Neighbourhood) -> None:
    """After it has sent all queued items."""
    peer, seen = ReceivingServer(), Seen()
    refs = await queued(database, says(public_room("11"), "1", "2"))
    sender = sender_of(database, await client_of(neighbourhood, peer), seen, Clock())
    assert sender.view() is None
    sender.receive(QueuedItems(refs))
    await sender.run()
    assert peer.received == ["1", "2"]
    assert seen.left == [(RemovalReason.DELIVERED, 2)]
    view = sender.view()
    assert view is not None
    assert view.state is State.IDLE
    assert sender.unhandled() == ()


async def test_a_clock_that_is_set_back_has_no_effect(database: Database, neighbourhood: Neighbourhood) -> None:
    """The machine's time never decreases."""
    peer, clock = ReceivingServer(), Clock()
    sender = sender_of(database, await client_of(neighbourhood, peer), Seen(), clock)
    before = sender._now()
    clock.now -= 10_000
    assert sender._now() == before


async def test_an_unexpected_exception_is_a_failed_attempt(database: Database, neighbourhood: Neighbourhood) -> None:
    """It is reported and the transaction retried; the sender must not wait for ever."""
    peer, seen = ReceivingServer(), Seen()
    client = await client_of(neighbourhood, peer)
    await queued(database, says(public_room("11"), "1"))
    sender = sender_of(database, client, seen, Clock())
    client._own_keys = lambda: 1 / 0  # type: ignore[assignment,return-value]  # an unexpected exception
    running = asyncio.create_task(sender.run())
    try:
        await seen.until(lambda seen: seen.states.get(PEER) is State.BACKING_OFF)
        assert seen.problems == [f"A transaction to {PEER} could not be sent."]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_an_exception_of_the_observer_does_not_stop_the_sender(
    database: Database, neighbourhood: Neighbourhood
) -> None:
    """The machine gets the result before the observer is called."""
    peer, seen = ReceivingServer(), Seen()
    refs = await queued(database, says(public_room("11"), "1", "2"))
    sender = sender_of(database, await client_of(neighbourhood, peer), seen, Clock())
    seen.transaction_ended = lambda *_: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    sender.receive(QueuedItems(refs))
    await sender.run()
    assert seen.left == [(RemovalReason.DELIVERED, 2)]


async def test_requests_are_cancelled_with_the_sender(database: Database, neighbourhood: Neighbourhood) -> None:
    """A request without a response is abandoned."""
    peer, seen = ReceivingServer(), Seen()
    peer.holds.clear()
    await queued(database, says(public_room("11"), "1"))
    sender = sender_of(database, await client_of(neighbourhood, peer), seen, Clock())
    running = asyncio.create_task(sender.run())
    await peer.until(lambda peer: peer.transactions)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert Outcome.ANSWERED not in seen.ended
    peer.holds.set()
    sender.mark_seen(["$never sent"])
    assert sender.unhandled() == ()


async def test_an_exception_of_the_machine_ends_the_sender(database: Database, neighbourhood: Neighbourhood) -> None:
    """Here an unexpected input raises; the outbox replaces the sender."""
    seen = Seen()
    sender = sender_of(database, await client_of(neighbourhood, ReceivingServer()), seen, Clock(), idle_timeout=60.0)
    running = asyncio.create_task(sender.run())
    await seen.until(lambda seen: seen.states.get(PEER) is State.IDLE)
    sender.receive(TransactionSuccess())
    with pytest.raises(AssertionError, match="unexpected input"):
        await running


async def test_stop_ends_the_sender(database: Database, neighbourhood: Neighbourhood) -> None:
    """Delivered items are deleted, so that they are not sent again."""
    peer, seen = ReceivingServer(), Seen()
    refs = await queued(database, says(public_room("11"), "1", "2"))
    sender = sender_of(database, await client_of(neighbourhood, peer), seen, Clock(), idle_timeout=60.0)
    running = asyncio.create_task(sender.run())
    await seen.until(lambda seen: seen.left)
    sender.stop()
    await running
    async with database.transaction() as connection:
        assert await outbox.list_destinations(connection) == []
    assert len(refs) == len(peer.received)


async def test_the_number_of_unhandled_requests_and_progress_is_limited(
    database: Database, neighbourhood: Neighbourhood
) -> None:
    """Queued items are never dropped."""
    sender = sender_of(database, await client_of(neighbourhood, ReceivingServer()), Seen(), Clock())
    for _ in range(3 * MAX_UNHANDLED):
        sender.receive(PeerRequest())
    sender.receive(QueuedItems())
    assert len(sender.unhandled()) == MAX_UNHANDLED + 1
