"""Whether what was said has the form of its event."""

from typing import Any

import pytest

from bridge.connectors.offices.protocol.events import (
    CLIENT_EVENTS,
    JOIN,
    MOST_BYTES,
    SERVER_EVENTS,
    TOOL_CALL,
    Kind,
    is_kind,
    is_name,
    malformed,
)

EVENTS = {**CLIENT_EVENTS, **SERVER_EVENTS}
GOOD: dict[Kind, Any] = {
    Kind.NAME: "a",
    Kind.TEXT: "",
    Kind.OBJECT: {},
    Kind.NATURAL: 0,
    Kind.FLAG: False,
    Kind.ROLE: "agent",
}
BAD: dict[Kind, list[Any]] = {
    Kind.NAME: [None, "", " a", "a\0", "a\nb", "x" * (MOST_BYTES + 1), "\ud800", 5, "ü" * 128, "a\u202eb"],
    Kind.TEXT: [None, 5, [], "x" * 1_000_001],
    Kind.OBJECT: [None, [], "x", 1],
    Kind.NATURAL: [None, -1, 1.0, True, "1", 2**53],
    Kind.FLAG: [None, 0, "true"],
    Kind.ROLE: [None, "boss", 1, []],
}


def test_there_are_seventeen_that_are_asked() -> None:
    """Nine by Agents of Computers, eight of the server; the seven others are notices."""
    assert (len(CLIENT_EVENTS), len(SERVER_EVENTS)) == (9, 8)


@pytest.mark.parametrize("name", EVENTS)
def test_each_field_is_looked_at(name: str) -> None:
    """What is missing or of another kind is named; what is optional may be missing or null."""
    event = EVENTS[name]
    said = {field: GOOD[kind] for field, kind in event.required.items()}
    assert malformed(event, said) is None
    assert malformed(event, {**said, "unheard_of": object()}) is None
    for field, kind in event.required.items():
        without = {other: value for other, value in said.items() if other != field}
        wrong = malformed(event, without)
        assert wrong is not None
        assert wrong.sentence == f"field '{field}' is missing"
        for bad in BAD[kind]:
            wrong = malformed(event, {**said, field: bad})
            assert wrong is not None, (field, bad)
            assert f"'{field}'" in wrong.sentence
    for field, kind in event.optional.items():
        assert malformed(event, {**said, field: None}) is None
        assert malformed(event, {**said, field: GOOD[kind]}) is None
        for bad in BAD[kind][1:]:
            assert malformed(event, {**said, field: bad}) is not None, (field, bad)


@pytest.mark.parametrize("said", [None, [], "join", 5, True, [{}]])
def test_what_is_no_object_has_no_fields(said: object) -> None:
    assert malformed(EVENTS[JOIN], said) is not None
    assert malformed(EVENTS[TOOL_CALL], said) is not None


def test_a_name_is_what_people_can_read() -> None:
    """In any script."""
    for name in ("friday_hands", "Büro 7", "办公室", "x" * MOST_BYTES):
        assert is_name(name)
        assert is_kind(name, Kind.NAME)
