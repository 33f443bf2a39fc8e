"""EDUs of our own: what they say, and how long they wait."""

from typing import Any

import pytest

from federation.transactions.edu_making import (
    Outgoing,
    device_list_update,
    packed,
    presence,
    receipt,
    to_device,
    typing,
)
from federation.transactions.edu_reading import read
from federation.transactions.edu_values import (
    MAX_PRESENCES,
    DeviceListUpdate,
    Presence,
    PresenceOfUser,
    Receipt,
    Receipts,
    ToDevice,
    Typing,
)

BOB, ALICE = "@bob:b.example", "@alice:a.example"
ROOM = "!room:a.example"


def as_read(edu: Outgoing) -> Any:
    return read({"edu_type": edu.edu_type, "content": edu.content}, "b.example")


def test_what_we_say_is_read_as_it_was_meant() -> None:
    """Making and reading are each other's inverse."""
    assert as_read(typing(Typing(ROOM, BOB, False))) == Typing(ROOM, BOB, False)
    for one in (Receipt(ROOM, BOB, "$e", 7), Receipt(ROOM, BOB, "$e", 7, "main")):
        assert as_read(receipt(one)) == Receipts((one,))
    for user in (PresenceOfUser(BOB, "online", 4, True, "hm"), PresenceOfUser(BOB, "offline")):
        assert as_read(presence(user)) == Presence((user,))
    message = ToDevice(BOB, "t", "m1", {ALICE: {"*": {"x": 1}}})
    assert as_read(to_device(message)) == message
    assert as_read(device_list_update(BOB, "D", 3, [1, 2])) == DeviceListUpdate(
        BOB, "D", 3, (1, 2), False, None, None
    )


def test_what_is_newer_replaces_what_waits() -> None:
    """Of one user's typing in one room, of one receipt and of one user's presence only the last matters."""
    assert typing(Typing(ROOM, BOB, True)).replaces == typing(Typing(ROOM, BOB, False)).replaces
    one, two = Receipt(ROOM, BOB, "$a", 1), Receipt(ROOM, BOB, "$b", 2)
    assert receipt(one).replaces == receipt(two).replaces
    assert (
        presence(PresenceOfUser(BOB, "online")).replaces == presence(PresenceOfUser(BOB, "offline")).replaces
    )


def test_what_differs_does_not_replace() -> None:
    """Other rooms, users and threads are beside each other."""
    names = {
        typing(Typing(ROOM, BOB, True)).replaces,
        typing(Typing("!b:a.example", BOB, True)).replaces,
        receipt(Receipt(ROOM, BOB, "$a", 1)).replaces,
        receipt(Receipt(ROOM, BOB, "$a", 1, "$t")).replaces,
        receipt(Receipt(ROOM, "@b2:b.example", "$a", 1)).replaces,
        presence(PresenceOfUser(BOB, "online")).replaces,
    }
    assert len(names) == 6


def test_what_must_arrive_is_neither_replaced_nor_dropped() -> None:
    """Messages to devices and device lists wait as long as it takes; everything else lives for a while."""
    for durable in (to_device(ToDevice(BOB, "t", "m", {})), device_list_update(BOB, "D", 1, ())):
        assert (durable.replaces, durable.lives_ms) == (None, None)
    for passing in (typing(Typing(ROOM, BOB, True)), receipt(Receipt(ROOM, BOB, "$a", 1))):
        assert passing.lives_ms is not None


def test_a_message_to_devices_that_no_server_takes_in_is_not_made() -> None:
    """It would block the queue: whoever lets a client send one has a bug."""
    with pytest.raises(AssertionError, match="client"):
        to_device(ToDevice(BOB, "t", "m", {ALICE: {"*": {"x": "x" * 65_536}}}))


def test_presence_is_packed_fifty_users_to_an_edu() -> None:
    """≤ 50 per EDU, as Synapse; the others stay as they are."""
    waiting = [presence(PresenceOfUser(f"@{n}:b.example", "online")) for n in range(MAX_PRESENCES + 1)]
    other = typing(Typing(ROOM, BOB, True))
    edus = packed([(edu.edu_type, edu.content) for edu in (*waiting, other)])
    assert [edu["edu_type"] for edu in edus] == ["m.typing", "m.presence", "m.presence"]
    assert [len(edu["content"]["push"]) for edu in edus[1:]] == [MAX_PRESENCES, 1]
    assert packed([]) == []
