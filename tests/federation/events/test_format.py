"""The format of events by room version: step 1 of the checks on receipt of a PDU."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.events import Malformed, Oversized, Pdu, parse, room_id_of
from federation.events.format import MAX_NESTING, MAX_PDU_BYTES
from federation.matrix import canonical_json
from federation.matrix.room_version import ROOM_VERSIONS, RoomVersion

HASH = "CD66HAED5npg6074c6pDtLKalHjVfYb2q4Q3LZgrW6o"
ALL = list(ROOM_VERSIONS)
UNTIL_5 = ["3", "4", "5"]
FROM_6 = [version for version in ALL if version not in UNTIL_5]


def event(**changes: Any) -> dict[str, Any]:
    """A well-formed event. A value of None removes a property."""
    made = {
        "type": "m.room.message",
        "room_id": "!r:a.example",
        "sender": "@alice:a.example",
        "content": {"body": "hello"},
        "depth": 3,
        "prev_events": ["$p"],
        "auth_events": ["$a", "$b"],
        "origin_server_ts": 5,
        "hashes": {"sha256": "abcd"},
        "signatures": {"a.example": {"ed25519:1": "x"}},
    }
    return {name: value for name, value in {**made, **changes}.items() if value is not None}


@pytest.mark.parametrize("version", ALL)
def test_a_well_formed_event(version: str) -> None:
    """It becomes a PDU with its event id and its canonical JSON."""
    pdu = parse(event(state_key="", unsigned={"age": 1, "x": 2}), ROOM_VERSIONS[version])
    assert isinstance(pdu, Pdu)
    assert (pdu.type, pdu.state_key, pdu.key) == ("m.room.message", "", ("m.room.message", ""))
    assert (pdu.sender, pdu.room_id, pdu.depth) == ("@alice:a.example", "!r:a.example", 3)
    assert (pdu.prev_events, pdu.auth_events) == (("$p",), ("$a", "$b"))
    assert pdu.unsigned == {"age": 1}
    assert pdu.canonical == canonical_json.encode(event(state_key="", unsigned={"age": 1}))


@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize("name", [name for name in event() if name != "state_key"])
def test_required_properties(version: str, name: str) -> None:
    """All but `state_key`, `unsigned` and `redacts`."""
    assert isinstance(parse(event(**{name: None}), ROOM_VERSIONS[version]), Malformed)


@pytest.mark.parametrize("version", ["3", "6", "10", "12"])
@pytest.mark.parametrize(
    "changes",
    [
        {"type": 3},
        {"type": "nul\0"},
        {"sender": 3},
        {"sender": "alice"},
        {"sender": "@alice"},
        {"sender": "@alice:"},
        {"sender": "@alice:not a server"},
        {"sender": "@nul\0:a.example"},
        {"room_id": 3},
        {"room_id": "r"},
        {"room_id": "!r"},
        {"room_id": "#r:a.example"},
        {"content": []},
        {"content": "x"},
        {"state_key": 3},
        {"state_key": ["x"]},
        {"state_key": "nul\0"},
        {"depth": "3"},
        {"depth": -1},
        {"depth": 3.0},
        {"depth": True},
        {"depth": 2**63},
        {"origin_server_ts": "5"},
        {"origin_server_ts": False},
        {"origin_server_ts": 5.0},
        {"prev_events": "$p"},
        {"prev_events": {"$p": 1}},
        {"prev_events": [3]},
        {"prev_events": [["$p", {"sha256": "x"}]]},
        {"prev_events": ["p"]},
        {"auth_events": [""]},
        {"auth_events": ["$" + "x" * 255]},
        {"hashes": {}},
        {"hashes": {"md5": "x"}},
        {"hashes": {"sha256": 3}},
        {"hashes": {"sha256": "not base64!"}},
        {"hashes": {"sha256": "abcd", "md5": 3}},
        {"hashes": []},
        {"signatures": []},
        {"signatures": {"a.example": "x"}},
        {"signatures": {"a.example": {"ed25519:1": 3}}},
        {"event_id": "$e"},
        {"content": {"body": "\ud800"}},
        {"content": {"a": float("nan")}},
        {"auth_events": [f"${number}" for number in range(11)]},
        {"prev_events": [f"${number}" for number in range(21)]},
        {"type": "x" * 256},
        {"sender": "@" + "x" * 250 + ":a.example"},
        {"state_key": "x" * 256},
        {"content": {"body": "x" * MAX_PDU_BYTES}},
    ],
)
def test_malformed_events(version: str, changes: dict[str, Any]) -> None:
    """A property of the wrong type, an invalid identifier, an exceeded limit."""
    assert isinstance(parse(event(**changes), ROOM_VERSIONS[version]), Malformed)


def test_a_null_state_key_is_not_an_absent_one() -> None:
    """`null` is not a string."""
    assert isinstance(parse({**event(), "state_key": None}, ROOM_VERSIONS["12"]), Malformed)


@pytest.mark.parametrize("number", [1.0, 1e2, 2**53, -(2**53), 2**64, -0.0])
def test_numbers(number: float) -> None:
    """From room version 6 on events with such numbers are dropped; before, servers accepted them."""
    for version in FROM_6:
        assert isinstance(parse(event(content={"n": number}), ROOM_VERSIONS[version]), Malformed)
    for version in UNTIL_5:
        assert isinstance(parse(event(content={"n": number}), ROOM_VERSIONS[version]), Pdu)


def test_the_range_of_depth() -> None:
    """[0, 2**53 − 1] in every version, as in Synapse."""
    for version in ALL:
        assert isinstance(parse(event(depth=0), ROOM_VERSIONS[version]), Pdu)
        assert isinstance(parse(event(depth=2**53 - 1), ROOM_VERSIONS[version]), Pdu)
        assert isinstance(parse(event(depth=2**53), ROOM_VERSIONS[version]), Malformed)


def test_the_largest_event() -> None:
    """65,536 bytes of canonical JSON, including signatures and the stripped `unsigned`; not one more."""
    version = ROOM_VERSIONS["12"]
    free = MAX_PDU_BYTES - len(canonical_json.encode(event(content={"body": ""})))
    largest = parse(event(content={"body": "x" * free}), version)
    assert isinstance(largest, Pdu)
    assert len(largest.canonical) == MAX_PDU_BYTES
    assert isinstance(parse(event(content={"body": "x" * (free + 1)}), version), Malformed)
    ignored = {"anything": "x" * MAX_PDU_BYTES}
    assert isinstance(parse(event(content={"body": "x" * free}, unsigned=ignored), version), Pdu)


def test_255_bytes_or_255_code_points() -> None:
    """From room version 11 on more than 255 bytes are fatal. Before, such an event is rejected; more than 255
    code points always were fatal."""
    for name, text in (("type", "é" * 128), ("state_key", "é" * 200), ("sender", "@" + "é" * 200 + ":a.example")):
        for version in ALL:
            parsed = parse(event(**{name: text}), ROOM_VERSIONS[version])
            assert type(parsed) is (Malformed if version in ("11", "12") else Oversized)
            if isinstance(parsed, Oversized):
                assert name in parsed.problem
                assert getattr(parsed.pdu, name) == text
            assert isinstance(parse(event(**{name: text + "é" * 130}), ROOM_VERSIONS[version]), Malformed)


def nested(levels: int) -> Any:
    return json.loads("[" * levels + "]" * levels)


@pytest.mark.parametrize("version", ALL)
def test_nesting(version: str) -> None:
    """As deep as in Synapse: 127 levels, including the event and its content."""
    assert isinstance(parse(event(content={"x": nested(MAX_NESTING - 2)}), ROOM_VERSIONS[version]), Pdu)
    for levels in (MAX_NESTING - 1, 900):
        assert isinstance(parse(event(content={"x": nested(levels)}), ROOM_VERSIONS[version]), Malformed)


def test_counts_are_not_enforced_on_history() -> None:
    """Events from backfill were accepted by servers with other limits."""
    many = event(auth_events=[f"${number}" for number in range(30)], prev_events=[f"${number}" for number in range(50)])
    assert isinstance(parse(many, ROOM_VERSIONS["12"]), Malformed)
    assert isinstance(parse(many, ROOM_VERSIONS["12"], enforce_counts=False), Pdu)


def create(**changes: Any) -> dict[str, Any]:
    return event(**{"type": "m.room.create", "state_key": "", "prev_events": [], "auth_events": [], **changes})


def test_the_create_event_of_version_12() -> None:
    """It has no room id: the room id is its event id with another sigil. Before, it has a room id like other
    events."""
    v12 = ROOM_VERSIONS["12"]
    pdu = parse(create(room_id=None), v12)
    assert isinstance(pdu, Pdu)
    assert pdu.room_id == "!" + pdu.event_id[1:]
    assert isinstance(parse(create(), v12), Malformed)
    # With a non-empty state key it is not the create event of the room, and needs a room id.
    assert isinstance(parse(create(state_key="x"), v12), Pdu)
    assert isinstance(parse(create(state_key="x", room_id=None), v12), Malformed)
    for version in ALL[:-1]:
        assert isinstance(parse(create(), ROOM_VERSIONS[version]), Pdu)
        assert isinstance(parse(create(room_id=None), ROOM_VERSIONS[version]), Malformed)


def test_auth_events_do_not_contain_the_create_event_of_version_12() -> None:
    """The room id identifies it."""
    for version in ("11", "12"):
        parsed = parse(event(room_id="!" + HASH, auth_events=["$" + HASH]), ROOM_VERSIONS[version])
        assert isinstance(parsed, Malformed) is (version == "12")
    assert isinstance(parse(event(room_id="!" + HASH), ROOM_VERSIONS["12"]), Pdu)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.sampled_from(list(ROOM_VERSIONS.values())),
    st.dictionaries(st.sampled_from([*event(), "state_key", "unsigned", "event_id"]), json_values, max_size=3),
)
def test_malicious_events_are_dropped_without_raising(version: RoomVersion, changes: dict[str, Any]) -> None:
    """Whatever a property contains."""
    assert isinstance(parse({**event(), **changes}, version), Pdu | Malformed | Oversized)


@pytest.mark.parametrize("rubbish", [None, 3, "x", [], [event()], b"{}", {}])
def test_other_values_are_not_events(rubbish: object) -> None:
    assert isinstance(parse(rubbish, ROOM_VERSIONS["12"]), Malformed)


@pytest.mark.parametrize(
    ("sent", "room_id"),
    [
        (event(), "!r:a.example"),
        (event(room_id="!" + HASH), "!" + HASH),
        (event(room_id=None), None),
        (event(room_id="r"), None),
        (event(room_id=3), None),
        ("x", None),
        (None, None),
    ],
)
def test_the_room_id_of_an_unparsed_event(sent: object, room_id: str | None) -> None:
    """The create event of a version 12 room has none, and is ignored in a transaction."""
    assert room_id_of(sent) == room_id
