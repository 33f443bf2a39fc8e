"""The shape of requests: required and optional fields."""

from typing import Any

import pytest

from bridge.connectors.offices.protocol.events import (
    CLIENT_EVENTS,
    JOIN,
    MAX_NAME_BYTES,
    SERVER_EVENTS,
    TOOL_CALL,
    FieldKind,
    find_malformed_field,
    is_kind,
    is_name,
)

EVENTS = {**CLIENT_EVENTS, **SERVER_EVENTS}
GOOD: dict[FieldKind, Any] = {
    FieldKind.NAME: "a",
    FieldKind.TEXT: "",
    FieldKind.OBJECT: {},
    FieldKind.NATURAL: 0,
    FieldKind.FLAG: False,
    FieldKind.ROLE: "agent",
}
BAD: dict[FieldKind, list[Any]] = {
    FieldKind.NAME: [None, "", " a", "a\0", "a\nb", "x" * (MAX_NAME_BYTES + 1), "\ud800", 5, "ü" * 128, "a\u202eb"],
    FieldKind.TEXT: [None, 5, [], "x" * 1_000_001],
    FieldKind.OBJECT: [None, [], "x", 1],
    FieldKind.NATURAL: [None, -1, 1.0, True, "1", 2**53],
    FieldKind.FLAG: [None, 0, "true"],
    FieldKind.ROLE: [None, "boss", 1, []],
}


def test_there_are_seventeen_requests() -> None:
    """Nine from Agents to Computers, eight to the server; the other seven events are notifications."""
    assert (len(CLIENT_EVENTS), len(SERVER_EVENTS)) == (9, 8)


@pytest.mark.parametrize("name", EVENTS)
def test_each_field_is_checked(name: str) -> None:
    """A missing or invalid field is named. Optional fields may be missing or null."""
    event = EVENTS[name]
    payload = {field: GOOD[kind] for field, kind in event.required.items()}
    assert find_malformed_field(event, payload) is None
    assert find_malformed_field(event, {**payload, "unheard_of": object()}) is None
    for field, kind in event.required.items():
        without = {other: value for other, value in payload.items() if other != field}
        malformed = find_malformed_field(event, without)
        assert malformed is not None
        assert malformed.message == f"field '{field}' is missing"
        for bad in BAD[kind]:
            malformed = find_malformed_field(event, {**payload, field: bad})
            assert malformed is not None, (field, bad)
            assert f"'{field}'" in malformed.message
    for field, kind in event.optional.items():
        assert find_malformed_field(event, {**payload, field: None}) is None
        assert find_malformed_field(event, {**payload, field: GOOD[kind]}) is None
        for bad in BAD[kind][1:]:
            assert find_malformed_field(event, {**payload, field: bad}) is not None, (field, bad)


@pytest.mark.parametrize("payload", [None, [], "join", 5, True, [{}]])
def test_a_payload_must_be_an_object(payload: object) -> None:
    assert find_malformed_field(EVENTS[JOIN], payload) is not None
    assert find_malformed_field(EVENTS[TOOL_CALL], payload) is not None


def test_names_are_printable_text() -> None:
    """In any script."""
    for name in ("friday_hands", "Büro 7", "办公室", "x" * MAX_NAME_BYTES):
        assert is_name(name)
        assert is_kind(name, FieldKind.NAME)
