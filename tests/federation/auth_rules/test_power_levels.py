"""Rule 10: changes of the power levels."""

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest

from federation.auth_rules import Allowed, Refused, Verdict
from federation.matrix.room_version import ROOM_VERSIONS
from tests.federation.auth_rules.refusals import RefusalCase, assert_refused, cases_of, refused_by
from tests.support.rooms import ALICE, BOB, CAROL, DAVE, Room, levels_of, public_room

UNTIL_5, UNTIL_9 = ["3", "4", "5"], ["3", "4", "5", "6", "7", "8", "9"]
FROM_6 = [version for version in ROOM_VERSIONS if version not in UNTIL_5]
FROM_10 = ["10", "11", "12"]


def levels_room(version: str, **levels: Any) -> Room:
    """Alice has 100 or more, Bob and Carol have 50, Dave 0; changing the power levels requires 50."""
    room = public_room(version, BOB, CAROL, DAVE, levels={"events": {"m.room.power_levels": 50}, **levels})
    content = levels_of(room)
    content["users"][CAROL] = 50
    room.power_levels(ALICE, content)
    return room


def change(room: Room, sender: str = BOB, state_key: str | None = "", **changes: Any) -> Verdict:
    """The current levels with these properties changed; None removes one."""
    content = {name: value for name, value in {**levels_of(room), **changes}.items() if value is not None}
    return room.verdict(room.propose("m.room.power_levels", sender, content, state_key))


def users(room: Room, **changes: int | None) -> dict[str, Any]:
    """The users of the current levels, by first name."""
    named = {"alice": ALICE, "bob": BOB, "carol": CAROL, "dave": DAVE}
    new = {**levels_of(room)["users"], **{named[name]: level for name, level in changes.items()}}
    return {user: level for user, level in new.items() if level is not None}


def first(version: str, content: dict[str, Any], **room: Any) -> Verdict:
    """The first power levels of a room."""
    of = Room(version, **room)
    of.join(ALICE)
    return of.verdict(of.propose("m.room.power_levels", ALICE, content, ""))


def any_refusal(version: str, names: Iterable[str], values: Iterable[object], within: str = "") -> Verdict:
    """The last refusal of first power levels with each of these names set to each of these values. If one is
    allowed, that verdict is returned."""
    verdict: Verdict = Allowed()
    for name, value in product(names, values):
        verdict = first(version, {within: {name: value}} if within else {name: value})
        if isinstance(verdict, Allowed):
            break
    return verdict


PROPERTIES = ("users_default", "events_default", "state_default", "ban", "redact", "kick", "invite")
NO_INTEGERS: list[object] = ["50", " 5 ", True, None, [], {}, "abc"]
NO_OBJECTS: list[object] = [None, [], 3, "x", False]
UNREADABLE: list[object] = ["abc", "5.5", "", [], {}, "9" * 5000]


@refused_by("levels.integers")
def a_property_that_is_not_an_integer(version: str) -> Verdict:
    return any_refusal(version, PROPERTIES, NO_INTEGERS)


@refused_by("levels.maps")
def a_level_of_an_event_that_is_not_an_integer(version: str) -> Verdict:
    return any_refusal(version, ["m.room.topic"], NO_INTEGERS, within="events")


@refused_by("levels.maps")
def a_level_of_a_notification_that_is_not_an_integer(version: str) -> Verdict:
    return any_refusal(version, ["room"], NO_INTEGERS, within="notifications")


@refused_by("levels.maps")
def a_map_that_is_not_an_object(version: str) -> Verdict:
    return any_refusal(version, ["events", "notifications"], NO_OBJECTS)


@refused_by("levels.users")
def users_that_are_not_an_object(version: str) -> Verdict:
    return any_refusal(version, ["users"], NO_OBJECTS)


@refused_by("levels.users")
def users_that_are_not_user_ids(version: str) -> Verdict:
    return any_refusal(version, ["", "bob", "@bob", "b.example:@bob"], [50], within="users")


