from federation.matrix.errors import MatrixError, PeerError, limit_exceeded


def test_a_matrix_error_is_the_standard_json() -> None:
    """An error is an object with `errcode` and `error`, and may carry more."""
    error = MatrixError("M_FORBIDDEN", "You are not in that room.", 403, fields={"room": "!a:b"})
    assert error.body() == {"errcode": "M_FORBIDDEN", "error": "You are not in that room.", "room": "!a:b"}
    assert error.status == 403


def test_further_fields_cannot_hide_what_went_wrong() -> None:
    """`errcode` and `error` are always those of the error itself."""
    error = MatrixError("M_UNKNOWN", "No.", fields={"errcode": "M_FINE", "error": "Yes."})
    assert error.body() == {"errcode": "M_UNKNOWN", "error": "No."}


def test_a_peer_error_names_peer_and_rule() -> None:
    """A log line names who did wrong and which paragraph says so."""
    assert str(PeerError("kitchen.local", "sent no create event", "4.2")) == (
        "kitchen.local: sent no create event (rule 4.2)"
    )
    assert str(PeerError("kitchen.local", "did not answer")) == "kitchen.local: did not answer"


def test_limit_exceeded_says_when_to_come_back() -> None:
    """`M_LIMIT_EXCEEDED` carries `retry_after_ms`."""
    assert limit_exceeded("Too many.", 429, 1000).body() == {
        "errcode": "M_LIMIT_EXCEEDED",
        "error": "Too many.",
        "retry_after_ms": 1000,
    }
