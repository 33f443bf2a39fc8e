"""Buckets that refill, of servers and addresses."""

from ipaddress import ip_address, ip_network

import pytest

from federation.peers.acts import Kind
from federation.peers.limits import Buckets, Excess, PeerLimiter, PeerLimits, Rate

NOW = 1_234_567.890_123
HERE = ip_address("192.0.2.1")


def takes(buckets: Buckets[str], rate: Rate, now: float, key: str = "a") -> int:
    """How many are let through at once."""
    count = 0
    while buckets.take(key, rate, now) is None:
        count += 1
    return count


@pytest.mark.parametrize("rate", [Rate(1, 1), Rate(0.3, 7), Rate(3, 10), Rate(7, 1000), Rate(1000, 3)])
@pytest.mark.parametrize("now", [0.0, 0.1, NOW])
def test_a_burst_is_let_through_and_not_one_more(rate: Rate, now: float) -> None:
    """Whatever the time is."""
    assert takes(Buckets(10), rate, now) == rate.burst


def test_one_more_is_let_through_when_it_was_said_it_would_be() -> None:
    """And not a moment before."""
    buckets, rate = Buckets[str](10), Rate(2, 3)
    assert takes(buckets, rate, NOW) == 3
    assert buckets.take("a", rate, NOW) == Excess(500)
    assert buckets.take("a", rate, NOW + 0.4) == Excess(100)
    assert buckets.take("a", rate, NOW + 0.5) is None
    assert buckets.take("a", rate, NOW + 0.5) == Excess(500)


def test_a_bucket_does_not_overflow() -> None:
    """Who was silent for a year may not make up for it."""
    buckets, rate = Buckets[str](10), Rate(2, 3)
    takes(buckets, rate, NOW)
    assert takes(buckets, rate, NOW + 31_536_000) == 3


def test_what_does_not_count_is_given_back() -> None:
    """And is no gift: a full bucket does not become fuller."""
    buckets, rate = Buckets[str](10), Rate(1, 2)
    for _ in range(100):
        assert buckets.take("a", rate, NOW) is None
        buckets.give_back("a", rate)
    assert takes(buckets, rate, NOW) == 2
    buckets.give_back("b", rate)
    assert takes(buckets, rate, NOW, "b") == 2


def test_buckets_that_are_full_again_are_forgotten() -> None:
    """Two with each that is used, so that nobody waits for a sweep."""
    buckets, rate = Buckets[str](1000), Rate(1, 5)
    for number in range(500):
        buckets.take(str(number), rate, NOW)
    assert len(buckets) == 500
    for _ in range(250):
        buckets.take("new", rate, NOW + 10)
        assert "new" in buckets._full_at
    assert len(buckets) == 1


def test_no_more_are_remembered_than_may_be() -> None:
    """The one longest unheard of goes, full or not."""
    buckets, rate = Buckets[str](3), Rate(0.001, 1)
    for key in "abc":
        assert buckets.take(key, rate, NOW) is None
    assert buckets.take("d", rate, NOW) is None
    assert len(buckets) == 3
    assert buckets.take("b", rate, NOW) is not None
    assert buckets.take("a", rate, NOW) is None


def test_an_honest_busy_server_is_never_refused() -> None:
    """A hundred transactions a second, the state asked for with each of them, for ten minutes."""
    limiter = PeerLimiter()
    for tick in range(60_000):
        now = NOW + tick / 100
        assert limiter.ask("busy.example", Kind.TRANSACTION, now) is None
        assert limiter.ask("busy.example", Kind.READ, now) is None
        assert limiter.ask("busy.example", Kind.READ, now) is None
        assert limiter.ask("busy.example", Kind.QUERY, now) is None


def test_kinds_and_servers_are_limited_apart() -> None:
    """Whoever floods us with one thing can still do the others, and others can do all. Capitals are no other
    server."""
    limiter = PeerLimiter(PeerLimits(reads=Rate(1, 2), media=Rate(1, 1)))
    for name in ("a.example", "A.Example"):
        assert limiter.ask(name, Kind.READ, NOW) is None
    assert limiter.ask("a.EXAMPLE", Kind.READ, NOW) == Excess(1000)
    assert limiter.ask("a.example", Kind.TRANSACTION, NOW) is None
    assert limiter.ask("b.example", Kind.READ, NOW) is None
    assert limiter.ask("a.example", Kind.MEDIA, NOW) is None
    assert limiter.ask("a.example", Kind.MEDIA, NOW) is not None


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_has_a_limit(kind: Kind) -> None:
    """Each a bucket of its own size."""
    limits = PeerLimits(
        transactions=Rate(1, 1),
        memberships=Rate(1, 2),
        reads=Rate(1, 3),
        queries=Rate(1, 4),
        media=Rate(1, 5),
        unsigned=Rate(1, 6),
    )
    assert limits.of(kind).burst == list(Kind).index(kind) + 1


def test_who_signs_badly_is_soon_not_listened_to() -> None:
    """What was signed well does not count, however much of it there is."""
    limiter = PeerLimiter(PeerLimits(failures=Rate(1, 2)))
    for _ in range(1000):
        assert limiter.begin_trial(HERE, NOW) is None
        limiter.passed(HERE)
    assert [limiter.begin_trial(HERE, NOW) is None for _ in range(3)] == [True, True, False]
    assert limiter.begin_trial(ip_address("192.0.2.2"), NOW) is None
    # As soon as one may be tried again, and it is good, the next may too.
    for _ in range(10):
        assert limiter.begin_trial(HERE, NOW + 1) is None
        limiter.passed(HERE)


def test_what_nobody_signs_is_limited_by_address() -> None:
    """One network of IPv6 is one address: a host owns all of it."""
    limiter = PeerLimiter(PeerLimits(unsigned=Rate(1, 1)))
    first, second = ip_address("2001:db8::1"), ip_address("2001:db8::ffff:1")
    assert limiter.ask_unsigned(first, NOW) is None
    assert limiter.ask_unsigned(second, NOW) is not None
    assert limiter.ask_unsigned(ip_address("2001:db8:0:1::1"), NOW) is None


def test_an_address_that_many_share_is_not_limited_as_one() -> None:
    """Behind a reverse proxy everybody has the same one: a stranger would shut out all others."""
    shared = (ip_network("192.0.2.0/24"),)
    limiter = PeerLimiter(PeerLimits(failures=Rate(1, 1), unsigned=Rate(1, 1), shared_addresses=shared))
    for _ in range(100):
        assert limiter.begin_trial(HERE, NOW) is None
        assert limiter.ask_unsigned(HERE, NOW) is None
    assert PeerLimits().shared_addresses == (ip_network("127.0.0.0/8"), ip_network("::1/128"))
