"""All rules in order."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.auth_rules import Allowed, Refused, Verdict, check, check_against_auth_events, check_independent
from federation.events import CREATE, make_pdu
from federation.events.hashes import event_id
from federation.matrix import canonical_json
from federation.matrix.room_version import ROOM_VERSIONS
from tests.federation.auth_rules.refusals import RefusalCase, assert_refused, cases_of, refused_by
from tests.support.rooms import ALICE, BOB, CAROL, Room, public_room


@refused_by("sender_joined")
def a_message_without_being_joined(version: str) -> Verdict:
    room = public_room(version)
    return room.verdict(room.propose("m.room.message", BOB, {}))


@refused_by("sender_joined")
def a_message_of_an_invited_user(version: str) -> Verdict:
    room = public_room(version)
    room.member(ALICE, BOB, "invite")
    return room.verdict(room.propose("m.room.message", BOB, {}))


@refused_by("sender_joined")
def a_creator_who_has_left(version: str) -> Verdict:
    room = public_room(version)
    room.member(ALICE, ALICE, "leave")
    return room.verdict(room.propose("m.room.topic", ALICE, {}, ""))


@refused_by("required_power")
def a_state_event_without_power(version: str) -> Verdict:
    room = public_room(version, CAROL)
    return room.verdict(room.propose("m.room.topic", CAROL, {}, ""))


@refused_by("required_power")
def a_message_without_power(version: str) -> Verdict:
    room = public_room(version, CAROL, levels={"events_default": 1})
    return room.verdict(room.propose("m.room.message", CAROL, {}))


@refused_by("required_power")
def state_takes_50_even_without_power_levels(version: str) -> Verdict:
    room = Room(version)
    room.join(ALICE)
    room.join_rule(ALICE, "public")
    room.join(BOB)
    return room.verdict(room.propose("m.room.topic", BOB, {}, ""))


@refused_by("state_key_of_another")
def the_state_key_of_another_user(version: str) -> Verdict:
    room = public_room(version, BOB)
    return room.verdict(room.propose("org.example.mood", ALICE, {}, BOB))


@refused_by("state_key_of_another")
def anything_that_starts_with_an_at_sign(version: str) -> Verdict:
    room = public_room(version)
    return room.verdict(room.propose("org.example.mood", ALICE, {}, "@"))


@refused_by("auth_events.create", ["3", "6", "11"])
def a_state_without_a_create_event(version: str) -> Verdict:
    room = public_room(version)
    return check(room.propose("m.room.message", ALICE, {}), {}, room.version)


@refused_by("room_id")
def a_state_without_a_create_event_in_version_12(version: str) -> Verdict:
    room = public_room(version)
    return check(room.propose("m.room.message", ALICE, {}), {}, room.version)


@pytest.mark.parametrize(("version", "refusal"), cases_of(__name__))
def test_refusals(version: str, refusal: RefusalCase) -> None:
    """Each is refused by the given rule, with its number in the version."""
    assert_refused(version, refusal)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_otherwise_allow(version: str) -> None:
    """11. Otherwise, allow: messages, redactions, state events with one's own user id."""
    room = public_room(version, CAROL, levels={"state_default": 0})
    message = room.say(CAROL)
    room.send("m.room.redaction", CAROL, {}, redacts=message.event_id)
    room.send("org.example.mood", CAROL, {}, CAROL)
    room.send("org.example.mood", CAROL, {}, "key")


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_against_its_own_auth_events(version: str) -> None:
    """Step 4 of the checks on receipt of a PDU: all rules, with the state of the event's auth events."""
    room = public_room(version, BOB)
    good, bad = room.propose("m.room.topic", BOB, {}, ""), room.propose("m.room.topic", CAROL, {}, "")
    for pdu, allowed in ((good, True), (bad, False), (room.create, True)):
        verdict = check_against_auth_events(pdu, room.events, room.version, create=room.create)
        assert isinstance(verdict, Allowed if allowed else Refused)
    # `check_independent` can refuse as well.
    room.rejected.add(good.auth_events[0])
    verdict = check_against_auth_events(good, room.events, room.version, rejected=room.rejected, create=room.create)
    assert isinstance(verdict, Refused)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_the_current_state_may_refuse_the_event(version: str) -> None:
    """An event that was allowed when it was sent is refused by a state in which its sender is banned."""
    room = public_room(version, BOB)
    message = room.propose("m.room.message", BOB, {})
    assert isinstance(room.verdict(message), Allowed)
    room.member(ALICE, BOB, "ban")
    assert isinstance(room.verdict(message), Allowed)
    assert isinstance(room.verdict(message, room.state()), Refused)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 101) | st.sampled_from(["join", "invite", "", ALICE, BOB, "public"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["signed", "mxid", "token", "signatures", ALICE, BOB, "x"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
contents = st.dictionaries(
    st.sampled_from(
        [
            "membership",
            "join_rule",
            "users",
            "events",
            "ban",
            "notifications",
            "third_party_invite",
            "creator",
            "public_keys",
            "join_authorised_via_users_server",
            "additional_creators",
            "m.federate",
            "room_version",
        ]
    ),
    json_values,
    max_size=4,
)
types = st.sampled_from(
    [
        "m.room.member",
        "m.room.power_levels",
        "m.room.join_rules",
        "m.room.create",
        "m.room.third_party_invite",
        "m.room.aliases",
        "m.room.message",
    ]
)


@given(
    st.sampled_from(["3", "6", "9", "10", "12"]),
    types,
    st.sampled_from([ALICE, BOB, "@:"]),
    st.sampled_from([None, "", ALICE, BOB, "x"]),
    contents,
    st.lists(st.tuples(types, st.sampled_from(["", ALICE, BOB]), contents), max_size=4),
)
def test_malicious_events_and_states_get_a_verdict(
    version: str,
    type_: str,
    sender: str,
    state_key: str | None,
    content: dict[str, Any],
    state: list[tuple[str, str, dict[str, Any]]],
) -> None:
    """Whatever the event and the state contain."""
    room = public_room(version)

    def event(type_: str, state_key: str | None, content: dict[str, Any]) -> Any:
        made = {"type": type_, "sender": sender, "content": content, "room_id": room.room_id, "depth": 5}
        made |= {"origin_server_ts": 5, "prev_events": ["$x"], "auth_events": []}
        if state_key is not None:
            made["state_key"] = state_key
        return make_pdu(made, canonical_json.encode(made), event_id(made, room.version), room.version)

    pdu = event(type_, state_key, content)
    against = {**room.state(), **{(kind, key): event(kind, key, having) for kind, key, having in state}}
    assert isinstance(check(pdu, against, room.version), Allowed | Refused)
    assert isinstance(check(pdu, {**against, CREATE: room.create}, room.version), Allowed | Refused)
    assert isinstance(check_independent(pdu, {}, room.version, create=room.create), Allowed | Refused)
