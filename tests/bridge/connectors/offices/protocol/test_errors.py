"""Errors as the protocol defines them."""

from bridge.connectors.offices.protocol.errors import (
    cancelled,
    computer_not_found,
    connected_to_other_node,
    cross_office,
    event_not_supported,
    flat_error,
    interrupted,
    not_joined,
    result_error,
    timed_out,
)


def test_errors_are_flat() -> None:
    """They are never wrapped, and have details only if there are any."""
    assert flat_error(400, "No") == {"code": 400, "message": "No"}
    assert flat_error(400, "No", reason="x") == {"code": 400, "message": "No", "details": {"reason": "x"}}
    assert event_not_supported("client:put_blob")["details"] == {"reason": "event_not_supported"}


def test_published_clients_cannot_tell_whether_a_computer_exists() -> None:
    """Unknown, not joined, another office: the same bytes. The profile `spec` has a code for each."""
    not_found = {"code": 404, "message": "Computer with name 'x' not found", "details": {"computer_name": "x"}}
    assert computer_not_found("x") == cross_office("wire", "x") == not_joined("wire", "x") == not_found
    assert cross_office("spec", "x") == {"code": 4104, "message": "Cross-room access denied"}
    assert not_joined("spec", "x")["code"] == 4103


def test_a_timeout_is_a_tool_result() -> None:
    """An MCP result by field names, with a mark in `meta`."""
    late = timed_out(3)
    assert (late["isError"], late["meta"]) == (True, {"a2c_timeout": True})
    [part] = late["content"]
    assert part["type"] == "text"
    assert "within 3 s" in part["text"]
    assert result_error("No.", error_code=4006)["meta"] == {"error_code": 4006}


def test_a_direct_call_learns_where_the_computer_is_connected() -> None:
    """Its requester may know that, and can make the call on that node."""
    error = connected_to_other_node("x", "there.test")
    assert error["code"] == 403
    assert "is connected to there.test" in error["message"]


def test_an_interrupted_call_has_a_result() -> None:
    """For the records: it is not known whether the tool completed its work."""
    assert (interrupted()["isError"], interrupted()["meta"]) == (True, {"a2c_interrupted": True})
    assert "not known" in interrupted()["content"][0]["text"]


def test_a_cancelled_call_has_a_result() -> None:
    """With the mark that a Computer uses."""
    assert (cancelled()["isError"], cancelled()["meta"]) == (True, {"a2c_cancelled": True})
