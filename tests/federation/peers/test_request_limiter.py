"""Enforcing the rate limits."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from federation.matrix.errors import MatrixError
from federation.peers.actions import RequestKind
from federation.peers.limits import PeerLimits, Rate
from federation.peers.request_limiter import RequestLimiter
from tests.support.neighbourhood import Clock

HERE = "192.0.2.1"
STRICT = PeerLimits(reads=Rate(2, 1), unsigned=Rate(1, 1), failures=Rate(0.1, 2))


@contextmanager
def refused(milliseconds: int) -> Iterator[None]:
    """Expect 429 with this `retry_after_ms`."""
    with pytest.raises(MatrixError) as caught:
        yield
    assert (caught.value.status, caught.value.errcode) == (429, "M_LIMIT_EXCEEDED")
    assert caught.value.body()["retry_after_ms"] == milliseconds


def test_a_refused_server_may_retry_after_the_given_time() -> None:
    """`retry_after_ms` is exact."""
    clock = Clock()
    limiter = RequestLimiter(STRICT, clock=clock)
    limiter.check("a.example", RequestKind.READ)
    with refused(500):
        limiter.check("a.example", RequestKind.READ)
    clock.now += 0.5
    limiter.check("a.example", RequestKind.READ)


def test_unsigned_requests_are_limited_by_address() -> None:
    """Each address separately; requests without a valid address are not limited."""
    limiter = RequestLimiter(STRICT, clock=Clock())
    limiter.check_unsigned(HERE)
    with refused(1000):
        limiter.check_unsigned(HERE)
    limiter.check_unsigned("192.0.2.2")
    for unknown in (None, "", "unix:/run/socket", "::1%lo"):
        for _ in range(5):
            limiter.check_unsigned(unknown)


def test_only_failures_count_against_an_address() -> None:
    """Successful authentication does not count, nor do errors of this server."""
    limiter = RequestLimiter(STRICT, clock=Clock())
    for _ in range(10):
        with limiter.authenticating(HERE):
            pass
        with pytest.raises(OSError, match="disk"), limiter.authenticating(HERE):
            raise OSError("disk")
    for _ in range(2):
        with pytest.raises(MatrixError, match="401"), limiter.authenticating(HERE):
            raise MatrixError("M_UNAUTHORIZED", "No.", 401)
    with refused(10_000), limiter.authenticating(HERE):
        raise AssertionError("nothing is looked at any more")
    with limiter.authenticating("192.0.2.2"), limiter.authenticating(None):
        pass


def test_pending_authentication_counts_as_a_failure() -> None:
    """Otherwise many concurrent requests would pass before the first has failed."""
    limiter = RequestLimiter(STRICT, clock=Clock())
    with limiter.authenticating(HERE), limiter.authenticating(HERE), refused(10_000), limiter.authenticating(HERE):
        raise AssertionError("nothing is looked at any more")
    with limiter.authenticating(HERE):
        pass
