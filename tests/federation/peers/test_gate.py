"""Servers held to their limits."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from federation.matrix.errors import MatrixError
from federation.peers.acts import Kind
from federation.peers.gate import PeerGate
from federation.peers.limits import PeerLimits, Rate
from tests.support.neighbourhood import Clock

HERE = "192.0.2.1"
STRICT = PeerLimits(reads=Rate(2, 1), unsigned=Rate(1, 1), failures=Rate(0.1, 2))


@contextmanager
def refused(milliseconds: int) -> Iterator[None]:
    """429, and when to come back."""
    with pytest.raises(MatrixError) as caught:
        yield
    assert (caught.value.status, caught.value.errcode) == (429, "M_LIMIT_EXCEEDED")
    assert caught.value.body()["retry_after_ms"] == milliseconds


def test_a_server_that_asks_too_much_is_told_when_to_come_back() -> None:
    """And then it may."""
    clock = Clock()
    gate = PeerGate(STRICT, clock=clock)
    gate.admit("a.example", Kind.READ)
    with refused(500):
        gate.admit("a.example", Kind.READ)
    clock.now += 0.5
    gate.admit("a.example", Kind.READ)


def test_who_need_not_sign_is_limited_by_address() -> None:
    """Each by its own; an address that nobody can tell is no reason to refuse."""
    gate = PeerGate(STRICT, clock=Clock())
    gate.admit_unsigned(HERE)
    with refused(1000):
        gate.admit_unsigned(HERE)
    gate.admit_unsigned("192.0.2.2")
    for unknown in (None, "", "unix:/run/socket", "::1%lo"):
        for _ in range(5):
            gate.admit_unsigned(unknown)


def test_only_failures_count_against_an_address() -> None:
    """What is good does not, nor an error that was not the sender's."""
    gate = PeerGate(STRICT, clock=Clock())
    for _ in range(10):
        with gate.trial(HERE):
            pass
        with pytest.raises(OSError, match="disk"), gate.trial(HERE):
            raise OSError("disk")
    for _ in range(2):
        with pytest.raises(MatrixError, match="401"), gate.trial(HERE):
            raise MatrixError("M_UNAUTHORIZED", "No.", 401)
    with refused(10_000), gate.trial(HERE):
        raise AssertionError("nothing is looked at any more")
    with gate.trial("192.0.2.2"), gate.trial(None):
        pass


def test_what_is_under_way_counts_until_it_is_known_to_be_good() -> None:
    """Many at once must not slip through before the first has failed."""
    gate = PeerGate(STRICT, clock=Clock())
    with gate.trial(HERE), gate.trial(HERE), refused(10_000), gate.trial(HERE):
        raise AssertionError("nothing is looked at any more")
    with gate.trial(HERE):
        pass
