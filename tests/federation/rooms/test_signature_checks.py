"""Whether servers have signed an event."""

from federation.events import Pdu, parse
from federation.events.event_signatures import add_signature
from federation.rooms.verify_events import are_signed, is_signed_by
from tests.support.graph import NOW, KnownKeys
from tests.support.rooms import ALICE, BOB, Room, public_room, signer


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