@refused_by("levels.users", FROM_10)
def a_level_of_a_user_that_is_not_an_integer(version: str) -> Verdict:
    return any_refusal(version, [BOB], NO_INTEGERS, within="users")


@refused_by("levels.users", UNTIL_9)
def an_invalid_level_of_a_user(version: str) -> Verdict:
    return any_refusal(version, [BOB], [None, *UNREADABLE], within="users")


# Until version 9 no rule requires the following. But in force, such levels would make every later event fail
# on other servers.


@refused_by("levels.users", UNTIL_9)
def an_invalid_property(version: str) -> Verdict:
    return any_refusal(version, PROPERTIES, UNREADABLE)


@refused_by("levels.users", UNTIL_9)
def an_invalid_level_of_an_event(version: str) -> Verdict:
    return any_refusal(version, ["m.room.topic"], UNREADABLE, within="events")


@refused_by("levels.users", UNTIL_9)
def events_that_are_not_an_object(version: str) -> Verdict:
    return any_refusal(version, ["events"], NO_OBJECTS)


@refused_by("levels.users", ["6", "7", "8", "9"])
def notifications_that_are_not_an_object(version: str) -> Verdict:
    return any_refusal(version, ["notifications"], NO_OBJECTS)


@refused_by("levels.users")
def a_message_event(version: str) -> Verdict:
    return change(levels_room(version), ALICE, state_key=None)


@refused_by("levels.creators")
def the_creator_among_the_users(version: str) -> Verdict:
    return first(version, {"users": {ALICE: 100}})


@refused_by("levels.creators")
def an_additional_creator_among_the_users(version: str) -> Verdict:
    return first(version, {"users": {BOB: 0}}, additional_creators=[BOB])


@refused_by("levels.property.current")
def lowering_a_property_above_oneself(version: str) -> Verdict:
    return change(levels_room(version, ban=60), ban=40)


@refused_by("levels.property.current")
def removing_a_property_above_oneself(version: str) -> Verdict:
    return change(levels_room(version, redact=60), redact=None)


@refused_by("levels.property.new")
def raising_a_property_above_oneself(version: str) -> Verdict:
    return change(levels_room(version), kick=60)


@refused_by("levels.event.current")
def lowering_an_event_above_oneself(version: str) -> Verdict:
    events = {"m.room.power_levels": 50, "m.room.topic": 60}
    return change(levels_room(version, events=events), events={"m.room.power_levels": 50, "m.room.topic": 40})


@refused_by("levels.event.current")
def removing_an_event_above_oneself(version: str) -> Verdict:
    events = {"m.room.power_levels": 50, "m.room.topic": 60}
    return change(levels_room(version, events=events), events={"m.room.power_levels": 50})


@refused_by("levels.event.current", FROM_6)
def lowering_a_notification_above_oneself(version: str) -> Verdict:
    return change(levels_room(version, notifications={"room": 60}), notifications={"room": 50})


@refused_by("levels.event.new")
def raising_an_event_above_oneself(version: str) -> Verdict:
    return change(levels_room(version), events={"m.room.power_levels": 60})


@refused_by("levels.event.new", FROM_6)
def adding_a_notification_above_oneself(version: str) -> Verdict:
    return change(levels_room(version), notifications={"room": 60})


@refused_by("levels.user.current")
def lowering_an_equal(version: str) -> Verdict:
    room = levels_room(version)
    return change(room, users=users(room, carol=40))


@refused_by("levels.user.current")
def removing_an_equal(version: str) -> Verdict:
    room = levels_room(version)
    return change(room, users=users(room, carol=None))


@refused_by("levels.user.current", ["3", "6", "10", "11"])
def lowering_a_user_above_oneself(version: str) -> Verdict:
    room = levels_room(version)
    return change(room, users=users(room, alice=0))


@refused_by("levels.user.new")
def raising_a_user_above_oneself(version: str) -> Verdict:
    room = levels_room(version)
    return change(room, users=users(room, dave=51))


@refused_by("levels.user.new")
def raising_oneself(version: str) -> Verdict:
    room = levels_room(version)
    return change(room, users=users(room, bob=51))


