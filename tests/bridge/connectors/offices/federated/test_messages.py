"""What travels through the room of an office."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.offices.federated.messages import (
    CANCEL,
    MOST_BYTES,
    REQUEST,
    RESPONSE,
    TYPES,
    UPDATE,
    Cancel,
    InFile,
    Inline,
    Request,
    Response,
    Travelling,
    Update,
    content_of,
    read,
)
from bridge.connectors.offices.protocol.events import CLIENT_EVENTS, UPDATES

ID = "0123456789abcdef" * 2
FILE = InFile("mxc://a.test/x", "00" * 32, 5)


@pytest.mark.parametrize(
    "said",
    [
        *(Request(ID, "@hands:b.test", event, Inline("c2VhbGVk")) for event in CLIENT_EVENTS),
        Request(ID, "@hands:b.test", "client:get_blob", FILE),
        Response(ID, "@boss:a.test", Inline("c2VhbGVk")),
        Response(ID, "@boss:a.test", FILE),
        Cancel(ID, "@hands:b.test"),
        *map(Update, UPDATES.values()),
    ],
)
def test_it_is_read_as_it_was_written(said: Travelling) -> None:
    """Each under a type of its own."""
    type_, content = content_of(said)
    assert type_ in TYPES
    assert read(type_, content) == said


def test_an_answer_refers_to_what_was_asked() -> None:
    """As events do that have to do with another one."""
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
    (REQUEST, {"sealed": None, "file": {"mxc": "mxc://a/b", "sha256": "0", "size": MOST_BYTES + 1}}),
    (REQUEST, {"sealed": None, "file": {"mxc": "mxc://a/b", "sha256": "0", "size": True}}),
    (REQUEST, {"sealed": None, "file": {"mxc": "m" * 600, "sha256": "0", "size": 1}}),
    (UPDATE, {"notice": "notify:enter_office"}),
    (UPDATE, {"notice": {}}),
    ("m.room.message", {}),
)


@pytest.mark.parametrize(("type_", "wrong"), WRONG)
def test_what_has_not_its_form_is_nothing(type_: str, wrong: dict[str, Any]) -> None:
    """Whoever sends it."""
    good = {"id": ID, "to": "@hands:b.test", "event": "client:get_tools", "sealed": "x"}
    assert read(type_, {**good, **wrong}) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner)
)


@given(
    st.sampled_from(sorted(TYPES)),
    st.dictionaries(st.sampled_from(["id", "to", "event", "sealed", "file", "notice"]), JSON),
)
def test_whatever_comes_it_is_read_or_not(type_: str, content: dict[str, Any]) -> None:
    """And nothing else happens."""
    read(type_, content)


def test_a_cancel_has_no_body() -> None:
    assert read(CANCEL, {"id": ID, "to": "@x:y", "sealed": 7}) == Cancel(ID, "@x:y")
