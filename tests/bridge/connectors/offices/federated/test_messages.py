"""Events between nodes in the room of an office."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.offices.federated.messages import (
    CANCEL,
    MAX_BYTES,
    REQUEST,
    RESPONSE,
    TYPES,
    UPDATE,
    Cancel,
    InFile,
    Inline,
    OfficeEvent,
    Request,
    Response,
    Update,
    content_of,
    read,
)
from bridge.connectors.offices.protocol.events import CLIENT_EVENTS, UPDATES

ID = "0123456789abcdef" * 2
FILE = InFile("mxc://a.test/x", "00" * 32, 5)


@pytest.mark.parametrize(
    "event",
    [
        *(Request(ID, "@hands:b.test", name, Inline("c2VhbGVk")) for name in CLIENT_EVENTS),
        Request(ID, "@hands:b.test", "client:get_blob", FILE),
        Response(ID, "@boss:a.test", Inline("c2VhbGVk")),
        Response(ID, "@boss:a.test", FILE),
        Cancel(ID, "@hands:b.test"),
        *map(Update, UPDATES.values()),
    ],
)
def test_writing_and_reading_are_inverse(event: OfficeEvent) -> None:
    """Each kind has its own event type."""
    type_, content = content_of(event)
    assert type_ in TYPES
    assert read(type_, content) == event


def test_a_response_refers_to_the_request() -> None:
    """With a Matrix relation."""
    _, content = content_of(Response(ID, "@boss:a.test", FILE), request_event="$asked")
    assert content["m.relates_to"] == {"rel_type": "m.reference", "event_id": "$asked"}
    assert read(RESPONSE, content) == Response(ID, "@boss:a.test", FILE)


WRONG: tuple[tuple[str, dict[str, Any]], ...] = (
    (REQUEST, {"id": "x"}),
    (REQUEST, {"id": ID + "0"}),
    (REQUEST, {"id": 5}),
    (REQUEST, {"to": None}),
    (REQUEST, {"event": "server:join_office"}),
    (REQUEST, {"event": ["client:get_tools"]}),
    (REQUEST, {"sealed": 5}),
    (REQUEST, {"sealed": None, "file": "mxc://a/b"}),
    (REQUEST, {"sealed": None, "file": {"mxc": "mxc://a/b", "sha256": "0", "size": 0}}),
    (REQUEST, {"sealed": None, "file": {"mxc": "mxc://a/b", "sha256": "0", "size": MAX_BYTES + 1}}),
    (REQUEST, {"sealed": None, "file": {"mxc": "mxc://a/b", "sha256": "0", "size": True}}),
    (REQUEST, {"sealed": None, "file": {"mxc": "m" * 600, "sha256": "0", "size": 1}}),
    (UPDATE, {"notice": "notify:enter_office"}),
    (UPDATE, {"notice": {}}),
    ("m.room.message", {}),
)


@pytest.mark.parametrize(("type_", "wrong"), WRONG)
def test_invalid_content_is_ignored(type_: str, wrong: dict[str, Any]) -> None:
    """Each field is checked."""
    good = {"id": ID, "to": "@hands:b.test", "event": "client:get_tools", "sealed": "x"}
    assert read(type_, {**good, **wrong}) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner)
)


@given(
    st.sampled_from(sorted(TYPES)),
    st.dictionaries(st.sampled_from(["id", "to", "event", "sealed", "file", "notice"]), JSON),
)
def test_reading_never_raises(type_: str, content: dict[str, Any]) -> None:
    """Other servers can send any content."""
    read(type_, content)


def test_a_cancel_has_no_body() -> None:
    assert read(CANCEL, {"id": ID, "to": "@x:y", "sealed": 7}) == Cancel(ID, "@x:y")
