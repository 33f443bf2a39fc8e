"""Signatures of events, with keys from wherever they come."""

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


async def test_every_event_must_be_signed_by_whom_it_needs() -> None:
    """One that is not spoils all."""
    room, keys = public_room("12", BOB), KnownKeys()
    pdus = [room.say(ALICE), room.say(BOB)]
    assert await are_signed(keys, pdus, room.version, NOW)
    assert await are_signed(keys, [], room.version, NOW)
    assert not await are_signed(keys, [*pdus, forged(pdus[0], room)], room.version, NOW)
    del keys.keys["b.example"]
    assert not await are_signed(keys, pdus, room.version, NOW)


async def test_a_server_that_need_not_sign_may_have() -> None:
    """As the invited server signs an invite."""
    room, keys = public_room("12"), KnownKeys()
    pdu = room.say(ALICE)
    assert not await is_signed_by(keys, pdu, room.version, "b.example", NOW)
    bobs = signer("b.example")
    signed = parse(add_signature(pdu.event, room.version, "b.example", bobs.key_id, bobs.key), room.version)
    assert isinstance(signed, Pdu)
    assert await is_signed_by(keys, signed, room.version, "b.example", NOW)
    assert not await is_signed_by(keys, forged(pdu, room), room.version, "a.example", NOW)
