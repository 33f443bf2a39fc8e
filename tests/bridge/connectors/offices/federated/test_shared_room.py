"""Who is in an office that several nodes share."""

from dataclasses import replace
from typing import Any

import pytest

from bridge.connectors.offices.federated.shared_room import (
    MOST_PATTERNS,
    Come,
    Evicted,
    Gone,
    Present,
    SharedRoom,
    changes,
    keeps_seat,
    may_take_part,
    read_allowed,
    read_member,
    shared_room,
    sits,
)
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from federation.events.room_event import RoomEvent

BOSS, CHIEF, HANDS, FEET = "@boss:a.test", "@chief:b.test", "@hands:a.test", "@feet:b.test"
ALL = ("a.test", "b.test")


def said(user: str, role: str = COMPUTER, name: str | None = None, at: int = 1, **more: Any) -> RoomEvent:
    content = {"role": role, "name": name or user[1:].split(":")[0], "box": "key", **more}
    return RoomEvent(f"$member-{user}", "!r", user, "io.a2c.office.member", content, at, user)


def seat(user: str, sender: str | None = None) -> RoomEvent:
    return RoomEvent("$seat", "!r", sender or user, "io.a2c.office.agent", {"user": user}, 5, "")


def there(
    *events: RoomEvent, sits: RoomEvent | None = None, joined: set[str] | None = None, allowed: Any = ALL
) -> set[str]:
    everybody = {event.sender for event in events}
    return set(shared_room(events, sits, everybody if joined is None else joined, allowed).members)


def test_whoever_says_it_of_itself() -> None:
    """1: nobody is made a member by somebody else."""
    assert there(said(HANDS), replace(said(FEET), sender=HANDS)) == {HANDS}


def test_whoever_is_in_the_room() -> None:
    """2: whoever was put out of it is no member."""
    assert there(said(HANDS), said(FEET), joined={FEET}) == {FEET}


def test_whoever_may() -> None:
    """3: by the server, or by a pattern of users where people live beside them."""
    assert there(said(HANDS), said(FEET), allowed=["a.test"]) == {HANDS}
    assert may_take_part("@_agent_x:b.test", ["@_agent_*:b.test"])
    assert not may_take_part("@mallory:b.test", ["@_agent_*:b.test"])
    assert not may_take_part("@_agent_x:evil.test", ["@_agent_*:b.test"])
    assert not may_take_part("@x:b.test", ["*", "b", ".test", ""])


def test_whoever_says_it_in_its_form() -> None:
    """4: with a role, a name and a key; without a version it is a client of before there were any."""
    version = read_member(HANDS, said(HANDS, a2c_version="0.4.1").content)
    assert version is not None
    assert str(version.version) == "0.4.1"
    for wrong in (
        {"role": "boss"}, {"role": None}, {"role": ["agent"]}, {"name": ""}, {"name": 5}, {"name": "x" * 256},
        {"name": "a\nb"}, {"box": ""}, {"box": 7}, {"box": "k" * 101}, {"a2c_version": "new"},
    ):  # fmt: skip
        assert read_member(HANDS, {**said(HANDS).content, **wrong}) is None, wrong
    assert read_member(HANDS, {}) is None


def test_of_one_name_the_first_stays() -> None:
    """5: by the time that its event bears, and then by its user."""
    assert there(said(HANDS, name="x", at=2), said(FEET, name="x", at=1)) == {FEET}
    assert there(said(HANDS, name="x"), said(FEET, name="x")) == {FEET}


def test_of_agents_the_one_that_sits() -> None:
    """6: who says so itself; one that somebody else has put there, and one that is no member, does not."""
    agents = said(BOSS, AGENT), said(CHIEF, AGENT)
    assert there(*agents, sits=seat(CHIEF)) == {CHIEF}
    assert there(*agents) == set()
    assert there(*agents, sits=seat(CHIEF, sender=BOSS)) == set()
    assert there(*agents, sits=seat(HANDS)) == set()


def test_who_may_is_read_from_the_room() -> None:
    """What is no list of names lets nobody in."""
    assert read_allowed({"members": ["a.test", 5, None, "b.test"]}) == ("a.test", "b.test")
    for wrong in ({}, {"members": "a.test"}, {"members": {"a": 1}}, {"members": ["a"] * (MOST_PATTERNS + 1)}):
        assert read_allowed(wrong) == ()


# -- what follows --


def present(user: str, role: str = COMPUTER, name: str = "x") -> Present:
    return Present(user, role, name, None, "key")


def room(*members: Present) -> SharedRoom:
    return SharedRoom({one.user: one for one in members})


OURS = Member("sid1", COMPUTER, "hands", "o")
OUR_AGENT = Member("sid2", AGENT, "boss", "o")


def test_who_comes_and_who_goes() -> None:
    """Members of other nodes; those of ours say themselves when they go."""
    other = present(FEET, name="feet")
    ours = {"sid1": HANDS}
    assert changes(room(other), [OURS], ours, {}) == [Come(other)]
    theirs = Member(FEET, COMPUTER, "feet", "o")
    assert changes(room(other), [OURS, theirs], ours, {FEET: other}) == []
    assert changes(room(), [OURS, theirs], ours, {FEET: other}) == [Gone(FEET)]
    # Ours need not be in the room yet.
    assert changes(room(present(HANDS, name="hands")), [OURS], ours, {}) == []


def test_who_is_another_one_now_has_gone_first() -> None:
    """With another name, role or key."""
    before, now = present(FEET, name="feet"), present(FEET, name="toes")
    theirs = Member(FEET, COMPUTER, "feet", "o")
    assert changes(room(now), [theirs], {}, {FEET: before}) == [Gone(FEET), Come(now)]


@pytest.mark.parametrize(
    ("there", "member", "reason"),
    [
        (present(CHIEF, AGENT, "chief"), OUR_AGENT, f"the seat of the Agent has gone to {CHIEF}"),
        (present(FEET, COMPUTER, "hands"), OURS, f"the name 'hands' has been taken by {FEET}"),
    ],
)
def test_who_has_to_leave(there: Present, member: Member, reason: str) -> None:
    """One of ours in whose place somebody of another node is. It makes room first."""
    user = {"sid1": HANDS, "sid2": BOSS}[member.sid]
    assert changes(room(there), [member], {member.sid: user}, {}) == [Evicted(member, reason), Come(there)]


def test_whoever_sits_stays() -> None:
    """Our own agent in our own seat, also when it comes back by another connection."""
    assert changes(room(present(BOSS, AGENT, "boss")), [OUR_AGENT], {"sid2": BOSS}, {}) == []


def test_who_has_the_seat() -> None:
    """Of those that are not ours. An empty state is an empty seat; who says no more that it is an Agent, or
    is not in the room, has left it."""
    assert sits(None, {BOSS}) is None
    assert sits(seat(BOSS), {BOSS}) is None
    assert sits(replace(seat(CHIEF), content={}), {BOSS}) is None
    assert sits(seat(CHIEF), {BOSS}) == CHIEF
    assert keeps_seat(said(CHIEF, "agent"), "join")
    assert not keeps_seat(said(CHIEF, "agent"), "leave")
    assert not keeps_seat(said(CHIEF, "agent"), None)
    assert not keeps_seat(said(CHIEF, "computer"), "join")
    assert not keeps_seat(replace(said(CHIEF), content={}), "join")
    assert not keeps_seat(None, "join")
