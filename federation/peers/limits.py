"""Rate limits for requests of other servers: per authenticated server, and per address for all others.

Each limit is a token bucket: it allows a burst, and a steady rate in the long run.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from federation.matrix.networks import LOOPBACK, Address, Network, is_within, limited_network
from federation.peers.actions import RequestKind

K = TypeVar("K")

_MICROSECONDS: Final = 1_000_000
_PRUNED_PER_TAKE: Final = 2


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate limit: `per_second` requests in the long run, and up to `burst` at once."""

    per_second: float
    burst: int

    @property
    def interval(self) -> int:
        """Microseconds until the bucket has one more token."""
        return round(_MICROSECONDS / self.per_second)


@dataclass(frozen=True, slots=True)
class PeerLimits:
    """The rate limits. The defaults do not hinder an honest, very busy server; they stop endless request
    loops.

    The first five apply to each authenticated server; the other two to each address (of IPv6, each /64),
    since the server is not known.
    """

    # A server sends them one after the other: a busy one sends a hundred transactions of 50 events per
    # second, or several hundred small ones.
    transactions: Rate = Rate(500, 5_000)
    # Templates, joins, leaves, knocks, invites. A user may invite a thousand others at once.
    memberships: Rate = Rate(100, 2_000)
    # Events, states and auth chains. A Synapse under load requests one state with each transaction.
    reads: Rate = Rate(500, 5_000)
    # Profiles, aliases, public rooms, devices.
    queries: Rate = Rate(200, 2_000)
    media: Rate = Rate(100, 1_000)
    # Requests that need no signature: this server's keys, the notary, the version.
    unsigned: Rate = Rate(50, 500)
    # Requests that failed authentication. Each makes this server verify a signature, and perhaps fetch a key.
    # The burst equals the number of connections that an address may have, since requests count as failures
    # until they are authenticated.
    failures: Rate = Rate(2, 200)
    # Addresses that many servers share, such as that of a reverse proxy. They are not limited.
    shared_addresses: tuple[Network, ...] = LOOPBACK
    # Number of servers and addresses that are tracked. Beyond it the least recently active one starts with a
    # full bucket again.
    max_tracked: int = 20_000

    def of(self, kind: RequestKind) -> Rate:
        """The limit of a kind of request."""
        match kind:
            case RequestKind.TRANSACTION:
                return self.transactions
            case RequestKind.MEMBERSHIP:
                return self.memberships
            case RequestKind.READ:
                return self.reads
            case RequestKind.QUERY:
                return self.queries
            case RequestKind.MEDIA:
                return self.media
            case RequestKind.OPEN:
                return self.unsigned


@dataclass(frozen=True, slots=True)
class RateExceeded:
    """The limit is exceeded: the milliseconds until the next request is allowed."""

    retry_after_ms: int


class Buckets(Generic[K]):
    """A token bucket for each key, initially full. Full buckets are removed, since they equal new ones.

    A bucket is stored as the time at which it will be full again. Times are seconds of a monotonic clock.
    """

    def __init__(self, most: int) -> None:
        assert most > 0, "at least one key must be tracked"
        self._most = most
        self._full_at: OrderedDict[K, int] = OrderedDict()

    def take(self, key: K, rate: Rate, now: float) -> RateExceeded | None:
        """Take a token from the key's bucket, unless it is empty."""
        micro, interval = round(now * _MICROSECONDS), rate.interval
        full_at = max(self._full_at.get(key, micro), micro)
        over = full_at + interval - micro - rate.burst * interval
        self._full_at[key] = full_at if over > 0 else full_at + interval
        self._full_at.move_to_end(key)
        self._prune(micro)
        return RateExceeded(-(-over // 1000)) if over > 0 else None

    def give_back(self, key: K, rate: Rate) -> None:
        """Return a token that was taken."""
        if key in self._full_at:
            self._full_at[key] -= rate.interval

    def _prune(self, micro: int) -> None:
        # Each use of a bucket removes up to two that are full. So all of them are removed in time, without a
        # delay.
        for _ in range(_PRUNED_PER_TAKE):
            oldest = next(iter(self._full_at))
            if self._full_at[oldest] > micro and len(self._full_at) <= self._most:
                return
            del self._full_at[oldest]

    def __len__(self) -> int:
        return len(self._full_at)


@dataclass(slots=True)
class PeerLimiter:
    """The token buckets of all servers and addresses."""

    limits: PeerLimits = field(default_factory=PeerLimits)
    _of_servers: Buckets[tuple[str, RequestKind]] = field(init=False)
    _unsigned: Buckets[Network] = field(init=False)
    _failures: Buckets[Network] = field(init=False)

    def __post_init__(self) -> None:
        self._of_servers = Buckets(self.limits.max_tracked)
        self._unsigned = Buckets(self.limits.max_tracked)
        self._failures = Buckets(self.limits.max_tracked)

    def take(self, server: str, kind: RequestKind, now: float) -> RateExceeded | None:
        """Count an authenticated request. Server names are compared without regard to case."""
        return self._of_servers.take((server.lower(), kind), self.limits.of(kind), now)

    def is_shared(self, address: Address) -> bool:
        """Whether the address is shared by many servers, and therefore not limited."""
        return is_within(address, self.limits.shared_addresses)

    def take_unsigned(self, address: Address, now: float) -> RateExceeded | None:
        """Count a request that needs no signature."""
        if self.is_shared(address):
            return None
        return self._unsigned.take(limited_network(address), self.limits.unsigned, now)

    def begin_authentication(self, address: Address, now: float) -> RateExceeded | None:
        """Count a request that must be signed as a failure, until `authentication_succeeded`."""
        if self.is_shared(address):
            return None
        return self._failures.take(limited_network(address), self.limits.failures, now)

    def authentication_succeeded(self, address: Address) -> None:
        """Do not count an authenticated request as a failure."""
        self._failures.give_back(limited_network(address), self.limits.failures)