@pytest.mark.parametrize(("version", "refusal"), cases_of(__name__))
def test_refusals(version: str, refusal: RefusalCase) -> None:
    """Each is refused by the given rule, with its number in the version."""
    assert_refused(version, refusal)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_changes_within_the_senders_power(version: str) -> None:
    """Values up to the sender's level may be set, lowered and removed, including the sender's own level."""
    room = levels_room(version, ban=50, events={"m.room.power_levels": 50, "m.room.topic": 50})
    for changes in (
        {"ban": 40, "invite": 50, "users_default": 10},
        {"ban": None},
        {"events": {"m.room.power_levels": 50, "m.room.name": 50}},
        {"events": {"m.room.power_levels": 0}},
        {"users": users(room, dave=50)},
        {"users": users(room, bob=0)},
        {"users": users(room, bob=None)},
        {"notifications": {"room": 50}},
        {"anything": "else"},
        {},
    ):
        verdict = change(room, **changes)
        assert isinstance(verdict, Allowed), str(verdict)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_unchanged_higher_levels_are_allowed(version: str) -> None:
    """Only alterations are checked."""
    room = levels_room(version, ban=100, events={"m.room.power_levels": 50, "m.room.topic": 100})
    assert isinstance(change(room, kick=40), Allowed)


@pytest.mark.parametrize("version", UNTIL_5)
def test_notifications_are_not_checked_until_version_5(version: str) -> None:
    """MSC2209 came with version 6."""
    room = levels_room(version, notifications={"room": 100})
    assert isinstance(change(room, notifications={"room": 0, "other": 100}), Allowed)
    assert isinstance(first(version, {"notifications": ["rubbish"]}), Allowed)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_the_first_power_levels(version: str) -> None:
    """10.5 They are not compared with anything."""
    assert isinstance(first(version, {}), Allowed)
    assert isinstance(first(version, {"users": {BOB: 10_000}, "ban": 10_000}), Allowed)
    assert isinstance(first(version, {"users": {"@bob:not a server": 1}}), Allowed)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_power_levels_under_another_state_key(version: str) -> None:
    """As in Synapse, only their format is checked: they are never in force."""
    room = levels_room(version)
    assert isinstance(change(room, state_key="other", kick=60), Allowed)
    assert isinstance(change(room, state_key="other", users={"bob": 1}), Refused)


@pytest.mark.parametrize("version", UNTIL_9)
def test_levels_as_strings(version: str) -> None:
    """Until version 9 a string with an integer is a level, and two notations of the same number are no
    change."""
    room = levels_room(version, ban="60", kick=" +040 ")
    assert isinstance(change(room, ban=60, kick="40"), Allowed)
    assert isinstance(change(room, ban="50"), Refused)
    assert isinstance(change(room, redact="60"), Refused)
    room.power_levels(ALICE, {**levels_of(room), "users": {ALICE: "100", BOB: "100"}})
    assert isinstance(change(room, ban="90"), Allowed)


@pytest.mark.parametrize("version", UNTIL_9)
def test_null_until_version_9(version: str) -> None:
    """It counts as absent. Changing levels that contain it is refused, because other servers fail on it."""
    assert isinstance(first(version, {"ban": None, "events": {"m.room.topic": None}}), Allowed)
    room = levels_room(version)
    assert isinstance(change(room, events={"m.room.power_levels": 50, "m.room.topic": None}), Refused)
    content = {**levels_of(room), "ban": None}
    assert isinstance(room.verdict(room.propose("m.room.power_levels", ALICE, content, "")), Refused)


@pytest.mark.parametrize("version", ["12"])
def test_creators_have_infinite_power(version: str) -> None:
    """Any creator, including additional ones, may set any level and lower any user."""
    room = public_room(version, BOB, CAROL, levels={"ban": 2**53 - 1}, additional_creators=[CAROL])
    for creator in (ALICE, CAROL):
        assert isinstance(change(room, creator, ban=0, users={BOB: 2**53 - 1}), Allowed)
        assert isinstance(change(room, creator, users={}), Allowed)
