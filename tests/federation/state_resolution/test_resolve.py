"""State resolution as a whole."""

import random
import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from federation.auth_rules import Allowed
from federation.events import EventId, Pdu, StateKey
from federation.matrix.room_version import ROOM_VERSIONS
from federation.state_resolution.conflicts import StateSet
from federation.state_resolution.resolve import NeedEvents, Resolution, resolve
from tests.support.rooms import ALICE, BOB, CAROL, DAVE, Room, levels_of, public_room

TOPIC: StateKey = ("m.room.topic", "")
OF_BOB: StateKey = ("m.room.member", BOB)
POWER_LEVELS: StateKey = ("m.room.power_levels", "")


def merged(room: Room, *ends: Pdu) -> Resolution:
    sets = [room.state_after[end.event_id] for end in ends]
    resolution = resolve(room.version, sets, room.events, rejected=room.rejected)
    assert isinstance(resolution, Resolution)
    return resolution


def fork(room: Room, after: Sequence[Pdu], *moves: tuple[str, str, dict[str, Any], str]) -> Pdu:
    """Add a branch of these events, each following the previous one, and return its last event."""
    for type_, sender, content, state_key in moves:
        pdu = room.propose(type_, sender, content, state_key, after=after)
        assert isinstance(room.verdict(pdu), Allowed)
        after = [room.add(pdu)]
    return after[0]


def member(sender: str, target: str, membership: str) -> tuple[str, str, dict[str, Any], str]:
    return "m.room.member", sender, {"membership": membership}, target


def topic(sender: str, text: str) -> tuple[str, str, dict[str, Any], str]:
    return "m.room.topic", sender, {"topic": text}, ""


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_equal_states_are_not_resolved(version: str) -> None:
    """No event needs to be loaded."""
    state = {TOPIC: "$t", OF_BOB: "$b"}
    assert resolve(ROOM_VERSIONS[version], [state], {}) == Resolution(state)
    assert resolve(ROOM_VERSIONS[version], [state, dict(state), dict(state)], {}) == Resolution(state)
    assert resolve(ROOM_VERSIONS[version], [{}, {}], {}) == Resolution({})


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_a_ban_wins_over_events_of_the_banned_user(version: str) -> None:
    """On the other branch, and with later times. The refusal has the rule."""
    room = public_room(version, BOB)
    start = room.head
    banned = fork(room, start, member(ALICE, BOB, "ban"))
    evading = fork(room, start, topic(BOB, "still here"), topic(BOB, "and here"))
    for ends in ((banned, evading), (evading, banned)):
        resolution = merged(room, *ends)
        assert resolution.state[OF_BOB] == banned.event_id
        assert TOPIC not in resolution.state
        assert resolution.refused[evading.event_id].text.startswith("If the sender's current membership")


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_the_later_of_two_topics_wins(version: str) -> None:
    """Both are based on the same power levels, so the time decides."""
    room = public_room(version, BOB)
    start = room.head
    first, second = fork(room, start, topic(ALICE, "first")), fork(room, start, topic(BOB, "second"))
    assert merged(room, first, second).state[TOPIC] == second.event_id
    assert merged(room, second, first).state[TOPIC] == second.event_id


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_a_demoted_user_cannot_demote_others(version: str) -> None:
    """Alice demotes Bob while he demotes all others: the event of the more powerful sender comes first."""
    room = public_room(version, BOB, CAROL, levels={"events": {"m.room.power_levels": 50}})
    content, start = levels_of(room), room.head
    without_bob = {user: level for user, level in content["users"].items() if user != BOB}
    demoted = fork(room, start, ("m.room.power_levels", ALICE, {**content, "users": without_bob}, ""))
    revenge = fork(room, start, ("m.room.power_levels", BOB, {**content, "events_default": 50}, ""))
    assert merged(room, demoted, revenge).state[POWER_LEVELS] == demoted.event_id


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_a_key_of_only_one_set_is_conflicted(version: str) -> None:
    """If the rules allow its event, it is in the result."""
    room = public_room(version, BOB)
    start = room.head
    with_topic, with_carol = (fork(room, start, topic(ALICE, "x")), fork(room, start, member(CAROL, CAROL, "join")))
    state = merged(room, with_topic, with_carol).state
    assert state[TOPIC] == with_topic.event_id
    assert state["m.room.member", CAROL] == with_carol.event_id
    assert {key: state[key] for key in room.state_after[start[0].event_id]} == room.state_after[start[0].event_id]


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_unconflicted_state_is_kept(version: str) -> None:
    """Step 5: also if the iterative auth checks had another result."""
    room = public_room(version, BOB, CAROL)
    start = room.head
    one, other = fork(room, start, topic(BOB, "1")), fork(room, start, topic(BOB, "2"))
    both = dict(room.state_after[one.event_id])
    agreed = {**both, OF_BOB: "$agreed-and-never-loaded"}
    sets: list[StateSet] = [agreed, {**agreed, TOPIC: other.event_id}]
    resolution = resolve(room.version, sets, room.events, absent={"$agreed-and-never-loaded"})
    assert isinstance(resolution, Resolution)
    assert resolution.state[OF_BOB] == "$agreed-and-never-loaded"


