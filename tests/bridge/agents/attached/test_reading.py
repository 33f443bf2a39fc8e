"""Parsing of messages."""

from typing import Any

import pytest

from bridge.agents.attached.codec import parse_json_object, parse_message
from bridge.agents.attached.messages import Heartbeat, Register, Take, Unregister, WorkRef
from federation.matrix.errors import MatrixError

SESSION = "session-1"


def test_a_valid_message() -> None:
    """Defaults are filled in; an integer is accepted where a number is expected."""
    assert parse_json_object(b'{"session":"session-1","wait_seconds":5}') == {"session": SESSION, "wait_seconds": 5}
    said = parse_message(Register, {"session": SESSION, "working": [{"work_id": "1", "attempt": 2}]})
    assert (said.parallel, said.queue, said.working) == (1, 100, [WorkRef(work_id="1", attempt=2)])
    assert parse_message(Take, {"session": SESSION, "wait_seconds": 5}).wait_seconds == 5.0
    assert parse_message(Heartbeat, {"session": SESSION, "working": None}).working is None
    assert parse_message(Unregister, {"session": SESSION, "reason": "because"}, is_text=True).reason == "because"


@pytest.mark.parametrize(
    ("value", "field", "part"),
    [
        ({}, "session", "required"),
        ({"session": SESSION, "parallel": "1"}, "parallel", "integer"),
        ({"session": SESSION, "parallel": 1.0}, "parallel", "integer"),
        ({"session": SESSION, "working": [{"work_id": "1"}]}, "working.0.attempt", "required"),
        ({"session": SESSION, "no\x1b[31m": 1}, "no\\x1b[31m", "not permitted"),
        ({"session": SESSION, "x" * 10_000: 1}, "x" * 200 + "…", "not permitted"),
    ],
)
def test_the_error_names_the_field(value: dict[str, Any], field: str, part: str) -> None:
    """In a short sentence that does not repeat the value."""
    with pytest.raises(MatrixError, match=part) as refused:
        parse_message(Register, value)
    assert (refused.value.status, refused.value.errcode) == (400, "M_BAD_JSON")
    assert refused.value.fields == {"field": field}
    assert len(refused.value.text) < 500


@pytest.mark.parametrize(
    ("body", "errcode"), [(b"", "M_NOT_JSON"), (b"nan", "M_NOT_JSON"), (b"1", "M_BAD_JSON"), ("[]", "M_BAD_JSON")]
)
def test_only_objects_are_accepted(body: bytes | str, errcode: str) -> None:
    """Any other JSON, and text that is not JSON, is refused."""
    with pytest.raises(MatrixError) as refused:
        parse_json_object(body)
    assert refused.value.errcode == errcode
