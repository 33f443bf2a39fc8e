"""What the load generator says of its rooms has to be true: both servers check nearly all of it."""

import pytest

from bench._federation.played_room import PlayedRoom
from federation.auth_rules import Allowed, check
from federation.events import Pdu, parse
from federation.events.builder import sign_event
from federation.events.event_signatures import verify_event
from federation.matrix.room_version import ROOM_VERSIONS
from federation.matrix.signatures import Verified
from tests.support.rooms import signer, verify_keys

VERSION = ROOM_VERSIONS["11"]
SERVERS = ("a.example", "b.example")
MEMBERS = [f"@{name}:{server}" for name in ("one", "two") for server in SERVERS]
US = "@us:here.example"


@pytest.fixture
def room() -> PlayedRoom:
    return PlayedRoom("!room:a.example", VERSION, MEMBERS, {name: signer(name) for name in SERVERS}, 1_000)


def joined(room: PlayedRoom) -> Pdu:
    join = sign_event(room.join_template(US, 2_000), VERSION, signer("here.example"))
    assert isinstance(join, Pdu)
    room.take_in(join)
    return join


def test_every_event_is_one_that_a_server_accepts(room: PlayedRoom) -> None:
    """Well-formed, signed by its sender's server, allowed by the state before it, one after the other."""
    joined(room)
    room.say(MEMBERS[1], 3_000)
    keys = verify_keys(*SERVERS, "here.example")
    before: tuple[str, ...] = ()
    for event_id, pdu in room.events.items():
        assert parse(dict(pdu.event), VERSION) == pdu
        assert isinstance(verify_event(pdu, VERSION, keys, 4_000), Verified)
        assert isinstance(check(pdu, room.state_before(event_id), VERSION), Allowed)
        assert pdu.prev_events == before
        before = (event_id,)


def test_a_message_has_the_size_of_a_message(room: PlayedRoom) -> None:
    """Of which most are between half a kilobyte and one."""
    assert 700 < len(room.say(MEMBERS[0], 2_000).canonical) < 1_000


def test_the_state_before_an_event_is_what_came_before_it(room: PlayedRoom) -> None:
    """It does not hold the event itself."""
    join = joined(room)
    said = room.say(MEMBERS[0], 3_000)
    key = ("m.room.member", US)
    assert key not in room.state_before(join.event_id)
    assert room.state_before(said.event_id)[key] == join
    assert room.state == room.state_before(said.event_id)


@pytest.mark.parametrize("omit_members", [False, True])
def test_what_send_join_gives_is_closed(room: PlayedRoom, omit_members: bool) -> None:
    """Whatever an event in it rests on is in it as well. Of a small room no members are left out."""
    join = joined(room)
    answer = room.send_join(join, omit_members=omit_members)
    given = [parse(event, VERSION) for event in (*answer["state"], *answer["auth_chain"])]
    pdus = {pdu.event_id: pdu for pdu in given if isinstance(pdu, Pdu)}
    assert len(answer["state"]) == len(room.state) - 1
    assert answer["members_omitted"] is False
    assert pdus.keys() >= {needed for pdu in (join, *pdus.values()) for needed in pdu.auth_events}


def test_members_of_a_large_room_are_left_out_for_who_asks_for_that(room: PlayedRoom) -> None:
    """As every server does that knows faster joins."""
    members = [f"@member{number}:a.example" for number in range(200)]
    large = PlayedRoom("!large:a.example", VERSION, members, {"a.example": signer("a.example")}, 1_000)
    answer = large.send_join(joined(large), omit_members=True)
    assert answer["members_omitted"] is True
    assert answer["servers_in_room"] == ["a.example"]
    assert sum(event["type"] == "m.room.member" for event in answer["state"]) < 10


def test_what_was_never_sent_can_be_taken_back(room: PlayedRoom) -> None:
    """The next message follows what was sent last."""
    first = room.say(MEMBERS[0], 2_000)
    room.take_back([room.say(MEMBERS[0], number) for number in range(3_000, 3_003)])
    assert room.say(MEMBERS[1], 4_000).prev_events == (first.event_id,)


def test_gaps_are_filled_as_other_servers_fill_them(room: PlayedRoom) -> None:
    """What lies between, oldest first; and what lies before, newest first."""
    said = [room.say(MEMBERS[0], 2_000 + number) for number in range(5)]
    between = room.missing_events([said[0].event_id], [said[4].event_id], 10)
    assert between == said[1:4]
    assert room.backfill([said[2].event_id], 2) == [said[2], said[1]]
