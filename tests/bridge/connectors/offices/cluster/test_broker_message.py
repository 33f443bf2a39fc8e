"""Messages between the processes of one node."""

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.offices.cluster.broker import (
    MAX_BYTES,
    OfficeMessage,
    SocketMessage,
    decode,
    encode,
    office_message,
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
def test_encoding_and_decoding_are_inverse(value: Any) -> None:
    """Also for bytes and large numbers."""
    assert decode(encode({**EMIT, "data": [value]})) == SocketMessage({**EMIT, "data": [value]})
    assert decode(encode({**CALLBACK, "args": [value]})) == SocketMessage({**CALLBACK, "args": [value]})
    message = office_message("h", "changed", {"x": value})
    assert decode(encode(message)) == OfficeMessage("h", "changed", {"x": value})


def test_an_event_without_a_callback() -> None:
    message = {**EMIT, "callback": None}
    assert decode(encode(message)) == SocketMessage(message)


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
def test_events_that_no_process_sends_are_ignored(change: dict[str, Any]) -> None:
    """To all connections, to other namespaces, or with other methods of the client manager."""
    assert decode(json.dumps({**EMIT, **change}).encode()) is None


@pytest.mark.parametrize("change", [{"id": 0}, {"id": "1"}, {"id": None}, {"sid": 1}, {"args": {}}, {"namespace": "/"}])
def test_acknowledgements_that_no_process_sends_are_ignored(change: dict[str, Any]) -> None:
    """Number 0 is python-socketio's counter."""
    assert decode(json.dumps({**CALLBACK, **change}).encode()) is None


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"null", b"{", b"\xff\xfe", b'{"method": "palaver"}', "text", None, {"method": "emit"},
        b'{"method": "palaver", "host_id": "h", "what": "changed", "said": []}',
        b'{"method": "palaver", "host_id": "h", "what": "", "said": {}}',
        b'{"method": "palaver", "host_id": "h", "what": "x", "said": {"$palaver.bytes": "!"}}',
        b"[" * 200_000, b" " * (MAX_BYTES + 1), pickle.dumps(EMIT),
    ],
    ids=lambda data: repr(data)[:30],
)  # fmt: skip
def test_other_data_is_ignored(data: object) -> None:
    """Nothing of it is executed: a pickle is treated like any other bytes."""
    assert decode(data) is None


def test_a_message_that_cannot_be_encoded() -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode({**EMIT, "data": [object()]})
    with pytest.raises(ValueError, match="bytes"):
        encode({**EMIT, "data": ["x" * MAX_BYTES]})
