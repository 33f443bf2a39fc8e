"""How much one server may ask of this one, and how much whoever has not shown who he is.

Each limit is a bucket that refills steadily: a burst is let through, and in the long run so many a second.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from federation.matrix.networks import LOOPBACK, Address, Network, is_within, limited_network
from federation.peers.acts import Kind

K = TypeVar("K")

_MICROSECONDS: Final = 1_000_000
_FORGOTTEN_AT_ONCE: Final = 2


@dataclass(frozen=True, slots=True)
class Rate:
    """`per_second` in the long run, and up to `burst` at once."""

    per_second: float
    burst: int

    @property
    def interval(self) -> int:
        """Microseconds after which there is one more."""
        return round(_MICROSECONDS / self.per_second)


@dataclass(frozen=True, slots=True)
class PeerLimits:
    """The defaults are no hindrance to a server that is honest and very busy; they end what would never end.

    The first five are for one server each, whose signature has been verified; the other two for one address
    (of IPv6, one /64), whoever it says it is.
    """

    # A server sends them one after the other: a busy one a hundred a second of 50 events each, or several
    # hundred small ones.
    transactions: Rate = Rate(500, 5_000)
    # Templates, joins, leaves, knocks, invites. Somebody may invite a thousand users at once.
    memberships: Rate = Rate(100, 2_000)
    # Events, states and auth chains. A Synapse under load asks for one state with each transaction.
    reads: Rate = Rate(500, 5_000)
    # Profiles, aliases, public rooms, devices.
    queries: Rate = Rate(200, 2_000)
    media: Rate = Rate(100, 1_000)
    # What nobody has to sign: our keys, the keys of others, the version.
    unsigned: Rate = Rate(50, 500)
    # Requests that had to be signed and were not, or not as they should have been. Each makes this server
    # check a signature, and perhaps fetch a key. As many at once as one address may have connections: those
    # under way count until they are known to be good.
    failures: Rate = Rate(2, 200)
    # Addresses behind which many servers stand, such as that of a reverse proxy: not limited as one.
    shared_addresses: tuple[Network, ...] = LOOPBACK
    # How many servers and addresses are told apart. Beyond that the one longest unheard of begins anew.
    most_remembered: int = 20_000

    def of(self, kind: Kind) -> Rate:
        """The limit of a kind of request."""
        match kind:
            case Kind.TRANSACTION:
                return self.transactions
            case Kind.MEMBERSHIP:
                return self.memberships
            case Kind.READ:
                return self.reads
            case Kind.QUERY:
                return self.queries
            case Kind.MEDIA:
                return self.media
            case Kind.OPEN:
                return self.unsigned


@dataclass(frozen=True, slots=True)
class Excess:
    """Too much: how long to wait for the next one to be let through."""

    retry_after_ms: int


class Buckets(Generic[K]):
    """A bucket for each key, all full at first. One that is full again is forgotten: it is like a new one.

    What is kept of a bucket is the moment at which it will be full again. Times are seconds of a clock that
    never runs backwards.
    """

    def __init__(self, most: int) -> None:
        assert most > 0, "somebody must be told apart"
        self._most = most
        self._full_at: OrderedDict[K, int] = OrderedDict()

    def take(self, key: K, rate: Rate, now: float) -> Excess | None:
        """One more, unless that is too much."""
        micro, interval = round(now * _MICROSECONDS), rate.interval
        full_at = max(self._full_at.get(key, micro), micro)
        over = full_at + interval - micro - rate.burst * interval
        self._full_at[key] = full_at if over > 0 else full_at + interval
        self._full_at.move_to_end(key)
        self._forget(micro)
        return Excess(-(-over // 1000)) if over > 0 else None

    def give_back(self, key: K, rate: Rate) -> None:
        """One that does not count after all."""
        if key in self._full_at:
            self._full_at[key] -= rate.interval

    def _forget(self, micro: int) -> None:
        # With each one that is used two that are not: so all go in time, and nobody has to wait for it.
        for _ in range(_FORGOTTEN_AT_ONCE):
            oldest = next(iter(self._full_at))
            if self._full_at[oldest] > micro and len(self._full_at) <= self._most:
                return
            del self._full_at[oldest]

    def __len__(self) -> int:
        return len(self._full_at)


@dataclass(slots=True)
class PeerLimiter:
    """The buckets of all servers and addresses."""

    limits: PeerLimits = field(default_factory=PeerLimits)
    _of_servers: Buckets[tuple[str, Kind]] = field(init=False)
    _unsigned: Buckets[Network] = field(init=False)
    _trials: Buckets[Network] = field(init=False)

    def __post_init__(self) -> None:
        self._of_servers = Buckets(self.limits.most_remembered)
        self._unsigned = Buckets(self.limits.most_remembered)
        self._trials = Buckets(self.limits.most_remembered)

    def ask(self, server: str, kind: Kind, now: float) -> Excess | None:
        """A request that this server has signed. In capitals it is the same server."""
        return self._of_servers.take((server.lower(), kind), self.limits.of(kind), now)

    def is_shared(self, address: Address) -> bool:
        """Whether it is not limited as one."""
        return is_within(address, self.limits.shared_addresses)

    def ask_unsigned(self, address: Address, now: float) -> Excess | None:
        """A request that nobody has to sign."""
        if self.is_shared(address):
            return None
        return self._unsigned.take(limited_network(address), self.limits.unsigned, now)

    def begin_trial(self, address: Address, now: float) -> Excess | None:
        """A request that must be signed, and counts as badly signed until it is shown to be good."""
        if self.is_shared(address):
            return None
        return self._trials.take(limited_network(address), self.limits.failures, now)

    def passed(self, address: Address) -> None:
        """The request of a trial was signed by whom it named."""
        self._trials.give_back(limited_network(address), self.limits.failures)
