from federation.matrix.errors import MatrixError, PeerError, limit_exceeded


def test_a_matrix_error_is_the_standard_json() -> None:
    """An object with `errcode` and `error`, and optional fields."""
    error = MatrixError("M_FORBIDDEN", "You are not in that room.", 403, fields={"room": "!a:b"})
    assert error.body() == {"errcode": "M_FORBIDDEN", "error": "You are not in that room.", "room": "!a:b"}
    assert error.status == 403


def test_fields_cannot_override_errcode_and_error() -> None:
    error = MatrixError("M_UNKNOWN", "No.", fields={"errcode": "M_FINE", "error": "Yes."})
    assert error.body() == {"errcode": "M_UNKNOWN", "error": "No."}


def test_a_peer_error_names_peer_and_rule() -> None:
    """For the log."""
    assert str(PeerError("kitchen.local", "sent no create event", "4.2")) == (
        "kitchen.local: sent no create event (rule 4.2)"
    )
    assert str(PeerError("kitchen.local", "did not answer")) == "kitchen.local: did not answer"


def test_limit_exceeded_has_retry_after_ms() -> None:
    assert limit_exceeded("Too many.", 429, 1000).body() == {
        "errcode": "M_LIMIT_EXCEEDED",
        "error": "Too many.",
        "retry_after_ms": 1000,
    }
