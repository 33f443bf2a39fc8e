"""State resolution in thirteen rooms with a known correct outcome.

Each room is small: an admin, a moderator, and two branches of its history that disagree. The branches are
resolved after each event and once at the end; the state must be the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from federation.events import EventId, Pdu, StateKey, make_pdu
from federation.matrix import canonical_json
from federation.matrix.room_version import ROOM_VERSIONS
from federation.state_resolution.resolve import Resolution, resolve

State = dict[StateKey, EventId]
ADMIN, MODERATOR, FIRST, SECOND = "@admin:here", "@moderator:here", "@first:here", "@second:here"
CREATE, LEVELS, RULES = ("m.room.create", ""), ("m.room.power_levels", ""), ("m.room.join_rules", "")
TOPIC = ("m.room.topic", "")


def member(user: str) -> StateKey:
    return "m.room.member", user


@dataclass
class Room:
    """Builds state events. Their auth events are taken from the state on their own branch."""

    version: str = "10"
    events: dict[EventId, Pdu] = field(default_factory=dict)
    state_after: dict[EventId, State] = field(default_factory=dict)

    def add(
        self, name: str, key: StateKey, sender: str, content: Mapping[str, Any], after: str = "", ts: int = 0
    ) -> str:
        """`name` is the event's id and breaks ties; `after` is the previous event on its branch. `ts`
        defaults to the depth."""
        before = self.state_after.get(after, {})
        depth = self.events[after].depth + 1 if after else 1
        event = {
            **({} if self.version == "12" and key == CREATE else {"room_id": "!create"}),
            "type": key[0],
            "state_key": key[1],
            "sender": sender,
            "content": content,
            "depth": depth,
            "origin_server_ts": ts or depth,
            "prev_events": [after] if after else [],
            "auth_events": [before[one] for one in self._authorising(key, sender, content) if one in before],
        }
        version = ROOM_VERSIONS[self.version]
        self.events[name] = make_pdu(event, canonical_json.encode(event), name, version)
        self.state_after[name] = {**before, key: name}
        return name

    def join(self, user: str, after: str, name: str = "", shown: str = "") -> str:
        content = {"membership": "join", "displayname": shown or user}
        return self.add(name or f"$join-{user}", member(user), user, content, after)

    def levels(self, name: str, sender: str, after: str, ts: int = 0, **content: Any) -> str:
        """`users` does not include the admin, who is a creator with infinite power from version 12 on."""
        users = content.pop("users", {})
        if self.version != "12":
            users = {ADMIN: 100, **users}
        return self.add(name, LEVELS, sender, {"users": users, **content}, after, ts)

    def _authorising(self, key: StateKey, sender: str, content: Mapping[str, Any]) -> list[StateKey]:
        """Server-server API, "Auth events selection", as far as these rooms need it."""
        keys = [LEVELS, member(sender)]
        if self.version != "12":
            keys.append(CREATE)
        if key[0] == "m.room.member":
            keys.append(member(key[1]))
            if content["membership"] == "join":
                keys.append(RULES)
        return list(dict.fromkeys(keys))


def begin(room: Room, join_rule: str, more: Sequence[tuple[str, Mapping[str, Any]]] = ()) -> str:
    """Create the room as the admin; return the last event."""
    content = {"room_version": room.version}
    if room.version == "10":
        content["creator"] = ADMIN
    last = room.add("$create", CREATE, ADMIN, content)
    last = room.join(ADMIN, last)
    last = room.levels("$levels-0", ADMIN, last)
    last = room.add("$rules-0", RULES, ADMIN, {"join_rule": join_rule}, last)
    for type_, entry in more:
        last = room.add(f"${type_}", (type_, ""), ADMIN, entry, last)
    return last


SHARED = ("m.room.history_visibility", {"history_visibility": "shared"})
CLOSED = ("m.room.guest_access", {"guest_access": "forbidden"})


def public_room(room: Room) -> str:
    """A room in which a moderator has joined and has level 50."""
    last = room.join(MODERATOR, begin(room, "public", (SHARED, CLOSED)))
    return room.levels("$levels-1", ADMIN, last, users={MODERATOR: 50})


# -- rooms whose branches are resolved; each gives what the state is beyond that at the fork --


def no_fork_by_invite(room: Room) -> State:
    last = begin(room, "invite", (SHARED, CLOSED))
    return room.state_after[last]


def no_fork_public(room: Room) -> State:
    return room.state_after[public_room(room)]


def time_decides_before_the_id(room: Room) -> State:
    """Two join rules of equal power: the later one wins, although its id is smaller."""
    fork = begin(room, "invite", (SHARED, CLOSED))
    room.add("$z-earlier", RULES, ADMIN, {"join_rule": "knock"}, fork, ts=6)
    room.add("$a-later", RULES, ADMIN, {"join_rule": "public"}, fork, ts=7)
    return {**room.state_after[fork], RULES: "$a-later"}


def a_ban_beats_the_levels_of_the_banned(room: Room) -> State:
    fork = public_room(room)
    room.add("$ban", member(MODERATOR), ADMIN, {"membership": "ban"}, fork)
    room.levels("$levels-2", MODERATOR, fork, users={MODERATOR: 50})
    return {**room.state_after[fork], member(MODERATOR): "$ban"}


def levels_beat_a_topic(room: Room) -> State:
    """The moderator loses power on one branch and sets the topic on the other."""
    fork = public_room(room)
    topic = room.add("$topic-a", TOPIC, ADMIN, {"topic": "the admin's"}, fork)
    room.levels("$levels-2", ADMIN, topic, users={MODERATOR: 0})
    room.add("$topic-b", TOPIC, MODERATOR, {"topic": "the moderator's"}, fork)
    return {**room.state_after[fork], LEVELS: "$levels-2", TOPIC: "$topic-a"}


def levels_of_the_admin_beat_those_of_the_moderator(room: Room) -> State:
    fork = public_room(room)
    room.levels("$levels-a", ADMIN, fork, users={MODERATOR: 0})
    room.levels("$levels-b", MODERATOR, fork, users={MODERATOR: 50}, users_default=-1)
    return {**room.state_after[fork], LEVELS: "$levels-a"}


def a_ban_beats_a_topic(room: Room) -> State:
    fork = room.add("$topic-0", TOPIC, ADMIN, {"topic": "the first"}, public_room(room))
    room.add("$ban", member(MODERATOR), ADMIN, {"membership": "ban"}, fork)
    room.add("$topic-1", TOPIC, MODERATOR, {"topic": "the moderator's"}, fork)
    return {**room.state_after[fork], member(MODERATOR): "$ban"}


def join_rules_beat_a_join(room: Room) -> State:
    """The room becomes invite-only while a user joins; the power levels were sent again before."""
    fork = room.levels("$levels-2", MODERATOR, public_room(room), users={MODERATOR: 50})
    room.add("$rules-1", RULES, ADMIN, {"join_rule": "invite"}, fork)
    room.join(FIRST, fork)
    return {**room.state_after[fork], RULES: "$rules-1"}


def two_joins_are_no_conflict(room: Room) -> State:
    fork = public_room(room)
    joins = {member(user): room.join(user, fork) for user in (FIRST, SECOND)}
    return {**room.state_after[fork], **joins}


BRANCHES: Sequence[Callable[[Room], State]] = (
    no_fork_by_invite,
    no_fork_public,
    time_decides_before_the_id,
    a_ban_beats_the_levels_of_the_banned,
    levels_beat_a_topic,
    levels_of_the_admin_beat_those_of_the_moderator,
    a_ban_beats_a_topic,
    join_rules_beat_a_join,
    two_joins_are_no_conflict,
)


class Server:
    """Receives events one by one, and resolves the states at its forward extremities."""

    def __init__(self, version: str) -> None:
        self._version = ROOM_VERSIONS[version]
        self._events: dict[EventId, Pdu] = {}
        self._state_after: dict[EventId, State] = {}

    def receive(self, pdu: Pdu) -> None:
        before = self._resolve(pdu.prev_events)
        assert pdu.key is not None
        self._events[pdu.event_id] = pdu
        self._state_after[pdu.event_id] = {**before, pdu.key: pdu.event_id}

    def state(self, *, backwards: bool = False) -> State:
        followed = {prev for pdu in self._events.values() for prev in pdu.prev_events}
        ends = [event_id for event_id in self._events if event_id not in followed]
        return self._resolve(ends[::-1] if backwards else ends)

    def _resolve(self, ends: Iterable[EventId]) -> State:
        sets = [self._state_after[end] for end in ends]
        if not sets:
            return {}
        resolution = resolve(self._version, sets, self._events)
        assert isinstance(resolution, Resolution)
        return dict(resolution.state)


@pytest.mark.parametrize("build", BRANCHES, ids=lambda build: build.__name__)
def test_branches_lead_to_one_state(build: Callable[[Room], State]) -> None:
    """Resolved after each event or once at the end, in either order of the branches."""
    room = Room()
    expected = build(room)
    one_by_one, at_once = Server(room.version), Server(room.version)
    for pdu in room.events.values():
        one_by_one.receive(pdu)
        state = one_by_one.state()
        at_once.receive(pdu)
    assert state == expected
    assert at_once.state() == expected
    assert at_once.state(backwards=True) == expected


# -- the two problems of MSC4297: state sets that servers may hold after a faulty resolution --


def without_rules(room: Room) -> tuple[list[State], State]:
    """Problem A: the states of two servers differ in the join rule, and the admin who set it has left.
    Version 2 resolves to no join rule at all; version 2.1 keeps the newer one."""
    last = room.join(SECOND, room.join(FIRST, begin(room, "public")))
    last = room.add("$rules-1", RULES, ADMIN, {"join_rule": "invite"}, last)
    left = room.add("$left", member(ADMIN), ADMIN, {"membership": "leave"}, last)
    first = room.join(FIRST, left, "$first-renamed", "another name")
    second = room.join(SECOND, left, "$second-renamed", "another name")
    common = {CREATE: "$create", LEVELS: "$levels-0", member(ADMIN): left}
    sets = [
        {**common, RULES: "$rules-1", member(FIRST): first, member(SECOND): f"$join-{SECOND}"},
        {**common, RULES: "$rules-0", member(FIRST): f"$join-{FIRST}", member(SECOND): second},
    ]
    expected = {**common, member(FIRST): first, member(SECOND): second}
    return sets, expected | ({RULES: "$rules-1"} if room.version == "12" else {})


def with_old_levels(room: Room) -> tuple[list[State], State]:
    """Problem B: one of two servers has power levels that were replaced twice since. Version 2 resolves to
    the oldest ones; version 2.1 replays the events in between and ends with the newest."""
    last = room.join(FIRST, room.join(MODERATOR, begin(room, "public")))
    last = room.levels("$levels-1", ADMIN, last, users={MODERATOR: 50})
    last = room.levels("$levels-2", MODERATOR, last, users={MODERATOR: 50, FIRST: 50})
    second = room.join(SECOND, last)
    third = room.join("@third:here", room.join("@third:here", last), "$third-renamed", "another name")
    common = {
        CREATE: "$create",
        RULES: "$rules-0",
        **{member(user): f"$join-{user}" for user in (ADMIN, MODERATOR, FIRST)},
    }
    sets = [
        {**common, LEVELS: "$levels-0", member("@third:here"): third},
        {**common, LEVELS: "$levels-2", member(SECOND): second},
    ]
    levels = "$levels-2" if room.version == "12" else "$levels-0"
    return sets, {**common, LEVELS: levels, member(SECOND): second, member("@third:here"): third}


@pytest.mark.parametrize("version", ["11", "12"])
@pytest.mark.parametrize("build", [without_rules, with_old_levels], ids=lambda build: build.__name__)
def test_states_are_resolved(build: Callable[[Room], tuple[list[State], State]], version: str) -> None:
    """Version 2 of the algorithm in room version 11, version 2.1 in room version 12, in any order of the
    state sets."""
    room = Room(version)
    sets, expected = build(room)
    for given in (sets, sets[::-1], [*sets, sets[0]]):
        resolution = resolve(ROOM_VERSIONS[version], given, room.events)
        assert isinstance(resolution, Resolution)
        assert resolution.state == expected