# -- loading events --


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_missing_events_are_requested(version: str) -> None:
    """`NeedEvents` names some; loading them with their auth chains and calling again leads to a result."""
    room = public_room(version, BOB)
    start = room.head
    ends = [fork(room, start, member(ALICE, BOB, "ban")), fork(room, start, topic(BOB, "x"))]
    sets = [room.state_after[end.event_id] for end in ends]
    loaded: dict[EventId, Pdu] = {}
    for _ in range(10):
        result = resolve(room.version, sets, loaded)
        if isinstance(result, Resolution):
            break
        assert result.event_ids.isdisjoint(loaded)
        to_load = list(result.event_ids)
        while to_load:
            pdu = room.events[to_load.pop()]
            loaded[pdu.event_id] = pdu
            to_load.extend(pdu.auth_events)
    else:
        pytest.fail("it never had enough")
    assert result == merged(room, *ends)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_edges_replace_loading(version: str) -> None:
    """With the ids of the auth chains, the events in the chains of unconflicted state need not be loaded."""
    room = public_room(version, BOB, CAROL)
    for number in range(20):
        room.member(CAROL, CAROL, "join", content={"displayname": str(number)})
    start = room.head
    ends = [fork(room, start, topic(ALICE, "1")), fork(room, start, topic(BOB, "2"))]
    sets = [room.state_after[end.event_id] for end in ends]
    edges = {pdu.event_id: pdu.auth_events for pdu in room.events.values()}
    loaded: dict[EventId, Pdu] = {}
    while isinstance(result := resolve(room.version, sets, loaded, auth_edges=edges), NeedEvents):
        loaded |= {event_id: room.events[event_id] for event_id in result.event_ids}
    assert result == merged(room, *ends)
    assert len(loaded) < 10


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_absent_events_are_left_out(version: str) -> None:
    """An unavailable event does not prevent a resolution."""
    room = public_room(version, BOB)
    start = room.head
    kept, lost = fork(room, start, topic(ALICE, "kept")), fork(room, start, topic(BOB, "lost"))
    sets = [room.state_after[kept.event_id], room.state_after[lost.event_id]]
    del room.events[lost.event_id]
    assert resolve(room.version, sets, room.events) == NeedEvents(frozenset({lost.event_id}))
    result = resolve(room.version, sets, room.events, absent={lost.event_id})
    assert isinstance(result, Resolution)
    assert result.state[TOPIC] == kept.event_id


# -- properties --

VERSIONS = ["3", "6", "10", "11", "12"]
PEOPLE = (ALICE, BOB, CAROL, DAVE)


