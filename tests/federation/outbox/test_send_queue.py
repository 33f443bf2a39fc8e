"""The heads of the queues in Postgres."""

from federation.outbox.send_queue import (
    LOAD,
    LOAD_BELOW,
    MOST_EPHEMERAL,
    MOST_HELD,
    MOST_LANES,
    EduRef,
    PduRef,
    SendQueue,
)


def pdus(room: str, *positions: int) -> tuple[PduRef, ...]:
    return tuple(PduRef(position, room) for position in positions)


def everything(queue: SendQueue, most: int = 1000) -> list[int]:
    taken = queue.take_pdus(most, queue.waiting())
    return [pdu.position for pdu in taken]


def test_the_oldest_of_all_rooms_first() -> None:
    """And of each room no more than it is allowed."""
    queue = SendQueue()
    queue.add([*pdus("a", 1, 4, 5), *pdus("b", 2, 3, 6)], [])
    assert queue.waiting() == {"a": 3, "b": 3}
    assert queue.take_pdus(3, {"a": 80, "b": 1}) == (*pdus("a", 1), *pdus("b", 2), *pdus("a", 4))
    assert queue.take_pdus(3, {}) == ()
    assert everything(queue) == [3, 5, 6]
    assert queue.waiting() == {}


def test_what_must_arrive_before_what_need_not() -> None:
    """Of EDUs, too, only so many."""
    queue = SendQueue()
    queue.add([], [EduRef(1, ephemeral=True), EduRef(2), EduRef(3)])
    assert queue.take_edus(2) == (EduRef(2), EduRef(3))
    assert queue.take_edus(2) == (EduRef(1, ephemeral=True),)
    assert queue.take_edus(2) == ()


def test_what_failed_waits_again_in_its_place() -> None:
    """Before what came later."""
    queue = SendQueue()
    queue.add(pdus("a", 1, 2, 3), [EduRef(1, ephemeral=True), EduRef(2)])
    first, edus = queue.take_pdus(2, {"a": 2}), queue.take_edus(9)
    queue.add(pdus("a", 4), [EduRef(5, ephemeral=True)])
    queue.give_back(first, edus)
    assert everything(queue) == [1, 2, 3, 4]
    assert queue.take_edus(9) == (EduRef(2), EduRef(1, ephemeral=True), EduRef(5, ephemeral=True))


def test_a_long_queue_stays_in_postgres() -> None:
    """A lane holds a piece of it and loads the next in time; what was queued meanwhile is not missed."""
    queue = SendQueue()
    queue.add(pdus("a", *range(MOST_HELD + 20)), [])
    assert queue.waiting() == {"a": MOST_HELD}
    assert queue.to_load() == []
    assert not queue.is_complete()
    sent = queue.take_pdus(MOST_HELD - LOAD_BELOW + 1, {"a": 80})
    assert queue.to_load() == ["a"]
    assert queue.to_load() == []
    queue.forget(sent, [])
    queue.add(pdus("a", 500), [])
    queue.loaded("a", range(len(sent), MOST_HELD + 20))
    everything_else = everything(queue)
    assert everything_else == list(range(len(sent), MOST_HELD + 20))
    assert queue.to_load() == ["a"]
    queue.loaded("a", [*range(MOST_HELD), 500])
    assert everything(queue)[-1] == 500


def test_what_is_loaded_is_not_sent_twice() -> None:
    """What is held, what is in flight, and what was delivered while the load was under way."""
    queue = SendQueue()
    queue.expect("a")
    assert queue.to_load() == ["a"]
    queue.loaded("a", [1, 2, 3])
    flying = queue.take_pdus(1, {"a": 1})
    queue.expect("a")
    assert queue.to_load() == ["a"]
    queue.forget(flying, [])
    flying = queue.take_pdus(1, {"a": 1})
    queue.loaded("a", [1, 2, 3, 4])
    assert everything(queue) == [3, 4]


def test_a_full_load_is_followed_by_another() -> None:
    """There may be more behind it."""
    queue = SendQueue()
    queue.expect(None)
    assert queue.to_load() == [None]
    queue.loaded(None, range(LOAD))
    assert queue.to_load() == []
    queue.take_edus(LOAD - LOAD_BELOW + 1)
    assert queue.to_load() == [None]
    queue.loaded(None, [])
    assert queue.is_complete()


