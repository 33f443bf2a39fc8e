"""The checks performed on receipt of a PDU: every verdict, every row of the specification's table."""

from collections.abc import Mapping
from typing import Any

import pytest

from federation.auth_rules import required_state
from federation.events import Pdu, StateKey, parse, redact_pdu
from federation.events.received import ACCEPTED, Dropped, Rejected, SoftFailed, Verdict
from federation.matrix.room_version import ROOM_VERSIONS
from federation.matrix.signatures import NeedKeys
from federation.rooms.policy_server import PolicyServer
from federation.rooms.receive_checks import (
    NeedEvents,
    VerifiedEvent,
    authorise,
    authorise_by_auth_events,
    dropped_without_keys,
    known_event,
    needed_for_step_4,
    verify_pdu,
)
from tests.support.rooms import ALICE, BOB, CAROL, Room, public_room, signer, verify_keys

KEYS = verify_keys("a.example", "b.example", "c.example")
NOW = 10_000
VERSIONS = pytest.mark.parametrize("version", ROOM_VERSIONS)


def changed(pdu: Pdu, room: Room, **fields: Any) -> Any:
    return parse({**pdu.event, **fields}, room.version)


def step_4(room: Room, pdu: Pdu, **how: Any) -> object:
    return authorise_by_auth_events(VerifiedEvent(pdu), room.version, how.pop("known", room.events), **how)


def in_place(room: Room, pdu: Pdu, before: Mapping[StateKey, Pdu], current: Mapping[StateKey, Pdu] | None) -> object:
    keys = required_state(pdu, room.version)
    return authorise(
        VerifiedEvent(pdu),
        room.version,
        room.events,
        {key: before[key] for key in keys if key in before},
        None if current is None else {key: current[key] for key in keys if key in current},
    )


@VERSIONS
def test_a_valid_event_is_accepted(version: str) -> None:
    """All seven steps."""
    room = public_room(version, BOB)
    pdu = room.propose("m.room.message", BOB, {"body": "hello"})
    event = verify_pdu(parse(pdu.event, room.version), room.version, KEYS, NOW)
    assert event == VerifiedEvent(pdu)
    assert step_4(room, pdu) == ACCEPTED
    assert in_place(room, pdu, room.state(), room.state()) == ACCEPTED


@VERSIONS
def test_step_1_a_malformed_event_is_dropped(version: str) -> None:
    """It has no id under which it could be stored."""
    dropped = verify_pdu(parse({"type": "m.room.message"}, ROOM_VERSIONS[version]), ROOM_VERSIONS[version], {}, NOW)
    assert isinstance(dropped, Dropped)
    assert str(dropped).startswith("step 1, not a valid event: ")


@VERSIONS
def test_step_2_an_unsigned_event_is_dropped(version: str) -> None:
    """The sender's server must have signed."""
    room = public_room(version, BOB)
    pdu = room.propose("m.room.message", BOB, {})
    dropped = verify_pdu(changed(pdu, room, signatures={}), room.version, KEYS, NOW)
    assert dropped == Dropped("step 2, signature checks: b.example has not signed it")


@VERSIONS
def test_step_2_a_forged_event_is_dropped(version: str) -> None:
    """A signed field was changed."""
    room = public_room(version, BOB)
    pdu = room.propose("m.room.message", BOB, {})
    dropped = verify_pdu(changed(pdu, room, depth=77), room.version, KEYS, NOW)
    assert dropped == Dropped("step 2, signature checks: the signature by ed25519:test of b.example is wrong")


@VERSIONS
def test_step_2_an_event_without_available_keys_is_dropped(version: str) -> None:
    """The missing keys are returned; if they are unavailable, the event counts as unsigned."""
    room = public_room(version, BOB)
    need = verify_pdu(room.propose("m.room.message", BOB, {}), room.version, {}, NOW)
    assert need == NeedKeys({"b.example": ("ed25519:test",)})
    assert dropped_without_keys(need) == Dropped("step 2, signature checks: no key of b.example is available")


@VERSIONS
def test_step_3_an_event_with_a_wrong_hash_is_redacted(version: str) -> None:
    """It keeps its id."""
    room = public_room(version, BOB)
    pdu = room.propose("m.room.message", BOB, {"body": "true"})
    event = verify_pdu(changed(pdu, room, content={"body": "false"}), room.version, KEYS, NOW)
    assert isinstance(event, VerifiedEvent)
    assert event.pdu == pdu
    assert event.pdu.content == {}
    assert event.pdu.event == redact_pdu(pdu, room.version).event


@VERSIONS
def test_step_4_missing_auth_events_are_returned(version: str) -> None:
    """All of them at once. If no server has them, the event is dropped and not rejected."""
    room = public_room(version, BOB)
    pdu = room.propose("m.room.message", BOB, {})
    assert step_4(room, pdu, known={}) == NeedEvents(frozenset(needed_for_step_4(pdu, room.version)))
    needed = needed_for_step_4(pdu, room.version)
    first = min(needed)
    assert step_4(room, pdu, known={}, absent=set(needed)) == Dropped(f"step 4, auth events: {first} is not available")


