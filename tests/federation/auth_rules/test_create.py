"""Rule 1: the create event."""

from typing import Any

import pytest

from federation.auth_rules import Allowed, Verdict, check
from federation.auth_rules.check import check_create
from federation.events import make_pdu
from federation.events.hashes import event_id
from federation.matrix import canonical_json
from federation.matrix.room_version import ROOM_VERSIONS
from tests.federation.auth_rules.refusals import RefusalCase, assert_refused, cases_of, refused_by
from tests.support.rooms import ALICE, BOB, Room


def verdict(version: str, content: dict[str, Any] | None = None, **changes: Any) -> Verdict:
    """The verdict on a create event that is valid except for this."""
    of = ROOM_VERSIONS[version]
    event: dict[str, Any] = {
        "type": "m.room.create",
        "state_key": "",
        "sender": ALICE,
        "content": {"room_version": version, **({"creator": ALICE} if of.creator_in_content else {})},
        "origin_server_ts": 1,
        "depth": 1,
        "prev_events": [],
        "auth_events": [],
        "hashes": {"sha256": ""},
        "signatures": {},
    }
    if not of.create_event_is_room_id:
        event["room_id"] = "!r:a.example"
    event |= changes
    if content is not None:
        event["content"] = content
    return check_create(make_pdu(event, canonical_json.encode(event), event_id(event, of), of), of)


@refused_by("create.prev_events")
def it_has_prev_events(version: str) -> Verdict:
    return verdict(version, prev_events=["$x"])


@refused_by("create.room_id_domain")
def the_room_is_of_another_server(version: str) -> Verdict:
    return verdict(version, room_id="!r:b.example")


@refused_by("create.room_id_domain")
def the_room_is_of_no_server(version: str) -> Verdict:
    return verdict(version, room_id="!r")


@refused_by("create.room_id")
def it_has_a_room_id(version: str) -> Verdict:
    return verdict(version, room_id="!r:a.example")


@refused_by("create.room_version")
def an_unknown_version(version: str) -> Verdict:
    return verdict(version, {"creator": ALICE, "room_version": "99"})


@refused_by("create.room_version")
def a_version_that_is_a_number(version: str) -> Verdict:
    return verdict(version, {"creator": ALICE, "room_version": 10})


@refused_by("create.creator")
def no_creator(version: str) -> Verdict:
    return verdict(version, {"room_version": version})


@refused_by("create.additional_creators")
def additional_creators_that_are_not_an_array(version: str) -> Verdict:
    return verdict(version, {"additional_creators": BOB})


@refused_by("create.additional_creators")
def additional_creators_that_are_not_strings(version: str) -> Verdict:
    return verdict(version, {"additional_creators": [BOB, 3]})


@refused_by("create.additional_creators")
def additional_creators_that_are_not_user_ids(version: str) -> Verdict:
    return verdict(version, {"additional_creators": [BOB, "@x:not a server"]})


@refused_by("create.additional_creators")
def additional_creators_that_are_too_long(version: str) -> Verdict:
    return verdict(version, {"additional_creators": ["@" + "é" * 125 + ":a.example"]})


@pytest.mark.parametrize(("version", "refusal"), cases_of(__name__))
def test_refusals(version: str, refusal: RefusalCase) -> None:
    """Each is refused by the given rule, with its number in the version."""
    assert_refused(version, refusal)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_otherwise_allow(version: str) -> None:
    """1.5 Otherwise, allow. No state is needed; `room_version` may be absent."""
    assert isinstance(verdict(version), Allowed)
    assert isinstance(verdict(version, {"creator": ALICE}), Allowed)
    assert isinstance(verdict(version, {"creator": ALICE, "additional_creators": []}), Allowed)
    assert isinstance(verdict(version, {"creator": ALICE, "additional_creators": [BOB]}), Allowed)
    room = Room(version)
    assert isinstance(check(room.create, {}, room.version), Allowed)
