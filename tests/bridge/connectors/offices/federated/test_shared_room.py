"""The members of a shared office, derived from the state of its room."""

from dataclasses import replace
from typing import Any

import pytest

from bridge.connectors.offices.federated.shared_room import (
    MAX_PATTERNS,
    Eviction,
    OfficeMembers,
    RemoteJoined,
    RemoteLeft,
    RemoteMember,
    is_active_agent,
    is_allowed,
    members_of_room,
    membership_changes,
    read_allowed,
    read_member,
    seat_holder,
)
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from federation.events.room_event import RoomEvent

BOSS, CHIEF, HANDS, FEET = "@boss:a.test", "@chief:b.test", "@hands:a.test", "@feet:b.test"
ALL = ("a.test", "b.test")


def member_event(user: str, role: str = COMPUTER, name: str | None = None, at: int = 1, **more: Any) -> RoomEvent:
    content = {"role": role, "name": name or user[1:].split(":")[0], "box": "key", **more}
    return RoomEvent(f"$member-{user}", "!r", user, "io.a2c.office.member", content, at, user)


def seat_event(user: str, sender: str | None = None) -> RoomEvent:
    return RoomEvent("$seat", "!r", sender or user, "io.a2c.office.agent", {"user": user}, 5, "")


def members(
    *events: RoomEvent, seat: RoomEvent | None = None, joined: set[str] | None = None, allowed: Any = ALL
) -> set[str]:
    senders = {event.sender for event in events}
    return set(members_of_room(events, seat, senders if joined is None else joined, allowed).by_user)


def test_a_member_sends_its_own_event() -> None:
    """1: no user can make another one a member."""
    assert members(member_event(HANDS), replace(member_event(FEET), sender=HANDS)) == {HANDS}


def test_a_member_is_joined_to_the_room() -> None:
    """2: a user that was kicked is no member."""
    assert members(member_event(HANDS), member_event(FEET), joined={FEET}) == {FEET}


def test_a_member_is_allowed_by_the_office() -> None:
    """3: by its server, or by a pattern of user ids on a server that people use as well."""
    assert members(member_event(HANDS), member_event(FEET), allowed=["a.test"]) == {HANDS}
    assert is_allowed("@_agent_x:b.test", ["@_agent_*:b.test"])
    assert not is_allowed("@mallory:b.test", ["@_agent_*:b.test"])
    assert not is_allowed("@_agent_x:evil.test", ["@_agent_*:b.test"])
    assert not is_allowed("@x:b.test", ["*", "b", ".test", ""])


def test_the_event_of_a_member_is_valid() -> None:
    """4: it has a role, a name and a key. The version is optional."""
    version = read_member(HANDS, member_event(HANDS, a2c_version="0.4.1").content)
    assert version is not None
    assert str(version.version) == "0.4.1"
    for wrong in (
        {"role": "boss"}, {"role": None}, {"role": ["agent"]}, {"name": ""}, {"name": 5}, {"name": "x" * 256},
        {"name": "a\nb"}, {"box": ""}, {"box": 7}, {"box": "k" * 101}, {"a2c_version": "new"},
    ):  # fmt: skip
        assert read_member(HANDS, {**member_event(HANDS).content, **wrong}) is None, wrong
    assert read_member(HANDS, {}) is None


def test_the_first_member_keeps_a_name() -> None:
    """5: by the timestamp of its event, then by its user id."""
    assert members(member_event(HANDS, name="x", at=2), member_event(FEET, name="x", at=1)) == {FEET}
    assert members(member_event(HANDS, name="x"), member_event(FEET, name="x")) == {FEET}


def test_only_the_holder_of_the_seat_is_the_agent() -> None:
    """6: the holder must have taken the seat itself, and be a member."""
    agents = member_event(BOSS, AGENT), member_event(CHIEF, AGENT)
    assert members(*agents, seat=seat_event(CHIEF)) == {CHIEF}
    assert members(*agents) == set()
    assert members(*agents, seat=seat_event(CHIEF, sender=BOSS)) == set()
    assert members(*agents, seat=seat_event(HANDS)) == set()


