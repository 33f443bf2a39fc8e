"""Verifying many events at a time."""

from collections.abc import Iterable, Mapping

from federation.events import Malformed, Pdu, parse
from federation.events.event_signatures import add_signature
from federation.events.received import Dropped
from federation.keys.server_keys import KeyNeed
from federation.matrix.signatures import VerifyKey
from federation.rooms.receive_checks import VerifiedEvent
from federation.rooms.verify_events import EventVerifier, are_signed, is_signed_by
from tests.support.graph import NOW, KnownKeys
from tests.support.rooms import ALICE, BOB, Room, public_room, signer


class RecordingKeys(KnownKeys):
    """Keys that record which ones were needed."""

    def __init__(self) -> None:
        super().__init__()
        self.needs: list[KeyNeed] = []

    async def keys_for(self, needs: Iterable[KeyNeed]) -> Mapping[str, Mapping[str, VerifyKey]]:
        wanted = list(needs)
        self.needs += wanted
        return await super().keys_for(wanted)


async def test_all_keys_are_fetched_together_and_each_once() -> None:
    """For the latest time at which it must be valid."""
    room = public_room("12", BOB)
    messages = [room.say(ALICE if number % 3 else BOB) for number in range(120)]
    keys = RecordingKeys()
    verified = await EventVerifier(keys, lambda: NOW).verify((pdu.event, room.version) for pdu in messages)
    assert [result for _, result in verified] == [VerifiedEvent(pdu) for pdu in messages]
    latest = {pdu.sender: pdu.origin_server_ts for pdu in messages}
    assert sorted(keys.needs, key=lambda need: need.server) == [
        KeyNeed("a.example", "ed25519:test", latest[ALICE]),
        KeyNeed("b.example", "ed25519:test", latest[BOB]),
    ]


async def test_results_are_in_the_order_of_the_events() -> None:
    """An event whose key is unavailable counts as unsigned."""
    room = public_room("12", BOB)
    good, other = room.say(ALICE), room.say(BOB)
    keys = KnownKeys()
    del keys.keys["b.example"]
    verified = await EventVerifier(keys, lambda: NOW).verify(
        [(5, room.version), (other.event, room.version), (good.event, room.version)]
    )
    (first, dropped), (second, unknown), (_, event) = verified
    assert isinstance(first, Malformed)
    assert isinstance(dropped, Dropped)
    assert second == other
    assert unknown == Dropped("step 2, signature checks: no key of b.example is available")
    assert event == VerifiedEvent(good)


def forged(pdu: Pdu, room: Room) -> Pdu:
    event = {**pdu.event, "signatures": {"a.example": {"ed25519:test": "A" * 86}}}
    made = parse(event, room.version)
    assert isinstance(made, Pdu)
    return made


async def test_every_event_must_have_all_needed_signatures() -> None:
    """One event without them fails the check."""
    room, keys = public_room("12", BOB), KnownKeys()
    pdus = [room.say(ALICE), room.say(BOB)]
    assert await are_signed(keys, pdus, room.version, NOW)
    assert await are_signed(keys, [], room.version, NOW)
    assert not await are_signed(keys, [*pdus, forged(pdus[0], room)], room.version, NOW)
    del keys.keys["b.example"]
    assert not await are_signed(keys, pdus, room.version, NOW)


async def test_signatures_that_are_not_needed_are_checked() -> None:
    """As the invited server's on an invite."""
    room, keys = public_room("12"), KnownKeys()
    pdu = room.say(ALICE)
    assert not await is_signed_by(keys, pdu, room.version, "b.example", NOW)
    bobs = signer("b.example")
    signed = parse(add_signature(pdu.event, room.version, "b.example", bobs.key_id, bobs.key), room.version)
    assert isinstance(signed, Pdu)
    assert await is_signed_by(keys, signed, room.version, "b.example", NOW)
    assert not await is_signed_by(keys, forged(pdu, room), room.version, "a.example", NOW)
