"""Room upgrades."""

from typing import Any

import pytest

from federation.auth_rules import Allowed
from federation.matrix.errors import MatrixError
from federation.matrix.room_version import ROOM_VERSIONS
from federation.rooms.upgrade import OldRoom, UpgradePlan, mute_old_room, plan, tombstone, with_new_room_allowed
from tests.support.rooms import ALICE, BOB, CAROL, Room, public_room

EVERY_STEP = pytest.mark.parametrize(
    ("before", "after"), [("6", "10"), ("10", "11"), ("11", "12"), ("12", "12"), ("12", "11"), ("10", "12")]
)
ERIN = "@erin:a.example"


def old_room(version: str) -> Room:
    """A room with all state that is copied, and some that is not."""
    room = public_room(version, BOB, CAROL, type="io.a2c.office", predecessor={"room_id": "!older:a.example"})
    room.send("m.room.name", ALICE, {"name": "Kitchen"}, "")
    room.topic(ALICE, "Soup")
    room.send("m.room.server_acl", ALICE, {"allow": ["*"], "deny": ["evil.example"]}, "")
    room.send("m.room.encryption", ALICE, {"algorithm": "m.megolm.v1.aes-sha2"}, "")
    room.send("m.room.pinned_events", ALICE, {"pinned": ["$1"]}, "")
    room.send("m.space.child", ALICE, {"via": ["a.example"], "order": "1"}, "!child:a.example")
    room.send("m.space.child", ALICE, {}, "!gone:a.example")
    room.send("io.a2c.office.agent", ALICE, {"agent": ALICE}, "")
    room.send("io.a2c.office.member", ALICE, {"role": "agent"}, ALICE)
    room.send("io.a2c.office.member", BOB, {"role": "computer"}, BOB)
    room.member(ALICE, CAROL, "ban", content={"reason": "spam"})
    return room


def upgraded(room: Room, version: str, user: str = ALICE, **how: Any) -> UpgradePlan:
    old = OldRoom(room.room_id, room.version, room.state(), room.head[0].event_id)
    return plan(old, user, version, profile={"displayname": "A"}, **how)


def build_room(upgrade: UpgradePlan, user: str = ALICE) -> Room:
    """The new room, after checking each event against the auth rules."""
    room = Room(upgrade.version.id, creator=user, **upgrade.events[0].content)
    for event in upgrade.events[1:]:
        pdu = room.propose(event.type, event.sender, event.content, event.state_key)
        assert isinstance(room.verdict(pdu), Allowed), event
        room.add(pdu)
    return room


@EVERY_STEP
def test_the_state_of_the_old_room_is_copied(before: str, after: str) -> None:
    """Every event is allowed, whatever the versions."""
    old = old_room(before)
    new = build_room(upgraded(old, after, extra_types=["io.a2c.office.agent", "io.a2c.office.member"]))
    state = {key: pdu.content for key, pdu in new.state().items()}
    create = state["m.room.create", ""]
    assert create["type"] == "io.a2c.office"
    pointer = {"room_id": old.room_id}
    if not ROOM_VERSIONS[after].create_event_is_room_id:
        pointer["event_id"] = old.head[0].event_id
    assert create["predecessor"] == pointer
    assert state["m.room.member", ALICE] == {"displayname": "A", "membership": "join"}
    assert state["m.room.name", ""] == {"name": "Kitchen"}
    assert state["m.room.topic", ""] == {"topic": "Soup"}
    assert state["m.room.join_rules", ""] == {"join_rule": "public"}
    assert state["m.room.server_acl", ""]["deny"] == ["evil.example"]
    assert state["m.space.child", "!child:a.example"] == {"via": ["a.example"], "order": "1"}
    assert state["m.room.member", CAROL] == {"membership": "ban", "reason": "spam"}
    assert state["io.a2c.office.agent", ""] == {"agent": ALICE}
    assert state["io.a2c.office.member", ALICE] == {"role": "agent"}
    # State with the user id of Bob as state key is not copied: only Bob can set it.
    for key in (
        ("io.a2c.office.member", BOB),
        ("m.room.member", BOB),
        ("m.room.encryption", ""),
        ("m.room.pinned_events", ""),
        ("m.space.child", "!gone:a.example"),
    ):
        assert key not in state