def test_the_allowed_members_are_read_from_the_office_state() -> None:
    """Invalid content allows none."""
    assert read_allowed({"members": ["a.test", 5, None, "b.test"]}) == ("a.test", "b.test")
    for wrong in ({}, {"members": "a.test"}, {"members": {"a": 1}}, {"members": ["a"] * (MAX_PATTERNS + 1)}):
        assert read_allowed(wrong) == ()


# -- changes of membership --


def remote(user: str, role: str = COMPUTER, name: str = "x") -> RemoteMember:
    return RemoteMember(user, role, name, None, "key")


def room(*members: RemoteMember) -> OfficeMembers:
    return OfficeMembers({one.user: one for one in members})


LOCAL = Member("sid1", COMPUTER, "hands", "o")
LOCAL_AGENT = Member("sid2", AGENT, "boss", "o")


def test_remote_members_join_and_leave() -> None:
    """Local members are never removed because the room does not show them."""
    feet = remote(FEET, name="feet")
    local = {"sid1": HANDS}
    assert membership_changes(room(feet), [LOCAL], local, {}) == [RemoteJoined(feet)]
    known = Member(FEET, COMPUTER, "feet", "o")
    assert membership_changes(room(feet), [LOCAL, known], local, {FEET: feet}) == []
    assert membership_changes(room(), [LOCAL, known], local, {FEET: feet}) == [RemoteLeft(FEET)]
    # The room shows a local member a moment after it has joined.
    assert membership_changes(room(remote(HANDS, name="hands")), [LOCAL], local, {}) == []


def test_a_changed_remote_member_leaves_and_joins() -> None:
    """With another name, role or key."""
    before, now = remote(FEET, name="feet"), remote(FEET, name="toes")
    known = Member(FEET, COMPUTER, "feet", "o")
    assert membership_changes(room(now), [known], {}, {FEET: before}) == [RemoteLeft(FEET), RemoteJoined(now)]


@pytest.mark.parametrize(
    ("other", "member", "user"),
    [(remote(CHIEF, AGENT, "chief"), LOCAL_AGENT, BOSS), (remote(FEET, COMPUTER, "hands"), LOCAL, HANDS)],
)
def test_a_local_member_is_evicted(other: RemoteMember, member: Member, user: str) -> None:
    """If the room gives its seat or its name to a member of another node. It leaves before the other one
    joins."""
    eviction, joined = membership_changes(room(other), [member], {member.sid: user}, {})
    assert isinstance(eviction, Eviction)
    assert eviction.member == member
    assert other.user in eviction.reason
    assert joined == RemoteJoined(other)


def test_a_local_agent_keeps_its_seat() -> None:
    """Also when it has reconnected with another connection."""
    agent = remote(BOSS, AGENT, "boss")
    assert membership_changes(room(agent), [LOCAL_AGENT], {"sid2": BOSS}, {}) == []


def test_the_holder_of_the_seat() -> None:
    """An empty content frees the seat. So does a holder that is no longer an Agent, or no longer in the
    room."""
    assert seat_holder(None, {BOSS}) is None
    assert seat_holder(seat_event(BOSS), {BOSS}) is None
    assert seat_holder(replace(seat_event(CHIEF), content={}), {BOSS}) is None
    assert seat_holder(seat_event(CHIEF), {BOSS}) == CHIEF
    assert is_active_agent(member_event(CHIEF, "agent"), "join")
    assert not is_active_agent(member_event(CHIEF, "agent"), "leave")
    assert not is_active_agent(member_event(CHIEF, "agent"), None)
    assert not is_active_agent(member_event(CHIEF, "computer"), "join")
    assert not is_active_agent(replace(member_event(CHIEF), content={}), "join")
    assert not is_active_agent(None, "join")
