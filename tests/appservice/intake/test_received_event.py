"""A pushed event, parsed and stored."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appservice.intake.received_event import ReceivedEvent, from_bytes, is_invite, mark, read, sent_mark, to_bytes
from federation.events.room_event import RoomEvent
from tests.appservice.events import ALICE, GHOST, ROOM, member, message, redaction

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = [
    "event_id", "room_id", "sender", "type", "content", "origin_server_ts", "state_key", "unsigned",
    "redacts",
]  # fmt: skip


def taken(value: Any) -> ReceivedEvent:
    received = read(value)
    assert isinstance(received, ReceivedEvent), received
    return received


def test_round_trip() -> None:
    """Everything that readers see survives."""
    received = taken(message(state_key="é\0"))
    content = {"msgtype": "m.text", "body": "peel"}
    assert received.event == RoomEvent("$1", ROOM, ALICE, "m.room.message", content, 1_700_000_000_000, "é\0")
    assert from_bytes(to_bytes(received)) == received


def test_invites_keep_their_stripped_state() -> None:
    """Entries that are no state events are skipped."""
    name = {"type": "m.room.name", "state_key": "", "sender": ALICE, "content": {"name": "Kitchen"}}
    received = taken(member("$1", GHOST, "invite", unsigned={"invite_room_state": [name, 7, {}]}))
    assert received.invite_state == (name,)
    assert is_invite(received.event)
    assert not is_invite(taken(member("$1", GHOST, "join")).event)
    assert from_bytes(to_bytes(received)) == received


def test_too_large_stripped_state_is_dropped() -> None:
    """The invite itself is kept."""
    names = [
        {"type": "m.room.name", "state_key": str(key), "sender": ALICE, "content": {"name": "x" * 9_000}}
        for key in range(10)
    ]
    assert taken(member("$1", GHOST, "invite", unsigned={"invite_room_state": names})).invite_state == ()


def test_redacted_content() -> None:
    """Whether the homeserver applied the redaction, or it arrived later."""
    assert taken(message(content={}, unsigned={"redacted_because": {}})).event.is_redacted
    kept = to_bytes(taken(message()))
    assert from_bytes(kept).event.content["body"] == "peel"
    redacted = from_bytes(kept, is_redacted=True).event
    assert (redacted.content, redacted.is_redacted) == ({}, True)
    joined = from_bytes(to_bytes(taken(member("$1", GHOST, "join"))), is_redacted=True)
    assert joined.event.content == {"membership": "join"}


def test_redaction_target() -> None:
    """In the content since room version 11, at the top level before; other events have none."""
    assert taken(redaction("$2", "$1")).event.redacts == "$1"
    assert taken({**redaction("$2", "$1"), "content": {}, "redacts": "$1"}).event.redacts == "$1"
    assert taken(redaction("$2", "$1", redacts="$1")).event.redacts == "$1"
    assert taken(redaction("$2", "$1", redacts="$3")).event.redacts is None
    assert taken(redaction("$2", "no id")).event.redacts is None
    assert taken(message(redacts="$1")).event.redacts is None


@pytest.mark.parametrize(("said", "kept"), [(-1, 0), (2**60, 2**53 - 1), (1.5, 0), (None, 0), (True, 0)])
def test_timestamps(said: object, kept: int) -> None:
    """Old rooms allow any number."""
    assert taken(message(origin_server_ts=said)).event.origin_server_ts == kept


@pytest.mark.parametrize(
    "change",
    [
        {"event_id": None},
        {"event_id": "1"},
        {"event_id": "$\0"},
        {"event_id": "$" + "x" * 300},
        {"room_id": "kitchen"},
        {"room_id": 7},
        {"sender": "alice"},
        {"sender": None},
        {"type": 7},
        {"type": "x" * 300},
        {"content": []},
        {"content": {"body": "x" * 70_000}},
        {"state_key": 7},
        {"state_key": "x" * 300},
    ],
)
def test_invalid_events_have_a_reason(change: dict[str, Any]) -> None:
    """A sentence without any quoted content."""
    assert isinstance(read({**message(), **change}), str)


def test_deep_nesting_is_refused() -> None:
    """It could not be encoded again."""
    value: Any = []
    for _ in range(400):
        value = [value]
    assert read(message(content={"a": value})) == "an event cannot be encoded"


@given(st.sampled_from(NAMES), JSON)
def test_any_value_in_any_field(name: str, value: Any) -> None:
    """The event is refused, or it can be stored."""
    received = read({**message(), name: value})
    if isinstance(received, ReceivedEvent):
        assert from_bytes(to_bytes(received)).event.event_id == received.event.event_id
    assert isinstance(read(value), str) or isinstance(value, dict)


@pytest.mark.parametrize("key", [None, 7, "", "0" * 31, "0" * 33, "G" * 32, "0" * 32 + "\n", ["0" * 32]])
def test_transaction_keys_have_one_format(key: object) -> None:
    """Other values are no keys."""
    event = taken(message(content={"io.palaver.transaction": key})).event
    assert sent_mark(event) is None


def test_mark_includes_the_sender() -> None:
    """Anyone can copy the key alone."""
    key = "0123456789abcdef" * 2
    event = taken(message(content={"io.palaver.transaction": key})).event
    assert sent_mark(event) == mark(key, ALICE)
    assert mark(key, ALICE) != mark(key, GHOST)
