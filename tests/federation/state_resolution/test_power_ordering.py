"""Reverse topological power ordering."""

import random

import pytest

from federation.events import Pdu
from federation.matrix.room_version import ROOM_VERSIONS
from federation.state_resolution.events import EventSource
from federation.state_resolution.resolve import is_power_event, reverse_topological_power_ordering, with_auth_chains
from tests.support.rooms import ALICE, BOB, CAROL, Room, public_room


def order(room: Room, *pdus: Pdu) -> list[str]:
    events = EventSource(room.events, None, (), room.version)
    ids = [pdu.event_id for pdu in pdus]
    orderings: list[list[str]] = []
    for _ in range(3):
        random.Random(len(orderings)).shuffle(ids)
        orderings.append(reverse_topological_power_ordering(with_auth_chains(ids, set(ids), events), events))
    assert orderings[0] == orderings[1] == orderings[2]
    return orderings[0]


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_power_events(version: str) -> None:
    """Power levels, join rules, kicks and bans; as in Synapse also the create event, and the first two only
    with an empty state key."""
    room = public_room(version, BOB, CAROL)
    state = room.state()
    for key in (("m.room.create", ""), ("m.room.power_levels", ""), ("m.room.join_rules", "")):
        assert is_power_event(state[key])
    for membership in ("leave", "ban"):
        assert is_power_event(room.propose("m.room.member", ALICE, {"membership": membership}, BOB))
        assert not is_power_event(room.propose("m.room.member", BOB, {"membership": membership}, BOB))
    for membership in ("join", "invite", "knock"):
        assert not is_power_event(room.propose("m.room.member", ALICE, {"membership": membership}, BOB))
    for type_ in ("m.room.power_levels", "m.room.join_rules"):
        assert not is_power_event(room.propose(type_, ALICE, {}, "other"))
    assert not is_power_event(room.propose("m.room.topic", ALICE, {}, ""))
    assert not is_power_event(room.propose("m.room.member", ALICE, {"membership": ["ban"]}, BOB))


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_auth_events_come_first(version: str) -> None:
    """Whatever the power or the time."""
    room = public_room(version, BOB, CAROL)
    first = room.power_levels(ALICE, dict(room.state()["m.room.power_levels", ""].content))
    second = room.member(BOB, CAROL, "ban")
    third = room.join_rule(ALICE, "invite")
    assert order(room, first, second, third) == [first.event_id, third.event_id, second.event_id]


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_more_power_comes_first(version: str) -> None:
    """1. *x*'s sender has *greater* power level than *y*'s sender, in their own auth events; a creator of
    version 12 comes first."""
    room = public_room(version, BOB, CAROL, levels={"events": {"m.room.join_rules": 50}})
    fork = room.head
    by_bob = room.propose("m.room.join_rules", BOB, {"join_rule": "invite"}, "", after=fork)
    by_alice = room.propose("m.room.join_rules", ALICE, {"join_rule": "knock"}, "", after=fork)
    for pdu in (by_bob, by_alice):
        room.add(pdu)
    assert by_bob.origin_server_ts < by_alice.origin_server_ts
    assert order(room, by_bob, by_alice) == [by_alice.event_id, by_bob.event_id]


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_then_the_earlier_and_then_the_smaller_id(version: str) -> None:
    """2. `origin_server_ts`; 3. `event_id`."""
    room = public_room(version)
    fork = room.head
    rules = [
        room.add(room.propose("m.room.join_rules", ALICE, {"join_rule": rule}, "", after=fork))
        for rule in ("knock", "invite", "public")
    ]
    assert order(room, *rules) == [pdu.event_id for pdu in rules]
    same_time = []
    for rule in ("knock", "invite", "public", "private"):
        room.now = 5_000
        same_time.append(room.add(room.propose("m.room.join_rules", ALICE, {"join_rule": rule}, "", after=fork)))
    assert order(room, *same_time) == sorted(pdu.event_id for pdu in same_time)


def test_the_walk_stays_within_the_full_conflicted_set() -> None:
    """As in Synapse: a chain that leaves the set and returns to it is not followed across the gap."""
    room = public_room("11", BOB)
    levels = room.state()["m.room.power_levels", ""]
    bob = room.state()["m.room.member", BOB]
    kick = room.member(ALICE, BOB, "leave")
    events = EventSource(room.events, None, (), room.version)
    # The auth events of the kick are Bob's join and the power levels, which are also an auth event of the
    # join.
    both = with_auth_chains([kick.event_id], {kick.event_id, bob.event_id, levels.event_id}, events)
    assert both[kick.event_id] == {bob.event_id, levels.event_id}
    assert both[bob.event_id] == {levels.event_id}
    gap = with_auth_chains([kick.event_id], {kick.event_id, room.create.event_id}, events)
    assert gap == {kick.event_id: {room.create.event_id}, room.create.event_id: set()}
    alone = with_auth_chains([kick.event_id], {kick.event_id}, events)
    assert alone == {kick.event_id: set()}
