import pytest

from bench._federation.pace import MOST_IN_ALL, MOST_IN_ROOM, MOST_IN_TRANSACTION, Pace
from bench._federation.played_room import PlayedRoom
from federation.events import Pdu
from federation.matrix.room_version import ROOM_VERSIONS
from tests.support.rooms import signer

SENDER = "@one:a.example"


def messages(number: int, count: int) -> list[Pdu]:
    signers = {"a.example": signer("a.example")}
    room = PlayedRoom(f"!{number}:a.example", ROOM_VERSIONS["11"], [SENDER], signers, 1_000)
    return [room.say(SENDER, 2_000) for _ in range(count)]


@pytest.fixture(scope="module")
def rooms() -> dict[str, list[Pdu]]:
    """Twenty rooms of sixty messages."""
    made = [messages(number, 60) for number in range(20)]
    return {pdus[0].room_id: pdus for pdus in made}


def test_fewer_than_a_hundred_events_of_a_room_are_on_their_way() -> None:
    """A Synapse throws out what it has staged of a room when that is a hundred."""
    pdus = messages(0, 200)
    pace = Pace({pdus[0].room_id: pdus})
    room = [pdus[0].room_id]
    assert pace.next_transaction(room) == pdus[:50]
    assert pace.next_transaction(room) == [], "the next would not be full"
    assert pace.seen([pdus[0].event_id]) == 1
    assert pace.next_transaction(room) == pdus[50:100]
    assert pace.on_their_way == MOST_IN_ROOM


def test_the_last_transaction_may_be_small() -> None:
    """There is nothing to wait for."""
    pdus = messages(0, 51)
    pace = Pace({pdus[0].room_id: pdus})
    room = [pdus[0].room_id]
    pace.seen(pdu.event_id for pdu in pace.next_transaction(room))
    assert pace.next_transaction(room) == pdus[50:]
    assert not pace.is_left(room)


def test_rooms_take_turns(rooms: dict[str, list[Pdu]]) -> None:
    """Event by event, so that a transaction is of many rooms."""
    pace = Pace(rooms)
    taken = pace.next_transaction(rooms)
    assert len(taken) == MOST_IN_TRANSACTION
    assert [pdu.room_id for pdu in taken[:20]] == list(rooms)
    assert taken[20] == next(iter(rooms.values()))[1]


def test_a_server_sends_into_its_rooms_alone(rooms: dict[str, list[Pdu]]) -> None:
    """Several share one pace."""
    own = set(list(rooms)[:5])
    assert {pdu.room_id for pdu in Pace(rooms).next_transaction(own)} == own


def test_so_many_are_on_their_way_in_all_rooms(rooms: dict[str, list[Pdu]]) -> None:
    """What is sent last is not long in coming either."""
    pace = Pace(rooms)
    while pace.next_transaction(rooms):
        assert pace.on_their_way <= MOST_IN_ALL
    assert pace.on_their_way == MOST_IN_ALL
    left = pace.left_over()
    assert sum(map(len, left.values())) == 20 * 60 - MOST_IN_ALL
    assert all(left[room_id] == pdus[20:] for room_id, pdus in rooms.items()), "their order is kept"


def test_what_was_not_on_its_way_is_not_counted(rooms: dict[str, list[Pdu]]) -> None:
    """A reader sees more than the load: joins, and what came before."""
    pace = Pace(rooms)
    [first, *_] = pace.next_transaction(rooms)
    assert pace.seen(["$other", first.event_id, first.event_id]) == 1