def test_what_came_in_the_wrong_order_is_sorted() -> None:
    """A transaction that began earlier may end later."""
    queue = SendQueue()
    queue.expect("a")
    queue.to_load()
    queue.loaded("a", [7, 3, 5])
    assert everything(queue) == [3, 5, 7]


def test_ephemeral_ones_do_not_pile_up() -> None:
    """The oldest are given back."""
    queue = SendQueue()
    edus = [EduRef(at, ephemeral=True) for at in range(MOST_EPHEMERAL + 3)]
    assert queue.add([], edus) == tuple(edus[:3])
    assert queue.clear() == tuple(edus[3:])


def test_what_was_in_flight_before_a_restart_is_not_taken_again() -> None:
    """Postgres still has it until it is answered."""
    queue = SendQueue()
    queue.put_away(pdus("a", 1), [EduRef(2)])
    for lane in ("a", None):
        queue.expect(lane)
    assert set(queue.to_load()) == {"a", None}
    queue.loaded("a", [1, 3])
    queue.loaded(None, [2, 4])
    assert everything(queue) == [3]
    assert queue.take_edus(9) == (EduRef(4),)
    queue.give_back(pdus("a", 1), [EduRef(2)])
    assert everything(queue) == [1]


def test_forgetting_all_leaves_late_answers_without_effect() -> None:
    """What was asked for before is counted anew."""
    queue = SendQueue()
    queue.expect("a")
    queue.to_load()
    queue.clear()
    queue.loaded("a", [1])
    assert queue.waiting() == {}
    assert queue.is_complete()


def test_a_room_that_is_through_takes_no_place() -> None:
    """Or every room that ever was would be kept."""
    queue = SendQueue()
    queue.add(pdus("a", 1), [])
    queue.forget(queue.take_pdus(1, {"a": 1}), [])
    queue.expect("b")
    queue.to_load()
    queue.loaded("b", [])
    assert queue._lanes == {}


def test_it_is_empty_when_nothing_is_left() -> None:
    """Held, expected, in flight or ephemeral."""
    queue = SendQueue()
    assert queue.is_empty
    queue.add(pdus("a", 1), [])
    taken = queue.take_pdus(1, {"a": 1})
    assert not queue.is_empty
    queue.forget(taken, [])
    assert queue.is_empty
    queue.add((), [EduRef(1, ephemeral=True)])
    assert not queue.is_empty
    queue.take_edus(1)
    assert queue.is_empty
    queue.expect("a")
    assert not queue.is_empty


def test_only_so_many_rooms_hold_something_at_once() -> None:
    """Of the others the name is known, and each is loaded in its turn, the one that waits longest first."""
    queue = SendQueue()
    rooms = [f"!{number}" for number in range(MOST_LANES + 2)]
    for number, room in enumerate(rooms):
        queue.add(pdus(room, number), [])
    assert list(queue.waiting()) == rooms[:MOST_LANES]
    assert queue.to_load() == []
    first, second = queue.take_pdus(2, {rooms[0]: 1, rooms[1]: 1})
    queue.forget([first], [])
    assert queue.to_load() == [rooms[-2], rooms[-1]], "one is empty, and one in flight"
    queue.add(pdus(rooms[1], 1_000), [])
    assert queue.to_load() == []
    assert not queue.is_complete()
    queue.loaded(rooms[-1], [len(rooms) - 1])
    queue.loaded(rooms[-2], [])
    assert queue.to_load() == [rooms[1]]
    assert queue.is_loading()
    queue.loaded(rooms[1], [second.position, 1_000])
    assert queue.waiting()[rooms[1]] == 1
    assert queue.is_complete()


def test_the_lane_that_was_loaded_last_is_the_last_in_its_turn() -> None:
    """A flood in one room leaves the others their share."""
    queue = SendQueue()
    for room in ("a", "b"):
        queue.expect(room)
    assert queue.to_load() == ["a", "b"]
    queue.loaded("a", range(LOAD))
    queue.loaded("b", range(LOAD, 2 * LOAD))
    for _ in range(2):
        queue.forget(queue.take_pdus(LOAD, {"a": LOAD}), [])
        assert queue.to_load() == ["a"]
        queue.loaded("a", range(2 * LOAD, 3 * LOAD))
    for room in ("a", "b"):
        queue.forget(queue.take_pdus(LOAD, {room: LOAD}), [])
    assert queue.to_load() == ["b", "a"]