@VERSIONS
def test_step_4_an_event_that_its_auth_events_do_not_allow_is_rejected(version: str) -> None:
    """Carol's membership is not among the auth events."""
    room = public_room(version, BOB)
    rejected = step_4(room, room.propose("m.room.message", CAROL, {}))
    assert isinstance(rejected, Rejected)
    assert "membership state is not join" in str(rejected)


@VERSIONS
def test_step_4_an_event_with_a_rejected_auth_event_is_rejected(version: str) -> None:
    """Rule 3.3, by number and text."""
    room = public_room(version, BOB)
    pdu = room.propose("m.room.message", BOB, {})
    rejected = step_4(room, pdu, rejected={room.state()["m.room.member", BOB].event_id})
    assert isinstance(rejected, Rejected)
    assert "which were themselves rejected" in rejected.text


def test_step_4_in_version_12_the_create_event_is_needed() -> None:
    """The room id names it, not the auth events."""
    room = public_room("12", BOB)
    pdu = room.propose("m.room.message", BOB, {})
    assert needed_for_step_4(pdu, room.version) == (*pdu.auth_events, room.create.event_id)
    assert needed_for_step_4(room.create, room.version) == ()
    known = {one: event for one, event in room.events.items() if one != room.create.event_id}
    assert step_4(room, pdu, known=known) == NeedEvents(frozenset({room.create.event_id}))
    verdict = step_4(room, pdu, rejected={room.create.event_id})
    assert isinstance(verdict, Rejected)
    assert verdict.rule.startswith("2")


def test_step_4_before_version_12_the_auth_events_are_needed() -> None:
    """They include the create event."""
    room = public_room("11", BOB)
    pdu = room.propose("m.room.message", BOB, {})
    assert needed_for_step_4(pdu, room.version) == pdu.auth_events


@VERSIONS
def test_step_5_an_event_that_the_state_before_it_does_not_allow_is_rejected(version: str) -> None:
    """Although its older auth events would allow it."""
    room = public_room(version, BOB)
    auth = room.propose_auth(BOB)
    room.member(ALICE, BOB, "ban")
    pdu = room.propose("m.room.message", BOB, {}, auth=auth)
    assert step_4(room, pdu) == ACCEPTED
    assert isinstance(in_place(room, pdu, room.state(), None), Rejected)


@VERSIONS
def test_step_6_an_event_that_the_current_state_does_not_allow_is_soft_failed(version: str) -> None:
    """Bob was banned, and claims that the event is older than the ban."""
    room = public_room(version, BOB)
    before = room.state()
    pdu = room.propose("m.room.message", BOB, {})
    room.member(ALICE, BOB, "ban")
    verdict = in_place(room, pdu, before, room.state())
    assert isinstance(verdict, SoftFailed)
    assert "membership state is not join" in str(verdict)
    assert in_place(room, pdu, before, None) == ACCEPTED


def test_an_event_over_the_limit_in_bytes_is_rejected_in_old_versions() -> None:
    """Up to version 10 servers counted code points."""
    room = public_room("10", BOB)
    pdu = room.propose("m.room.message", BOB, {})
    rejected = authorise_by_auth_events(VerifiedEvent(pdu, "type is longer than 255 bytes"), room.version, room.events)
    assert rejected == Rejected("size limits", "type is longer than 255 bytes")


def test_an_oversized_event_is_verified() -> None:
    """Without a valid signature anyone could have made it."""
    room = Room("10")
    room.join(ALICE)
    event = dict(room.propose("m.room.message", ALICE, {}).event) | {"type": "ü" * 200}
    parsed = parse(event, room.version)
    assert isinstance(verify_pdu(parsed, room.version, KEYS, NOW), Dropped)


def test_step_7_an_event_without_the_policy_servers_signature_is_soft_failed() -> None:
    """If the room uses a policy server; the event that names it is exempt."""
    room = public_room("12", BOB)
    policy = PolicyServer("c.example", bytes(signer("c.example").key.verify_key))
    for pdu, expected in (
        (
            room.propose("m.room.message", BOB, {}),
            SoftFailed("step 7", "the room's policy server, c.example, has not signed it"),
        ),
        (room.propose("m.room.policy", ALICE, {}, ""), ACCEPTED),
    ):
        state = {key: room.state()[key] for key in required_state(pdu, room.version) if key in room.state()}
        verdict = authorise(VerifiedEvent(pdu), room.version, room.events, state, None, policy=policy)
        assert verdict == expected


@pytest.mark.parametrize(
    "verdict", [ACCEPTED, SoftFailed("5.3.7", "Otherwise, reject."), Rejected("6", "a: b: c")], ids=str
)
def test_a_verdict_is_stored(verdict: Verdict) -> None:
    """With the rule's number and text, even if they contain colons."""
    event = known_event(Room("12").create, verdict, 1, 2)
    assert event.result == verdict
    assert not event.is_outlier


def test_an_outlier_has_no_state() -> None:
    """The state before it is unknown."""
    assert known_event(Room("12").create, ACCEPTED).is_outlier