def random_room(version: str, seed: int) -> tuple[Room, list[Pdu]]:
    """A room with a few branches of random events; events that the rules refuse are left out."""
    chance = random.Random(seed)
    room = public_room(version, BOB, CAROL, levels={"events": {"m.room.power_levels": 50}})
    start = room.head
    ends: list[Pdu] = []
    for _ in range(chance.randint(2, 4)):
        after = start if not ends or chance.random() < 0.6 else [chance.choice(ends)]
        for _ in range(chance.randint(1, 5)):
            sender, target = chance.choice(PEOPLE), chance.choice(PEOPLE)
            levels = {
                "users": {**levels_of(room)["users"], target: chance.choice([0, 50])},
                "ban": chance.choice([0, 50]),
            }
            move: tuple[str, str, dict[str, Any], str] = chance.choice(
                [
                    topic(sender, str(chance.random())),
                    member(sender, target, chance.choice(["leave", "ban", "invite"])),
                    member(sender, sender, chance.choice(["join", "leave"])),
                    ("m.room.join_rules", sender, {"join_rule": chance.choice(["public", "invite"])}, ""),
                    ("m.room.power_levels", sender, levels, ""),
                ]
            )
            room.now += chance.choice([0, 0, 5, -3])
            pdu = room.propose(move[0], move[1], move[2], move[3], after=after)
            if isinstance(room.verdict(pdu), Allowed):
                after = [room.add(pdu)]
        ends.append(after[0])
    return room, ends


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(VERSIONS), st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_the_order_of_sets_and_events_does_not_matter(version: str, seed: int, chance: random.Random) -> None:
    """Servers receive the branches in different orders, and all must get the same state."""
    room, ends = random_room(version, seed)
    expected = merged(room, *ends)
    chance.shuffle(ends)
    shuffled = list(room.events.items())
    chance.shuffle(shuffled)
    room.events = dict(shuffled)
    assert merged(room, *ends).state == expected.state
    assert merged(room, *ends, *ends).state == expected.state


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(VERSIONS), st.integers(0, 10**6))
def test_the_result_consists_of_the_sets(version: str, seed: int) -> None:
    """The result has for each key an event with that key, and contains the unconflicted state."""
    room, ends = random_room(version, seed)
    sets = [room.state_after[end.event_id] for end in ends]
    state = merged(room, *ends).state
    for key, event_id in state.items():
        assert room.events[event_id].key == key
    for key in set.intersection(*map(set, sets)):
        if len({state_set[key] for state_set in sets}) == 1:
            assert state[key] == sets[0][key]
    assert state["m.room.create", ""] == room.create.event_id


def large_room(version: str, members: int, conflicts: int) -> tuple[Room, list[StateSet]]:
    """A large room in which two branches have many conflicts: kicks, renames and topics."""
    room = public_room(version)
    start = [room.state()["m.room.join_rules", ""]]
    people = [f"@user{number}:s{number % 50}.example" for number in range(members)]
    joins = {user: room.propose("m.room.member", user, {"membership": "join"}, user, after=start) for user in people}
    room.events |= {pdu.event_id: pdu for pdu in joins.values()}
    base = {**room.state_after[start[0].event_id]} | {("m.room.member", user): joins[user].event_id for user in people}
    auth = room.state(start)
    sides: list[dict[StateKey, EventId]] = [dict(base), dict(base)]
    for number in range(conflicts):
        user = people[number]
        in_version = [] if room.version.create_event_is_room_id else [room.create]
        basis = [*in_version, auth[POWER_LEVELS], joins[user]]
        if number % 5 == 0:
            how = {"membership": "leave"}
            pdu = room.propose(
                "m.room.member", ALICE, how, user, after=start, auth=[*basis, auth["m.room.member", ALICE]]
            )
        else:
            name = {"membership": "join", "displayname": str(number)}
            pdu = room.propose(
                "m.room.member", user, name, user, after=start, auth=[*basis, auth["m.room.join_rules", ""]]
            )
        room.events[pdu.event_id] = pdu
        sides[number % 2]["m.room.member", user] = pdu.event_id
    return room, list[StateSet](sides)


@pytest.mark.parametrize("version", ["11", "12"])
def test_a_thousand_members_and_five_hundred_conflicts(version: str) -> None:
    """The budget is 100 ms; a busy machine gets more."""
    room, sides = large_room(version, 1_000, 500)
    taken = []
    for _ in range(3):
        started = time.perf_counter()
        resolution = resolve(room.version, sides, room.events)
        taken.append(time.perf_counter() - started)
    assert isinstance(resolution, Resolution)
    assert resolution.refused == {}
    assert len(resolution.state) == 1_004
    assert min(taken) < 0.3
