"""Messages that are read by pieces are those that are read."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.pdu import Pdu, Template, build, read
from federation.pdu.hashes import content_hash_holds
from federation.pdu.heard_message import heard_message
from federation.pdu.limits import MAX_DEPTH, MAX_NESTING, MAX_PDU_BYTES
from federation.pdu.message import Frame, frame_of
from federation.room_version import ROOM_VERSIONS, RoomVersion
from tests.support.rooms import signer

A = "a.example"
VERSION = ROOM_VERSIONS["11"]
STRICT = [version for version in ROOM_VERSIONS.values() if version.strict_canonical_json]


def said(version: RoomVersion = VERSION, **changes: Any) -> Pdu:
    made: dict[str, Any] = {
        "type": "io.cis.agent.message",
        "sender": f"@alice:{A}",
        "content": {"body": "x"},
        "origin_server_ts": 1000,
        "room_id": f"!r:{A}",
        "prev_events": ["$p"],
        "prev_depths": [3],
        "auth_events": ["$a", "$b"],
    }
    pdu = build(Template(**{**made, **changes}), version, signer(A))
    assert isinstance(pdu, Pdu)
    return pdu


def framed(version: RoomVersion = VERSION) -> Frame:
    frame = frame_of(said(version), version)
    assert frame is not None
    return frame


def as_tuple(pdu: object) -> tuple[object, ...]:
    return tuple(getattr(pdu, name) for name in Pdu.__slots__)


def assert_is_read_so(event: dict[str, Any], version: RoomVersion) -> None:
    """By pieces and whole."""
    heard = heard_message(framed(version), event)
    assert heard is not None
    parsed, signed = read(event, version)
    assert as_tuple(heard[0]) == as_tuple(parsed)
    assert heard[1] == signed
    assert content_hash_holds(event, version)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("version", STRICT, ids=lambda version: version.id)
@pytest.mark.parametrize(
    "changes",
    [
        {"content": {}},
        {"content": {"a": [1, {"b": None}], "ä": '\u2028 \\ " é \x1f 𝄞', "Z": True, "n": -(2**53) + 1}},
        {"content": {"hashes": {"sha256": "x"}, "signatures": {}, "unsigned": {"age": 1}, "redacts": "$x"}},
        {"content": {"deep": nested(MAX_NESTING - 2)}},
        {"prev_depths": [MAX_DEPTH], "origin_server_ts": 2**53 - 1, "prev_events": ['$ä" \\']},
    ],
    ids=["nothing", "all kinds", "names of the event's own", "deep", "borders"],
)
def test_it_is_the_same_event(version: RoomVersion, changes: dict[str, Any]) -> None:
    """Byte for byte: its id, what was signed, and what is kept."""
    assert_is_read_so(dict(said(version, **changes).event), version)


@pytest.mark.parametrize(
    "changes",
    [
        {"unsigned": {"age": 1}},
        {"state_key": ""},
        {"redacts": "$x"},
        {"event_id": "$x"},
        {"sender": "@bob:a.example"},
        {"type": "m.other"},
        {"room_id": "!other:a.example"},
        {"auth_events": ["$a"]},
        {"auth_events": ["$b", "$a"]},
        {"content": {"body": "y"}},
        {"content": []},
        {"content": {"n": 1.0}},
        {"content": {"n": 2**53}},
        {"content": {"deep": nested(MAX_NESTING - 1)}},
        {"depth": True},
        {"depth": -1},
        {"depth": MAX_DEPTH + 1},
        {"depth": 4.0},
        {"origin_server_ts": 1000.0},
        {"origin_server_ts": -1},
        {"origin_server_ts": 2**53},
        {"prev_events": []},
        {"prev_events": ["$p", "$q"]},
        {"prev_events": ["p"]},
        {"prev_events": [["$p"]]},
        {"prev_events": "$p"},
        {"prev_events": ["$\0"]},
        {"hashes": {"sha256": "AAAA"}},
        {"hashes": {}},
        {"hashes": "x"},
        {"signatures": {}},
        {"signatures": []},
        {"signatures": {A: {}}},
        {"signatures": {A: []}},
        {"signatures": {A: {"ed25519:test": 1}}},
        {"signatures": {A: {"ed25519:test": "x"}, "b.example": {}}},
        {"signatures": {"b.example": {"ed25519:test": "x"}}},
        {"signatures": {A: {"ed25519:test": "x" * MAX_PDU_BYTES}}},
    ],
    ids=str,
)
def test_whatever_is_not_that_plain_is_left_to_who_reads_everything(changes: dict[str, Any]) -> None:
    """Good or bad, known to be something else or not."""
    assert heard_message(framed(), {**said().event, **changes}) is None
    for name in changes:
        missing = {**said().event}
        missing.pop(name, None)
        assert name not in said().event or heard_message(framed(), missing) is None


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(st.sampled_from([*said().event, "unsigned", "x"]), ANYTHING)
def test_it_never_reads_more_than_is_there(name: str, value: Any) -> None:
    """With anything in any place it is not read by pieces, or as it is read whole."""
    event = {**said().event, name: value}
    if heard_message(framed(), event) is not None:
        assert_is_read_so(event, VERSION)


@given(st.dictionaries(st.text(max_size=5), ANYTHING, max_size=3), st.integers(0, 2**53 - 1))
def test_any_content_is_read_alike(content: dict[str, Any], ts: int) -> None:
    """If it can be said at all."""
    pdu = build(
        Template(
            "io.cis.agent.message",
            f"@alice:{A}",
            content,
            ts,
            f"!r:{A}",
            prev_events=["$p"],
            prev_depths=[3],
            auth_events=["$a", "$b"],
        ),
        VERSION,
        signer(A),
    )
    if isinstance(pdu, Pdu):
        assert_is_read_so(dict(pdu.event), VERSION)
