"""The classification of failed transactions."""

import pytest

from federation.client.errors import (
    PeerMalformed,
    PeerNotAllowed,
    PeerRefused,
    PeerTimedOut,
    PeerTlsFailure,
    PeerUnreachable,
)
from federation.matrix.errors import PeerError
from federation.outbox.send_failure import Failure, FailureKind, failure_of


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PeerUnreachable("a", ""), FailureKind.AWAY),
        (PeerTlsFailure("a", ""), FailureKind.AWAY),
        (PeerTimedOut("a", ""), FailureKind.AWAY),
        (PeerMalformed("a", ""), FailureKind.AWAY),
        (PeerNotAllowed("a", ""), FailureKind.AWAY),
        (PeerRefused("a", 500, "M_UNKNOWN", ""), FailureKind.AWAY),
        (PeerRefused("a", 502, None, ""), FailureKind.AWAY),
        (PeerRefused("a", 401, "M_UNAUTHORIZED", ""), FailureKind.AWAY),
        (PeerRefused("a", 403, "M_FORBIDDEN", ""), FailureKind.AWAY),
        (PeerRefused("a", 404, "M_UNRECOGNIZED", ""), FailureKind.AWAY),
        (PeerRefused("a", 400, None, ""), FailureKind.AWAY),
        (PeerRefused("a", 413, None, ""), FailureKind.AWAY),
        (PeerRefused("a", 429, "M_LIMIT_EXCEEDED", ""), FailureKind.BUSY),
        (PeerRefused("a", 400, "M_BAD_JSON", ""), FailureKind.OBJECTED),
        (PeerRefused("a", 413, "M_TOO_LARGE", ""), FailureKind.OBJECTED),
    ],
)
def test_classification(error: PeerError, kind: FailureKind) -> None:
    """Only an error with a Matrix error code about this very transaction counts as a refusal of its
    content."""
    assert failure_of(error) == Failure(kind)


def test_retry_after_is_kept() -> None:
    """As the peer sent it."""
    assert failure_of(PeerRefused("a", 429, None, "", 7000)) == Failure(FailureKind.BUSY, 7000)
    assert failure_of(PeerRefused("a", 503, None, "", 7000)) == Failure(FailureKind.AWAY, 7000)
