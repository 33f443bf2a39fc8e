"""Mainline ordering."""

import pytest

from federation.events import Pdu
from federation.matrix.room_version import ROOM_VERSIONS
from federation.state_resolution.events import EventSource
from federation.state_resolution.resolve import mainline_ordering
from tests.support.rooms import ALICE, BOB, Room, public_room


def order(room: Room, power_levels: Pdu | None, *pdus: Pdu) -> list[str]:
    events = EventSource(room.events, None, (), room.version)
    base = None if power_levels is None else power_levels.event_id
    ids = [pdu.event_id for pdu in pdus]
    ordered = mainline_ordering(ids, base, events)
    assert ordered == mainline_ordering(ids[::-1], base, events)
    return ordered


def levels(room: Room) -> Pdu:
    """The same levels again: the next event of the mainline."""
    return room.power_levels(ALICE, dict(room.state()["m.room.power_levels", ""].content))


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_events_based_on_older_power_levels_come_first(version: str) -> None:
    """1. The mainline position is *greater*, ∞ first; 2. the time; 3. the event id."""
    room = Room(version)
    room.join(ALICE)
    before_all = room.topic(ALICE, "no power levels yet")
    users = {} if version == "12" else {ALICE: 100}
    first = room.power_levels(ALICE, {"users": users})
    on_first = room.topic(ALICE, "first")
    second = levels(room)
    on_second = room.topic(ALICE, "second")
    also_on_first = room.propose("m.room.name", ALICE, {}, "", after=[on_first])
    room.add(also_on_first)
    all_of_them = [on_second, also_on_first, on_first, before_all]
    assert order(room, second, *all_of_them) == [
        pdu.event_id for pdu in (before_all, on_first, also_on_first, on_second)
    ]
    # From the first power levels, events based on the second have the position of the first.
    assert order(room, first, *all_of_them) == [
        pdu.event_id for pdu in (before_all, on_first, on_second, also_on_first)
    ]
    # Without power levels there is no mainline, and the time decides.
    assert order(room, None, *all_of_them) == [pdu.event_id for pdu in (before_all, on_first, on_second, also_on_first)]


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_power_levels_beside_the_mainline(version: str) -> None:
    """An event based on power levels of a losing branch has the position of the last common ones."""
    room = public_room(version, BOB)
    shared = room.state()["m.room.power_levels", ""]
    fork = room.head
    winner = room.add(room.propose("m.room.power_levels", ALICE, dict(shared.content), "", after=fork))
    loser = room.add(room.propose("m.room.power_levels", ALICE, {**shared.content, "ban": 51}, "", after=fork))
    on_loser = [room.add(room.propose("m.room.topic", ALICE, {"topic": str(n)}, str(n), after=[loser])) for n in (1, 2)]
    on_winner = room.add(room.propose("m.room.topic", ALICE, {"topic": "w"}, "", after=[winner]))
    on_shared = room.add(room.propose("m.room.topic", ALICE, {"topic": "s"}, "", after=fork))
    expected = [pdu.event_id for pdu in (*on_loser, on_shared, on_winner)]
    assert order(room, winner, on_winner, on_shared, *on_loser) == expected


def test_the_smaller_id_decides_last() -> None:
    """3. The positions and the times are equal."""
    room = public_room("12")
    fork, made = room.head, []
    for number in range(5):
        room.now = 5_000
        made.append(room.add(room.propose("m.room.topic", ALICE, {"topic": "x"}, str(number), after=fork)))
    base = room.state(fork)["m.room.power_levels", ""]
    assert order(room, base, *made) == sorted(pdu.event_id for pdu in made)
