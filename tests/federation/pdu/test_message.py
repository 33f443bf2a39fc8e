"""Messages that are put together of pieces are those that are built."""

from typing import Any

import pytest

from federation.pdu import CannotBuild, Pdu, Template, build
from federation.pdu.limits import MAX_DEPTH, MAX_NESTING, MAX_OWN_CONTENT_BYTES
from federation.pdu.message import Frame, frame_of, message
from federation.room_version import ROOM_VERSIONS, RoomVersion
from tests.support.rooms import signer

A = "a.example"
STRICT = [version for version in ROOM_VERSIONS.values() if version.strict_canonical_json]


def template(**changes: Any) -> Template:
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
    return Template(**{**made, **changes})


def built(version: RoomVersion, **changes: Any) -> Pdu:
    pdu = build(template(**changes), version, signer(A))
    assert isinstance(pdu, Pdu)
    return pdu


def framed(version: RoomVersion, **changes: Any) -> Frame:
    frame = frame_of(built(version, **changes), version)
    assert frame is not None
    return frame


def as_tuple(pdu: Pdu) -> tuple[object, ...]:
    return tuple(getattr(pdu, name) for name in Pdu.__slots__)


@pytest.mark.parametrize("version", STRICT, ids=lambda version: version.id)
@pytest.mark.parametrize(
    "content",
    [
        {},
        {"body": "two", "a": [1, {"b": None}], "ä": '\u2028 \\ " é \x1f 𝄞', "Z": True, "n": -(2**53) + 1},
        {"hashes": {"sha256": "x"}, "signatures": {}, "unsigned": {"age": 1}, "redacts": "$x"},
        {"body": "x" * (MAX_OWN_CONTENT_BYTES - 20)},
    ],
    ids=["nothing", "all kinds", "names of the event's own", "long"],
)
def test_it_is_the_same_event(version: RoomVersion, content: dict[str, Any]) -> None:
    """Byte for byte: its hash, its signature, its id."""
    frame = framed(version)
    changes = {"content": content, "origin_server_ts": 2**53 - 1, "prev_events": ["$q/+", "$r"]}
    long_way = built(version, **changes, prev_depths=[7, 9])
    short_way = message(frame, content, ["$q/+", "$r"], 10, 2**53 - 1, signer(A))
    assert short_way is not None
    assert as_tuple(short_way) == as_tuple(long_way)


def test_names_are_written_as_elsewhere() -> None:
    """With what JSON has to escape."""
    names = {"type": 'a "quoted" \\ type', "sender": f"@é:{A}", "room_id": '!"\\:' + A, "auth_events": []}
    version = ROOM_VERSIONS["11"]
    short_way = message(framed(version, **names), {"body": "y"}, ["$p"], 4, 1000, signer(A))
    assert short_way is not None
    assert as_tuple(short_way) == as_tuple(built(version, **names, content={"body": "y"}))


def nested(depth: int) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for _ in range(depth - 1):
        content = {"a": content}
    return content


def test_what_cannot_be_built_is_left_to_who_says_why() -> None:
    """As well as what could be, and would be too large with its signature."""
    version = ROOM_VERSIONS["11"]
    frame = framed(version)
    wrong: list[dict[str, Any]] = [
        {"content": {"n": 1.5}},
        {"content": {"n": 2**53}},
        {"content": {"body": "\ud800"}},
        {"content": {"body": object()}},
        {"content": {1: "a"}},
        {"content": {"body": "x" * MAX_OWN_CONTENT_BYTES}},
        {"content": nested(MAX_NESTING)},
        {"origin_server_ts": 2**53},
        {"prev_events": [f"${number}" for number in range(11)]},
        {"prev_events": ["$" + "x" * 600 for _ in range(10)], "content": {"body": "x" * 59_500}},
    ]
    for changes in wrong:
        assert isinstance(build(template(**changes), version, signer(A)), CannotBuild)
        given = template(**changes)
        made = message(frame, given.content, given.prev_events, 4, given.origin_server_ts, signer(A))
        assert made is None
    deepest = message(frame, nested(MAX_NESTING - 1), ["$p"], MAX_DEPTH, 0, signer(A))
    assert deepest is not None
    assert as_tuple(deepest) == as_tuple(
        built(version, content=nested(MAX_NESTING - 1), prev_depths=[MAX_DEPTH], origin_server_ts=0)
    )


@pytest.mark.parametrize(
    ("version", "changes"),
    [
        ("11", {"state_key": ""}),
        ("11", {"type": "m.room.member"}),
        ("11", {"type": "m.room.redaction", "redacts": "$x"}),
        ("10", {"type": "io.palaver.x", "redacts": "$x"}),
        ("5", {}),
    ],
)
def test_of_other_events_more_has_to_be_asked(version: str, changes: dict[str, Any]) -> None:
    """Of state, of what redaction leaves something of, and in versions that write numbers in other ways."""
    assert frame_of(built(ROOM_VERSIONS[version], **changes), ROOM_VERSIONS[version]) is None


def test_what_the_caller_keeps_is_his() -> None:
    """Content that is changed afterwards changes no event."""
    content = {"body": "x"}
    made = message(framed(ROOM_VERSIONS["11"]), content, ["$p"], 4, 1000, signer(A))
    content["body"] = "y"
    assert made is not None
    assert made.content == {"body": "x"}
