"""Token buckets of servers and addresses."""

from ipaddress import ip_address, ip_network

import pytest

from federation.peers.actions import RequestKind
from federation.peers.limits import Buckets, PeerLimiter, PeerLimits, Rate, RateExceeded

NOW = 1_234_567.890_123
HERE = ip_address("192.0.2.1")


def takes(buckets: Buckets[str], rate: Rate, now: float, key: str = "a") -> int:
    """The number of requests that are allowed at once."""
    count = 0
    while buckets.take(key, rate, now) is None:
        count += 1
    return count


@pytest.mark.parametrize("rate", [Rate(1, 1), Rate(0.3, 7), Rate(3, 10), Rate(7, 1000), Rate(1000, 3)])
@pytest.mark.parametrize("now", [0.0, 0.1, NOW])
def test_a_burst_is_allowed_and_not_one_more(rate: Rate, now: float) -> None:
    """At any time."""
    assert takes(Buckets(10), rate, now) == rate.burst


def test_another_request_is_allowed_after_retry_after_ms() -> None:
    """And not before."""
    buckets, rate = Buckets[str](10), Rate(2, 3)
    assert takes(buckets, rate, NOW) == 3
    assert buckets.take("a", rate, NOW) == RateExceeded(500)
    assert buckets.take("a", rate, NOW + 0.4) == RateExceeded(100)
    assert buckets.take("a", rate, NOW + 0.5) is None
    assert buckets.take("a", rate, NOW + 0.5) == RateExceeded(500)


def test_a_bucket_does_not_overflow() -> None:
    """After a year of inactivity only a burst is allowed."""
    buckets, rate = Buckets[str](10), Rate(2, 3)
    takes(buckets, rate, NOW)
    assert takes(buckets, rate, NOW + 31_536_000) == 3


def test_returned_tokens() -> None:
    """A full bucket does not overflow."""
    buckets, rate = Buckets[str](10), Rate(1, 2)
    for _ in range(100):
        assert buckets.take("a", rate, NOW) is None
        buckets.give_back("a", rate)
    assert takes(buckets, rate, NOW) == 2
    buckets.give_back("b", rate)
    assert takes(buckets, rate, NOW, "b") == 2


def test_full_buckets_are_removed() -> None:
    """Two with each use of another, without a sweep."""
    buckets, rate = Buckets[str](1000), Rate(1, 5)
    for number in range(500):
        buckets.take(str(number), rate, NOW)
    assert len(buckets) == 500
    for _ in range(250):
        buckets.take("new", rate, NOW + 10)
        assert "new" in buckets._full_at
    assert len(buckets) == 1


def test_the_number_of_buckets_is_bounded() -> None:
    """The least recently used one is removed, full or not."""
    buckets, rate = Buckets[str](3), Rate(0.001, 1)
    for key in "abc":
        assert buckets.take(key, rate, NOW) is None
    assert buckets.take("d", rate, NOW) is None
    assert len(buckets) == 3
    assert buckets.take("b", rate, NOW) is not None
    assert buckets.take("a", rate, NOW) is None


def test_an_honest_busy_server_is_never_refused() -> None:
    """A hundred transactions per second with a state request each, for ten minutes."""
    limiter = PeerLimiter()
    for tick in range(60_000):
        now = NOW + tick / 100
        assert limiter.take("busy.example", RequestKind.TRANSACTION, now) is None
        assert limiter.take("busy.example", RequestKind.READ, now) is None
        assert limiter.take("busy.example", RequestKind.READ, now) is None
        assert limiter.take("busy.example", RequestKind.QUERY, now) is None


def test_kinds_and_servers_are_limited_separately() -> None:
    """Server names are compared without regard to case."""
    limiter = PeerLimiter(PeerLimits(reads=Rate(1, 2), media=Rate(1, 1)))
    for name in ("a.example", "A.Example"):
        assert limiter.take(name, RequestKind.READ, NOW) is None
    assert limiter.take("a.EXAMPLE", RequestKind.READ, NOW) == RateExceeded(1000)
    assert limiter.take("a.example", RequestKind.TRANSACTION, NOW) is None
    assert limiter.take("b.example", RequestKind.READ, NOW) is None
    assert limiter.take("a.example", RequestKind.MEDIA, NOW) is None
    assert limiter.take("a.example", RequestKind.MEDIA, NOW) is not None


@pytest.mark.parametrize("kind", list(RequestKind))
def test_every_kind_has_a_limit(kind: RequestKind) -> None:
    """Each has its own bucket size."""
    limits = PeerLimits(
        transactions=Rate(1, 1),
        memberships=Rate(1, 2),
        reads=Rate(1, 3),
        queries=Rate(1, 4),
        media=Rate(1, 5),
        unsigned=Rate(1, 6),
    )
    assert limits.of(kind).burst == list(RequestKind).index(kind) + 1


def test_failed_authentication_is_limited() -> None:
    """Successful authentication does not count, however frequent."""
    limiter = PeerLimiter(PeerLimits(failures=Rate(1, 2)))
    for _ in range(1000):
        assert limiter.begin_authentication(HERE, NOW) is None
        limiter.authentication_succeeded(HERE)
    assert [limiter.begin_authentication(HERE, NOW) is None for _ in range(3)] == [True, True, False]
    assert limiter.begin_authentication(ip_address("192.0.2.2"), NOW) is None
    # A successful authentication returns its token, so that the next one is allowed as well.
    for _ in range(10):
        assert limiter.begin_authentication(HERE, NOW + 1) is None
        limiter.authentication_succeeded(HERE)


def test_an_ipv6_network_is_limited_as_one_address() -> None:
    """A host owns a whole /64."""
    limiter = PeerLimiter(PeerLimits(unsigned=Rate(1, 1)))
    first, second = ip_address("2001:db8::1"), ip_address("2001:db8::ffff:1")
    assert limiter.take_unsigned(first, NOW) is None
    assert limiter.take_unsigned(second, NOW) is not None
    assert limiter.take_unsigned(ip_address("2001:db8:0:1::1"), NOW) is None


def test_a_shared_address_is_not_limited() -> None:
    """Behind a reverse proxy one server would block all others."""
    shared = (ip_network("192.0.2.0/24"),)
    limiter = PeerLimiter(PeerLimits(failures=Rate(1, 1), unsigned=Rate(1, 1), shared_addresses=shared))
    for _ in range(100):
        assert limiter.begin_authentication(HERE, NOW) is None
        assert limiter.take_unsigned(HERE, NOW) is None
    assert PeerLimits().shared_addresses == (ip_network("127.0.0.0/8"), ip_network("::1/128"))
