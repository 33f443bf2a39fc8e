"""Rooms in which so much is asked that what says nothing new is left out."""

from bridge.people.busy_rooms import BUSY_FROM, FALLS, HIGHEST, BusyRooms

ROOM = "!room:here.test"


def asked(rooms: BusyRooms, count: int, *, each: float, start: float = 0.0) -> list[bool]:
    return [rooms.asked(ROOM, start + number * each) for number in range(count)]


def test_a_few_at_once_are_no_crowd() -> None:
    """Nor are many, one after the other."""
    assert not any(asked(BusyRooms(10), int(BUSY_FROM), each=0.0))
    assert not any(asked(BusyRooms(10), 1_000, each=1 / FALLS))


def test_a_room_is_busy_for_as_long_as_it_is() -> None:
    """Not one of those that follow is let through; soon after the last it is calm."""
    rooms = BusyRooms(10)
    busy = asked(rooms, 1_000, each=0.03)
    assert busy.index(True) < 20
    assert all(busy[busy.index(True) :])
    assert not rooms.asked(ROOM, 999 * 0.03 + HIGHEST / FALLS)


def test_each_room_is_its_own() -> None:
    """And rooms of which nothing is heard are forgotten."""
    rooms = BusyRooms(2)
    asked(rooms, 100, each=0.0)
    assert not rooms.asked("!other:here.test", 0.0)
    rooms.asked("!third:here.test", 0.0)
    assert not rooms.asked(ROOM, 0.0)
