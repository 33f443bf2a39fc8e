"""The power levels in a state."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.auth_rules.levels import PowerLevels, creators, read_level
from federation.events import Pdu, Template, build
from federation.matrix.room_version import ROOM_VERSIONS
from tests.support.rooms import ALICE, BOB, CAROL, Room, signer

UNTIL_9 = [version for version in ROOM_VERSIONS if not ROOM_VERSIONS[version].integer_power_levels]
FROM_10 = [version for version in ROOM_VERSIONS if ROOM_VERSIONS[version].integer_power_levels]


def levels(version: str, content: dict[str, Any] | None, **create: Any) -> PowerLevels:
    room = Room(version, **create)
    if content is None:
        return PowerLevels(room.create, None, room.version)
    made = Template("m.room.power_levels", ALICE, content, 1, room_id="!r:a.example", state_key="")
    power_levels = build(made, room.version, signer("a.example"))
    assert isinstance(power_levels, Pdu)
    return PowerLevels(room.create, power_levels, room.version)


@pytest.mark.parametrize(
    ("value", "old", "new"),
    [
        (50, 50, 50),
        (-50, -50, -50),
        ("50", 50, None),
        ("000100", 100, None),
        ("+100", 100, None),
        (" -100 \n", -100, None),
        ("1_0", 10, None),
        ("５", 5, None),
        (5.9, 5, None),
        (-5.9, -5, None),
        (True, 1, None),
        ("", None, None),
        ("abc", None, None),
        ("5.0", None, None),
        ("0x10", None, None),
        ("9" * 5000, None, None),
        (math.nan, None, None),
        (math.inf, None, None),
        (None, None, None),
        ([], None, None),
        ({}, None, None),
    ],
)
def test_valid_levels(value: object, old: int | None, new: int | None) -> None:
    """From version 10 on an integer, which `True` is not. Before, whatever Python's `int` accepts, as on
    other servers."""
    for version in UNTIL_9:
        assert read_level(value, ROOM_VERSIONS[version]) == old
    for version in FROM_10:
        assert read_level(value, ROOM_VERSIONS[version]) == new


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_the_level_of_a_user(version: str) -> None:
    """The entry, else `users_default`, else 0."""
    of = levels(version, {"users": {BOB: 50}, "users_default": 7})
    assert (of.of_user(BOB), of.of_user(CAROL)) == (50, 7)
    assert levels(version, {"users": {BOB: -1}}).of_user(CAROL) == 0
    assert levels(version, {"users": {BOB: -1}}).of_user(BOB) == -1


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_without_power_levels(version: str) -> None:
    """The creator has 100, from version 12 on infinity; all other users have 0."""
    of = levels(version, None)
    assert of.of_user(ALICE) == (math.inf if version == "12" else 100)
    assert of.of_user(BOB) == 0
    # Until version 11 the power levels also apply to the creator.
    assert levels(version, {}).of_user(ALICE) == (math.inf if version == "12" else 0)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_creators(version: str) -> None:
    """Until version 10 `content.creator`, in 11 the sender, from 12 on the sender and
    `additional_creators`."""
    room = Room(
        version,
        additional_creators=[BOB, 3],
        **({"creator": CAROL} if ROOM_VERSIONS[version].creator_in_content else {}),
    )
    expected = {ALICE, BOB} if version == "12" else {ALICE} if version == "11" else {CAROL}
    assert creators(room.create, room.version) == expected
    odd = Room(version, additional_creators="rubbish")
    assert creators(odd.create, odd.version) == {ALICE}


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_the_levels_of_actions(version: str) -> None:
    """The defaults of ban, kick and redact are 50, that of invite is 0."""
    content: dict[str, Any] | None
    for content in (None, {}):
        of = levels(version, content)
        assert [of.of_action(action) for action in ("ban", "kick", "redact", "invite")] == [50, 50, 50, 0]
    of = levels(version, {"ban": 1, "kick": 2, "redact": 3, "invite": 4})
    assert [of.of_action(action) for action in ("ban", "kick", "redact", "invite")] == [1, 2, 3, 4]


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_the_required_level(version: str) -> None:
    """Listed in `events`, else `state_default` or `events_default`; 50 and 0, with or without power
    levels."""
    content: dict[str, Any] | None
    for content in (None, {}, {"events": {}}):
        of = levels(version, content)
        assert (of.required_for("x", is_state=True), of.required_for("x", is_state=False)) == (50, 0)
    of = levels(version, {"events": {"x": 5}, "state_default": 7, "events_default": 9})
    assert (of.required_for("x", is_state=True), of.required_for("x", is_state=False)) == (5, 5)
    assert (of.required_for("y", is_state=True), of.required_for("y", is_state=False)) == (7, 9)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from([BOB, "x", "y"]), inner, max_size=2),
    max_leaves=5,
)


@given(
    st.sampled_from(["3", "9", "10", "12"]),
    st.dictionaries(
        st.sampled_from(["users", "events", "users_default", "events_default", "state_default", "ban"]), json_values
    ),
)
def test_invalid_levels_in_force_count_as_absent(version: str, content: dict[str, Any]) -> None:
    """The rules here refuse them, but a state from other servers may contain them."""
    of = levels(version, content)
    assert isinstance(of.of_user(BOB), int)
    assert isinstance(of.of_action("ban"), int)
    assert isinstance(of.required_for("x", is_state=True), int)
    assert isinstance(of.required_for("x", is_state=False), int)
