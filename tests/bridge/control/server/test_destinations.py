"""The state of queues and servers."""

from bridge.control.server.peers import Destinations, load_destinations
from storage.federation.outbox import OutageRow, QueueDepth, queue_pdus, write_outage
from tests.bridge.control.server.conftest import Operator


async def test_without_a_sender_the_state_is_derived_from_the_database(operator: Operator) -> None:
    """Another process sends to the server, or none since the start."""
    parts = operator.node.homeserver
    # This process has no sender for these names.
    loaded = Destinations({"waits.test": QueueDepth("waits.test", 2, 1, 1_000)}, {"down.test": OutageRow(5, 3, 9)}, {})
    assert loaded.names() == {"waits.test", "down.test"}
    waits, down, fine = (loaded.shown(parts, name) for name in ("waits.test", "down.test", "fine.test"))
    assert (waits["state"], waits["pdus"], waits["edus"], waits["oldest_at"]) == ("waiting", 2, 1, 1_000)
    assert waits["lag_ms"] > 0
    assert (down["state"], down["failures"], down["failing_since"], down["retry_at"]) == ("backing_off", 3, 5, 9)
    assert [one["catching_up"] for one in (waits, down, fine)] == [False, True, False]
    assert (fine["state"], fine["lag_ms"], fine["oldest_at"], fine["failure"]) == ("idle", 0, None, None)


async def test_queues_and_outages_are_loaded(operator: Operator) -> None:
    """From the tables that the senders write."""
    async with operator.node.database.transaction() as connection:
        await queue_pdus(connection, [("waits.test", "!a", "$a")], 7)
        await write_outage(connection, "down.test", OutageRow(5, 3, 9))
    loaded = await load_destinations(operator.node.homeserver)
    assert loaded.waiting["waits.test"] == QueueDepth("waits.test", 1, 0, 7)
    assert loaded.outages == {"down.test": OutageRow(5, 3, 9)}
