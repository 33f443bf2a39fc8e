"""The limits of all rooms in flight to one server."""

from federation.outbox.pacing import (
    FIRST_AFTER_START,
    FIRST_PROBE_DELAY_MS,
    MAX_PROBES,
    SMALL_BATCH,
    WINDOW,
    DestinationPacer,
)
from federation.outbox.send_queue import PduRef

NOW = 10**12


def filled(*rooms: str) -> DestinationPacer:
    pacer = DestinationPacer()
    pacer.start(NOW - 10_000)
    pdus = [PduRef(at, room) for room in rooms for at in range(WINDOW)]
    pacer.sent(pdus, NOW)
    pacer.staged(pdus, NOW)
    return pacer


def test_an_unsent_room_has_a_full_allowance() -> None:
    """A room with a full window does not delay others."""
    assert filled("a").allowances({"a": 5, "b": 5}, NOW) == {"b": WINDOW}


def test_a_full_room_continues_in_small_batches() -> None:
    """Not event by event, unless only one is queued."""
    pacer = filled("a")
    assert pacer.allowances({"a": 50}, NOW + 900) == {}
    assert pacer.allowances({"a": 50}, NOW + 1000) == {"a": SMALL_BATCH}
    assert pacer.allowances({"a": 3}, NOW + 1000) == {"a": SMALL_BATCH}
    assert filled("a").allowances({"a": 1}, NOW + 100) == {"a": 1}


def test_allowed_at_is_that_of_the_first_room() -> None:
    """It sets the timer."""
    pacer = filled("a", "b")
    assert pacer.allowed_at({"a": 50, "b": 3}) == NOW + 300
    assert pacer.allowed_at({"c": 3}) is None


def test_the_number_of_concurrent_probes_is_limited() -> None:
    """Only rooms with queued events are probed; the next probe starts when one has ended."""
    rooms = [f"r{at}" for at in range(MAX_PROBES + 2)]
    pacer = filled("other", *rooms)
    assert pacer.probe_at(rooms) == NOW + FIRST_PROBE_DELAY_MS
    assert pacer.probes(rooms, NOW) == []
    asked = pacer.probes(rooms, NOW + FIRST_PROBE_DELAY_MS)
    assert [room for room, _ in asked] == rooms[:MAX_PROBES]
    assert pacer.probes(rooms, NOW + FIRST_PROBE_DELAY_MS) == []
    assert pacer.probe_at(rooms) is None
    room, position = asked[0]
    pacer.probed(room, position, NOW + FIRST_PROBE_DELAY_MS, has_it=True)
    assert pacer.probe_at(rooms) == NOW + FIRST_PROBE_DELAY_MS
    assert [room for room, _ in pacer.probes(rooms, NOW + FIRST_PROBE_DELAY_MS)] == [rooms[MAX_PROBES]]


def test_progress_in_unknown_rooms_is_ignored() -> None:
    """It may be reported late."""
    pacer = filled()
    pacer.confirmed("a", 1, NOW)
    pacer.probed("a", 1, NOW, has_it=True)
    assert pacer.allowances({"a": 1}, NOW) == {"a": WINDOW}


def test_idle_rooms_are_removed() -> None:
    """Otherwise every room would be kept for ever."""
    pacer = filled("a")
    pacer.confirmed("a", WINDOW - 1, NOW)
    pacer.sent([PduRef(1, "b")], NOW)
    assert set(pacer._rooms) == {"b"}
    pacer.clear()
    assert set(pacer._rooms) == set()


def test_at_the_start_a_full_window_is_assumed_in_flight() -> None:
    """From before a restart; time or a confirmed event reduces it."""
    pacer = DestinationPacer()
    pacer.start(NOW)
    pacer.start(NOW + 5_000)
    assert pacer.allowances({"a": 90}, NOW) == {"a": FIRST_AFTER_START}
    assert pacer.allowances({"a": 90}, NOW + 2_000) == {"a": FIRST_AFTER_START + 20}
    assert pacer.allowances({"a": 90}, NOW + 8_000) == {"a": WINDOW}
    pacer.sent([PduRef(at, "a") for at in range(FIRST_AFTER_START)], NOW)
    assert pacer.allowances({"a": 90}, NOW) == {}
    assert pacer.allowed_at({"a": 90}) == NOW + 1_000
    pacer.confirmed("a", 0, NOW)
    assert pacer.allowances({"a": 90}, NOW) == {"a": WINDOW - FIRST_AFTER_START + 1}


def test_processed_events_are_no_longer_in_flight() -> None:
    """For one event and for several, in each room."""
    pacer = filled("a")
    pacer.processed([PduRef(WINDOW - 1, "a")], NOW)
    assert pacer.allowances({"a": WINDOW}, NOW) == {"a": WINDOW}
    for sent in ([PduRef(100, "a")], [PduRef(101, "a"), PduRef(102, "a"), PduRef(7, "b")]):
        pacer.sent(sent, NOW)
        assert pacer.allowances({"a": WINDOW}, NOW) == {"a": WINDOW - len([one for one in sent if one.room_id == "a"])}
        pacer.processed(sent, NOW)
        assert pacer.allowances({"a": WINDOW, "b": WINDOW}, NOW) == {"a": WINDOW, "b": WINDOW}
