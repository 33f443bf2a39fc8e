"""The limits of all rooms in flight to one server."""

from federation.outbox.pacing import (
    FIRST_AFTER_START,
    FIRST_PROBE_MS,
    MOST_PROBES,
    SMALL_BATCH,
    WINDOW,
    RoomPaces,
)
from federation.outbox.send_queue import PduRef

NOW = 10**12


def filled(*rooms: str) -> RoomPaces:
    paces = RoomPaces()
    paces.begin(NOW - 10_000)
    pdus = [PduRef(at, room) for room in rooms for at in range(WINDOW)]
    paces.sent(pdus, NOW)
    paces.staged(pdus, NOW)
    return paces


def test_an_unsent_room_has_a_full_allowance() -> None:
    """A room with a full window does not delay others."""
    assert filled("a").allowances({"a": 5, "b": 5}, NOW) == {"b": WINDOW}


def test_a_full_room_continues_in_small_batches() -> None:
    """Not event by event, unless only one is queued."""
    paces = filled("a")
    assert paces.allowances({"a": 50}, NOW + 900) == {}
    assert paces.allowances({"a": 50}, NOW + 1000) == {"a": SMALL_BATCH}
    assert paces.allowances({"a": 3}, NOW + 1000) == {"a": SMALL_BATCH}
    assert filled("a").allowances({"a": 1}, NOW + 100) == {"a": 1}


def test_allowed_at_is_that_of_the_first_room() -> None:
    """It sets the timer."""
    paces = filled("a", "b")
    assert paces.allowed_at({"a": 50, "b": 3}) == NOW + 300
    assert paces.allowed_at({"c": 3}) is None


def test_the_number_of_concurrent_probes_is_limited() -> None:
    """Only rooms with queued events are probed; the next probe starts when one has ended."""
    rooms = [f"r{at}" for at in range(MOST_PROBES + 2)]
    paces = filled("other", *rooms)
    assert paces.probe_at(rooms) == NOW + FIRST_PROBE_MS
    assert paces.probes(rooms, NOW) == []
    asked = paces.probes(rooms, NOW + FIRST_PROBE_MS)
    assert [room for room, _ in asked] == rooms[:MOST_PROBES]
    assert paces.probes(rooms, NOW + FIRST_PROBE_MS) == []
    assert paces.probe_at(rooms) is None
    room, position = asked[0]
    paces.probed(room, position, NOW + FIRST_PROBE_MS, has_it=True)
    assert paces.probe_at(rooms) == NOW + FIRST_PROBE_MS
    assert [room for room, _ in paces.probes(rooms, NOW + FIRST_PROBE_MS)] == [rooms[MOST_PROBES]]


def test_progress_in_unknown_rooms_is_ignored() -> None:
    """It may be reported late."""
    paces = filled()
    paces.has("a", 1, NOW)
    paces.probed("a", 1, NOW, has_it=True)
    assert paces.allowances({"a": 1}, NOW) == {"a": WINDOW}


def test_idle_rooms_are_removed() -> None:
    """Otherwise every room would be kept for ever."""
    paces = filled("a")
    paces.has("a", WINDOW - 1, NOW)
    paces.sent([PduRef(1, "b")], NOW)
    assert set(paces._paces) == {"b"}
    paces.clear()
    assert set(paces._paces) == set()


def test_at_the_start_a_full_window_is_assumed_in_flight() -> None:
    """From before a restart; time or a confirmed event reduces it."""
    paces = RoomPaces()
    paces.begin(NOW)
    paces.begin(NOW + 5_000)
    assert paces.allowances({"a": 90}, NOW) == {"a": FIRST_AFTER_START}
    assert paces.allowances({"a": 90}, NOW + 2_000) == {"a": FIRST_AFTER_START + 20}
    assert paces.allowances({"a": 90}, NOW + 8_000) == {"a": WINDOW}
    paces.sent([PduRef(at, "a") for at in range(FIRST_AFTER_START)], NOW)
    assert paces.allowances({"a": 90}, NOW) == {}
    assert paces.allowed_at({"a": 90}) == NOW + 1_000
    paces.has("a", 0, NOW)
    assert paces.allowances({"a": 90}, NOW) == {"a": WINDOW - FIRST_AFTER_START + 1}


def test_processed_events_are_no_longer_in_flight() -> None:
    """For one event and for several, in each room."""
    paces = filled("a")
    paces.processed([PduRef(WINDOW - 1, "a")], NOW)
    assert paces.allowances({"a": WINDOW}, NOW) == {"a": WINDOW}
    for sent in ([PduRef(100, "a")], [PduRef(101, "a"), PduRef(102, "a"), PduRef(7, "b")]):
        paces.sent(sent, NOW)
        assert paces.allowances({"a": WINDOW}, NOW) == {
            "a": WINDOW - len([one for one in sent if one.room_id == "a"])
        }
        paces.processed(sent, NOW)
        assert paces.allowances({"a": WINDOW, "b": WINDOW}, NOW) == {"a": WINDOW, "b": WINDOW}
