"""What processes of one node say to each other."""

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.offices.cluster.broker import (
    MOST_BYTES,
    OfficeMessage,
    SocketMessage,
    encoded,
    office_message,
    read,
)

EMIT = {
    "method": "emit", "event": "client:tool_call", "data": [{"a": 1}], "binary": False, "namespace": "/smcp",
    "room": "sid", "skip_sid": None, "callback": ["sid", "/smcp", 1], "host_id": "h",
}  # fmt: skip
CALLBACK = {
    "method": "callback", "host_id": "h", "sid": "sid", "namespace": "/smcp", "id": 1, "args": [{"b": 2}],
}  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_what_is_said_is_heard(said: Any) -> None:
    """To the letter, bytes and large numbers among it."""
    assert read(encoded({**EMIT, "data": [said]})) == SocketMessage({**EMIT, "data": [said]})
    assert read(encoded({**CALLBACK, "args": [said]})) == SocketMessage({**CALLBACK, "args": [said]})
    message = office_message("h", "changed", {"x": said})
    assert read(encoded(message)) == OfficeMessage("h", "changed", {"x": said})


def test_who_waits_for_no_answer() -> None:
    said = {**EMIT, "callback": None}
    assert read(encoded(said)) == SocketMessage(said)


@pytest.mark.parametrize(
    "change",
    [
        {"namespace": "/"}, {"namespace": None}, {"event": 1}, {"event": ""}, {"room": None}, {"room": ["a"]},
        {"room": "s" * 1000}, {"data": {}}, {"binary": True}, {"skip_sid": "x"}, {"callback": []},
        {"callback": ["sid", "/smcp", 0]}, {"callback": ["sid", "/smcp", True]},
        {"callback": ["sid", "/", 1]},
        {"host_id": None}, {"method": "disconnect"}, {"method": "enter_room"}, {"method": "close_room"},
        {"method": ["emit"]}, {"method": None},
    ],
)  # fmt: skip
def test_events_that_none_of_us_would_say(change: dict[str, Any]) -> None:
    """To everybody, to other namespaces, or to do something else than to tell one connection something."""
    assert read(json.dumps({**EMIT, **change}).encode()) is None


@pytest.mark.parametrize(
    "change", [{"id": 0}, {"id": "1"}, {"id": None}, {"sid": 1}, {"args": {}}, {"namespace": "/"}]
)
def test_acknowledgements_that_none_of_us_would_say(change: dict[str, Any]) -> None:
    """Number 0 counts the others."""
    assert read(json.dumps({**CALLBACK, **change}).encode()) is None


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"null", b"{", b"\xff\xfe", b'{"method": "palaver"}', "text", None, {"method": "emit"},
        b'{"method": "palaver", "host_id": "h", "what": "changed", "said": []}',
        b'{"method": "palaver", "host_id": "h", "what": "", "said": {}}',
        b'{"method": "palaver", "host_id": "h", "what": "x", "said": {"$palaver.bytes": "!"}}',
        b"[" * 200_000, b" " * (MOST_BYTES + 1), pickle.dumps(EMIT),
    ],
    ids=lambda data: repr(data)[:30],
)  # fmt: skip
def test_what_is_no_message(data: object) -> None:
    """Nothing of it is carried out: a pickle is bytes like any others."""
    assert read(data) is None


def test_what_cannot_be_said() -> None:
    with pytest.raises(ValueError, match="no JSON"):
        encoded({**EMIT, "data": [object()]})
    with pytest.raises(ValueError, match="bytes"):
        encoded({**EMIT, "data": ["x" * MOST_BYTES]})
