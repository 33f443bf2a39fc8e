"""The part of the queue that is held in memory."""

from federation.outbox.send_queue import LOAD, LOAD_BELOW, MAX_EPHEMERAL, MAX_HELD, MAX_LANES, EduRef, PduRef, SendQueue


def pdus(room: str, *positions: int) -> tuple[PduRef, ...]:
    return tuple(PduRef(position, room) for position in positions)


def everything(queue: SendQueue, most: int = 1000) -> list[int]:
    taken = queue.take_pdus(most, queue.waiting())
    return [pdu.position for pdu in taken]


def test_the_oldest_events_of_all_rooms_are_taken_first() -> None:
    """And of each room at most its allowance."""
    queue = SendQueue()
    queue.add([*pdus("a", 1, 4, 5), *pdus("b", 2, 3, 6)], [])
    assert queue.waiting() == {"a": 3, "b": 3}
    assert queue.take_pdus(3, {"a": 80, "b": 1}) == (*pdus("a", 1), *pdus("b", 2), *pdus("a", 4))
    assert queue.take_pdus(3, {}) == ()
    assert everything(queue) == [3, 5, 6]
    assert queue.waiting() == {}


def test_edus_that_must_be_delivered_are_taken_first() -> None:
    """The number of EDUs is limited too."""
    queue = SendQueue()
    queue.add([], [EduRef(1, ephemeral=True), EduRef(2), EduRef(3)])
    assert queue.take_edus(2) == (EduRef(2), EduRef(3))
    assert queue.take_edus(2) == (EduRef(1, ephemeral=True),)
    assert queue.take_edus(2) == ()


def test_returned_items_keep_their_position() -> None:
    """They are sent before later ones."""
    queue = SendQueue()
    queue.add(pdus("a", 1, 2, 3), [EduRef(1, ephemeral=True), EduRef(2)])
    first, edus = queue.take_pdus(2, {"a": 2}), queue.take_edus(9)
    queue.add(pdus("a", 4), [EduRef(5, ephemeral=True)])
    queue.put_back(first, edus)
    assert everything(queue) == [1, 2, 3, 4]
    assert queue.take_edus(9) == (EduRef(2), EduRef(1, ephemeral=True), EduRef(5, ephemeral=True))


def test_a_long_queue_stays_in_postgres() -> None:
    """A lane holds a part of it and loads the next part in time; items queued meanwhile are not missed."""
    queue = SendQueue()
    queue.add(pdus("a", *range(MAX_HELD + 20)), [])
    assert queue.waiting() == {"a": MAX_HELD}
    assert queue.start_loads() == []
    assert not queue.is_complete()
    sent = queue.take_pdus(MAX_HELD - LOAD_BELOW + 1, {"a": 80})
    assert queue.start_loads() == ["a"]
    assert queue.start_loads() == []
    queue.remove(sent, [])
    queue.add(pdus("a", 500), [])
    queue.loaded("a", range(len(sent), MAX_HELD + 20))
    everything_else = everything(queue)
    assert everything_else == list(range(len(sent), MAX_HELD + 20))
    assert queue.start_loads() == ["a"]
    queue.loaded("a", [*range(MAX_HELD), 500])
    assert everything(queue)[-1] == 500


def test_loaded_items_are_not_sent_twice() -> None:
    """Neither held items, nor items in flight, nor items that were delivered during the load."""
    queue = SendQueue()
    queue.mark_more("a")
    assert queue.start_loads() == ["a"]
    queue.loaded("a", [1, 2, 3])
    flying = queue.take_pdus(1, {"a": 1})
    queue.mark_more("a")
    assert queue.start_loads() == ["a"]
    queue.remove(flying, [])
    flying = queue.take_pdus(1, {"a": 1})
    queue.loaded("a", [1, 2, 3, 4])
    assert everything(queue) == [3, 4]


def test_a_full_load_is_followed_by_another() -> None:
    """There may be more items."""
    queue = SendQueue()
    queue.mark_more(None)
    assert queue.start_loads() == [None]
    queue.loaded(None, range(LOAD))
    assert queue.start_loads() == []
    queue.take_edus(LOAD - LOAD_BELOW + 1)
    assert queue.start_loads() == [None]
    queue.loaded(None, [])
    assert queue.is_complete()