@EVERY_STEP
def test_power_levels_are_kept(before: str, after: str) -> None:
    """Creators of the new room are not listed; creators of the old one are."""
    old = old_room(before)
    levels = build_room(upgraded(old, after)).state()["m.room.power_levels", ""].content
    if ROOM_VERSIONS[after].creators_have_infinite_power:
        assert levels["users"] == {BOB: 50}
        assert levels["events"]["m.room.tombstone"] == 150
    else:
        assert levels["users"] == {ALICE: 100, BOB: 50}


@pytest.mark.parametrize("after", ["11", "12"])
def test_a_user_with_less_power_may_upgrade(after: str) -> None:
    """Up to version 11 the user has all power while the room is created, and the old power level afterwards.
    The old creator keeps the highest level."""
    old = public_room("11", BOB, levels={"events": {"m.room.tombstone": 50, "io.x": 200}})
    old.send("m.room.history_visibility", ALICE, {"history_visibility": "joined"}, "")
    new = build_room(upgraded(old, after, BOB), BOB)
    levels = new.state()["m.room.power_levels", ""].content
    expected = {ALICE: 100} if after == "12" else {ALICE: 100, BOB: 50}
    assert levels["users"] == expected
    assert levels["events"]["io.x"] == 200
    twelve = public_room("12", BOB, levels={"events": {"m.room.tombstone": 50}})
    kept = build_room(upgraded(twelve, "12", BOB), BOB).state()["m.room.power_levels", ""].content
    assert kept["users"] == {ALICE: 100}


def test_power_levels_become_integers() -> None:
    """Up to version 9 other formats were allowed; from 10 on such an event is invalid."""
    old = public_room("6", BOB, levels={"ban": "60", "events": {"io.x": "5", "io.y": 7}})
    levels = upgraded(old, "12").events[2].content
    assert (levels["ban"], levels["events"]["io.x"], levels["events"]["io.y"]) == (60, 5, 7)


def test_a_room_without_power_levels() -> None:
    """Its creator had 100."""
    old = Room("11")
    old.join(ALICE)
    levels = build_room(upgraded(old, "11")).state()["m.room.power_levels", ""].content
    assert levels["users"] == {ALICE: 100}


def test_additional_creators() -> None:
    """They are not copied from the old room, but given in the request."""
    old = public_room("12", BOB, additional_creators=[CAROL])
    new = build_room(upgraded(old, "12", additional_creators=[BOB, ALICE, BOB]))
    assert new.create.content["additional_creators"] == [BOB]
    assert new.state()["m.room.power_levels", ""].content["users"] == {CAROL: 100}
    for how in (
        {"version": "11", "additional_creators": [BOB]},
        {"version": "12", "additional_creators": ["bob"]},
        {"version": "12", "extra_types": ["m.room.member"]},
        {"version": "12", "extra_types": ["m.room.encryption"]},
    ):
        with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
            upgraded(old, **how)
    with pytest.raises(MatrixError, match="M_UNSUPPORTED_ROOM_VERSION"):
        upgraded(old, "9")


def test_the_old_room_is_muted() -> None:
    """Users without power cannot send events; higher levels stay."""
    assert mute_old_room({}, ROOM_VERSIONS["12"]) == {"events_default": 50, "invite": 50, "events": {}}
    levels = {"users": {ALICE: 100}, "users_default": 60, "invite": 80, "events": {"m.reaction": 0, "m.room.name": 90}}
    assert mute_old_room(levels, ROOM_VERSIONS["11"]) == {
        "users": {ALICE: 100},
        "users_default": 60,
        "events_default": 61,
        "invite": 80,
        "events": {"m.reaction": 61, "m.room.name": 90},
    }
    assert tombstone("!new")["replacement_room"] == "!new"


def test_join_rules_that_allow_the_old_room_allow_the_new_one() -> None:
    """The new room is added once."""
    rule = {"join_rule": "restricted", "allow": [{"type": "m.room_membership", "room_id": "!old"}]}
    followed = with_new_room_allowed(rule, "!old", "!new")
    assert followed is not None
    assert [one["room_id"] for one in followed["allow"]] == ["!old", "!new"]
    assert with_new_room_allowed(followed, "!old", "!new") is None
    assert with_new_room_allowed(rule, "!other", "!new") is None
    assert with_new_room_allowed({"join_rule": "public", "allow": 5}, "!old", "!new") is None
