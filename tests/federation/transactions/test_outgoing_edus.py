"""OutgoingEdu EDUs: their content and their queueing rules."""

from typing import Any

import pytest

from federation.transactions.edu_parsing import parse_edu
from federation.transactions.edus import (
    MAX_PRESENCES,
    DeviceListUpdate,
    Presence,
    Receipt,
    Receipts,
    ToDevice,
    Typing,
    UserPresence,
)
from federation.transactions.outgoing_edus import (
    OutgoingEdu,
    device_list_update,
    pack_edus,
    presence,
    receipt,
    to_device,
    typing,
)

BOB, ALICE = "@bob:b.example", "@alice:a.example"
ROOM = "!room:a.example"


def parsed(edu: OutgoingEdu) -> Any:
    return parse_edu({"edu_type": edu.edu_type, "content": edu.content}, "b.example")


def test_outgoing_edus_are_parsed_to_the_same_values() -> None:
    """Building and parsing are inverse."""
    assert parsed(typing(Typing(ROOM, BOB, False))) == Typing(ROOM, BOB, False)
    for one in (Receipt(ROOM, BOB, "$e", 7), Receipt(ROOM, BOB, "$e", 7, "main")):
        assert parsed(receipt(one)) == Receipts((one,))
    for user in (UserPresence(BOB, "online", 4, True, "hm"), UserPresence(BOB, "offline")):
        assert parsed(presence(user)) == Presence((user,))
    message = ToDevice(BOB, "t", "m1", {ALICE: {"*": {"x": 1}}})
    assert parsed(to_device(message)) == message
    assert parsed(device_list_update(BOB, "D", 3, [1, 2])) == DeviceListUpdate(BOB, "D", 3, (1, 2), False, None, None)


def test_newer_state_has_the_same_coalesce_key() -> None:
    """Of a user's typing in a room, of a receipt and of a user's presence only the latest is sent."""
    assert typing(Typing(ROOM, BOB, True)).coalesce_key == typing(Typing(ROOM, BOB, False)).coalesce_key
    one, two = Receipt(ROOM, BOB, "$a", 1), Receipt(ROOM, BOB, "$b", 2)
    assert receipt(one).coalesce_key == receipt(two).coalesce_key
    assert presence(UserPresence(BOB, "online")).coalesce_key == presence(UserPresence(BOB, "offline")).coalesce_key


def test_unrelated_edus_have_different_coalesce_keys() -> None:
    """EDUs of different rooms, users and threads do not replace each other."""
    names = {
        typing(Typing(ROOM, BOB, True)).coalesce_key,
        typing(Typing("!b:a.example", BOB, True)).coalesce_key,
        receipt(Receipt(ROOM, BOB, "$a", 1)).coalesce_key,
        receipt(Receipt(ROOM, BOB, "$a", 1, "$t")).coalesce_key,
        receipt(Receipt(ROOM, "@b2:b.example", "$a", 1)).coalesce_key,
        presence(UserPresence(BOB, "online")).coalesce_key,
    }
    assert len(names) == 6


def test_only_ephemeral_edus_are_replaced_and_expire() -> None:
    """To-device messages and device list updates stay queued until they are delivered."""
    for durable in (to_device(ToDevice(BOB, "t", "m", {})), device_list_update(BOB, "D", 1, ())):
        assert (durable.coalesce_key, durable.max_age_ms) == (None, None)
    for passing in (typing(Typing(ROOM, BOB, True)), receipt(Receipt(ROOM, BOB, "$a", 1))):
        assert passing.max_age_ms is not None


def test_a_to_device_message_that_is_too_large_is_a_bug_of_the_caller() -> None:
    """Receivers would refuse it, and it would block the queue."""
    with pytest.raises(AssertionError, match="too large"):
        to_device(ToDevice(BOB, "t", "m", {ALICE: {"*": {"x": "x" * 65_536}}}))


def test_presence_is_packed_fifty_users_to_an_edu() -> None:
    """CustomEdu EDUs stay unchanged."""
    waiting = [presence(UserPresence(f"@{n}:b.example", "online")) for n in range(MAX_PRESENCES + 1)]
    other = typing(Typing(ROOM, BOB, True))
    edus = pack_edus([(edu.edu_type, edu.content) for edu in (*waiting, other)])
    assert [edu["edu_type"] for edu in edus] == ["m.typing", "m.presence", "m.presence"]
    assert [len(edu["content"]["push"]) for edu in edus[1:]] == [MAX_PRESENCES, 1]
    assert pack_edus([]) == []