def test_items_are_sorted_by_position() -> None:
    """A transaction that began earlier may commit later."""
    queue = SendQueue()
    queue.mark_more("a")
    queue.start_loads()
    queue.loaded("a", [7, 3, 5])
    assert everything(queue) == [3, 5, 7]


def test_the_number_of_ephemeral_edus_is_limited() -> None:
    """The oldest are returned."""
    queue = SendQueue()
    edus = [EduRef(at, ephemeral=True) for at in range(MAX_EPHEMERAL + 3)]
    assert queue.add([], edus) == tuple(edus[:3])
    assert queue.clear() == tuple(edus[3:])


def test_items_in_flight_are_not_taken_again() -> None:
    """Postgres still has them until there is a response."""
    queue = SendQueue()
    queue.mark_in_flight(pdus("a", 1), [EduRef(2)])
    for lane in ("a", None):
        queue.mark_more(lane)
    assert set(queue.start_loads()) == {"a", None}
    queue.loaded("a", [1, 3])
    queue.loaded(None, [2, 4])
    assert everything(queue) == [3]
    assert queue.take_edus(9) == (EduRef(4),)
    queue.put_back(pdus("a", 1), [EduRef(2)])
    assert everything(queue) == [1]


def test_a_load_result_after_clear_is_ignored() -> None:
    """The queue is counted again."""
    queue = SendQueue()
    queue.mark_more("a")
    queue.start_loads()
    queue.clear()
    queue.loaded("a", [1])
    assert queue.waiting() == {}
    assert queue.is_complete()


def test_an_empty_lane_is_removed() -> None:
    """Otherwise every room would be kept for ever."""
    queue = SendQueue()
    queue.add(pdus("a", 1), [])
    queue.remove(queue.take_pdus(1, {"a": 1}), [])
    queue.mark_more("b")
    queue.start_loads()
    queue.loaded("b", [])
    assert queue._lanes == {}


def test_is_empty() -> None:
    """Held, expected, in-flight and ephemeral items all count."""
    queue = SendQueue()
    assert queue.is_empty
    queue.add(pdus("a", 1), [])
    taken = queue.take_pdus(1, {"a": 1})
    assert not queue.is_empty
    queue.remove(taken, [])
    assert queue.is_empty
    queue.add((), [EduRef(1, ephemeral=True)])
    assert not queue.is_empty
    queue.take_edus(1)
    assert queue.is_empty
    queue.mark_more("a")
    assert not queue.is_empty


def test_the_number_of_lanes_with_items_is_limited() -> None:
    """Of the others only the name is known; each is loaded in turn, the longest waiting first."""
    queue = SendQueue()
    rooms = [f"!{number}" for number in range(MAX_LANES + 2)]
    for number, room in enumerate(rooms):
        queue.add(pdus(room, number), [])
    assert list(queue.waiting()) == rooms[:MAX_LANES]
    assert queue.start_loads() == []
    first, second = queue.take_pdus(2, {rooms[0]: 1, rooms[1]: 1})
    queue.remove([first], [])
    assert queue.start_loads() == [rooms[-2], rooms[-1]], "one is empty, and one in flight"
    queue.add(pdus(rooms[1], 1_000), [])
    assert queue.start_loads() == []
    assert not queue.is_complete()
    queue.loaded(rooms[-1], [len(rooms) - 1])
    queue.loaded(rooms[-2], [])
    assert queue.start_loads() == [rooms[1]]
    assert queue.is_loading()
    queue.loaded(rooms[1], [second.position, 1_000])
    assert queue.waiting()[rooms[1]] == 1
    assert queue.is_complete()


def test_lanes_are_loaded_in_turn() -> None:
    """A room with many events does not delay the others."""
    queue = SendQueue()
    for room in ("a", "b"):
        queue.mark_more(room)
    assert queue.start_loads() == ["a", "b"]
    queue.loaded("a", range(LOAD))
    queue.loaded("b", range(LOAD, 2 * LOAD))
    for _ in range(2):
        queue.remove(queue.take_pdus(LOAD, {"a": LOAD}), [])
        assert queue.start_loads() == ["a"]
        queue.loaded("a", range(2 * LOAD, 3 * LOAD))
    for room in ("a", "b"):
        queue.remove(queue.take_pdus(LOAD, {room: LOAD}), [])
    assert queue.start_loads() == ["b", "a"]
