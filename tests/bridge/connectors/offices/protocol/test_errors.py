"""Errors as the protocol has them."""

from bridge.connectors.offices.protocol.errors import (
    computer_not_found,
    connected_elsewhere,
    cross_office,
    event_not_supported,
    flat,
    interrupted,
    not_joined,
    result_error,
    timed_out,
    withdrawn,
)


def test_an_error_is_flat() -> None:
    """Never wrapped; details only where there are some."""
    assert flat(400, "No") == {"code": 400, "message": "No"}
    assert flat(400, "No", reason="x") == {"code": 400, "message": "No", "details": {"reason": "x"}}
    assert event_not_supported("client:put_blob")["details"] == {"reason": "event_not_supported"}


def test_published_clients_do_not_learn_what_is_elsewhere() -> None:
    """Nobody, not joined, another office: the same bytes. The letter has a code for each."""
    nobody = {
        "code": 404,
        "message": "Computer with name 'x' not found",
        "details": {"computer_name": "x"},
    }
    assert computer_not_found("x") == cross_office("wire", "x") == not_joined("wire", "x") == nobody
    assert cross_office("spec", "x") == {"code": 4104, "message": "Cross-room access denied"}
    assert not_joined("spec", "x")["code"] == 4103


def test_a_call_that_took_too_long_has_a_result() -> None:
    """An MCP result by field names, which says so."""
    late = timed_out(3)
    assert (late["isError"], late["meta"]) == (True, {"a2c_timeout": True})
    assert late["content"] == [
        {"type": "text", "text": "The tool has not answered within 3 s, and was told to stop."}
    ]
    assert result_error("No.", error_code=4006)["meta"] == {"error_code": 4006}


def test_who_is_no_member_is_told_where_a_computer_is() -> None:
    """He may know; and has to have it called there."""
    error = connected_elsewhere("x", "there.test")
    assert error["code"] == 403
    assert "is connected to there.test" in error["message"]


def test_a_call_that_its_node_has_not_survived_has_one_too() -> None:
    """For whoever looks back: nobody knows what became of it."""
    assert (interrupted()["isError"], interrupted()["meta"]) == (True, {"a2c_interrupted": True})
    assert "not known" in interrupted()["content"][0]["text"]


def test_a_call_that_was_taken_back_has_one_too() -> None:
    """As a Computer says it itself."""
    assert (withdrawn()["isError"], withdrawn()["meta"]) == (True, {"a2c_cancelled": True})
