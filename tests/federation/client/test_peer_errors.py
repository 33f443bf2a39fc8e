"""Errors of requests to other servers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.client.errors import (
    MAX_TEXT_LENGTH,
    PeerMalformed,
    PeerNotAllowed,
    PeerRefused,
    PeerTimedOut,
    PeerTlsFailure,
    PeerUnreachable,
    is_temporary,
    outcome_of,
    refusal,
)
from federation.matrix.errors import PeerError
from federation.observer import Outcome


def test_a_matrix_error() -> None:
    """Status, errcode, text, and retry_after_ms."""
    error = refusal("a.test", 429, {"errcode": "M_LIMIT_EXCEEDED", "error": "slow", "retry_after_ms": 5}, {})
    assert isinstance(error, PeerRefused)
    assert (error.status, error.errcode, error.text, error.retry_after_ms) == (429, "M_LIMIT_EXCEEDED", "slow", 5)
    assert str(error) == "a.test: answered 429 M_LIMIT_EXCEEDED: slow"


def test_an_error_without_json() -> None:
    """The HTML page of a proxy is not the server's error."""
    error = refusal("a.test", 502, None, {"Retry-After": "7"})
    assert isinstance(error, PeerRefused)
    assert (error.errcode, error.retry_after_ms) == (None, 7000)
    assert str(error) == "a.test: answered 502 without a Matrix error"


@pytest.mark.parametrize("after", ["-1", "soon", "Fri, 31 Jul 2026 15:00:00 GMT", "1" * 20, "١"])
def test_an_invalid_retry_after_is_ignored(after: str) -> None:
    """Dates are allowed, but not supported."""
    error = refusal("a.test", 503, {"retry_after_ms": "5"}, {"Retry-After": after})
    assert isinstance(error, PeerRefused)
    assert error.retry_after_ms is None


@pytest.mark.parametrize("status", [301, 302, 307, 308, 304])
def test_a_redirect_is_malformed(status: int) -> None:
    """ "Federation requests follow no redirects": the signature names one server and one path."""
    assert isinstance(refusal("a.test", status, {"errcode": "M_UNKNOWN"}, {}), PeerMalformed)


@given(
    content=st.none() | st.integers() | st.lists(st.none()) | st.dictionaries(st.text(), st.none()),
    errcode=st.text(),
    error=st.text(min_size=400),
)
def test_a_peers_text_is_shortened_and_on_one_line(content: object, errcode: str, error: str) -> None:
    """It is written to logs, and may be returned to others."""
    assert isinstance(refusal("a.test", 400, content, {}), PeerRefused)
    made = refusal("a.test", 400, {"errcode": errcode, "error": error}, {})
    assert str(made).isprintable()
    assert len(str(made)) < MAX_TEXT_LENGTH + 120


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, Outcome.ANSWERED),
        (PeerNotAllowed("a", ""), Outcome.NOT_ALLOWED),
        (PeerUnreachable("a", ""), Outcome.UNREACHABLE),
        (PeerTlsFailure("a", ""), Outcome.TLS),
        (PeerTimedOut("a", ""), Outcome.TIMED_OUT),
        (PeerRefused("a", 404, None, ""), Outcome.REFUSED),
        (PeerRefused("a", 500, None, ""), Outcome.FAILED),
        (PeerMalformed("a", ""), Outcome.MALFORMED),
        (PeerError("a", ""), Outcome.MALFORMED),
    ],
)
def test_every_error_has_an_outcome(error: PeerError | None, outcome: Outcome) -> None:
    """For the metrics."""
    assert outcome_of(error) is outcome


def test_temporary_errors() -> None:
    """A peer that is unreachable or failing may answer later. A refusal or an invalid response is final."""
    passing = (PeerUnreachable, PeerTimedOut, PeerTlsFailure)
    assert all(is_temporary(kind("a.test", "is away")) for kind in passing)
    assert all(is_temporary(PeerRefused("a.test", status, None, "")) for status in (429, 500, 503))
    assert not any(is_temporary(PeerRefused("a.test", status, None, "")) for status in (400, 403, 404))
    assert not is_temporary(PeerMalformed("a.test", "answered nonsense"))
    assert not is_temporary(PeerNotAllowed("a.test", "is not spoken with"))
