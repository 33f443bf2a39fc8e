"""How many connections there may be, in all and from one address. Counting only; nobody waits here.

How much one peer, and all of them together, may ask of the port. What is crossed ends in a clear error.
"""

from collections import Counter
from dataclasses import dataclass

from federation.matrix.networks import Address, Network, Refusal, neighbourhood

KIB = 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes, times in seconds."""

    # One line of a request's head: the request line, or one field. A backfill of many events has a long line.
    max_line: int = 16 * KIB
    max_fields: int = 100
    # The head as a whole.
    max_head: int = 32 * KIB
    # As Synapse: 200 events of 64 KiB. A full transaction has 50, and 100 EDUs.
    max_body: int = 200 * 64 * KIB
    # The bodies of all requests together that are neither in small pieces nor answered yet.
    max_bodies: int = 512 * KIB * KIB

    max_connections: int = 2000
    max_connections_per_address: int = 200
    # Connections beyond those that are kept a moment to be told why; more are closed without a word.
    max_farewells: int = 64

    # Whether it will be TLS or HTTP: the connection's first byte.
    first_byte_timeout: float = 10.0
    handshake_timeout: float = 10.0
    tls_shutdown_timeout: float = 3.0
    # The first byte of a request inside TLS, and a whole head from its first byte.
    head_timeout: float = 10.0
    body_timeout: float = 60.0
    # A body has to bring at least so much in every stretch of so many seconds.
    body_progress: int = KIB
    body_progress_timeout: float = 10.0
    # The beginning of an answer, from the end of its request. It ends only what hangs.
    answer_timeout: float = 300.0
    idle_timeout: float = 75.0
    # A peer that stops reading its answer.
    stall_timeout: float = 60.0
    # After a last answer: what is still coming is read and dropped, or a reset would eat the answer.
    linger_timeout: float = 2.0


class Capacity:
    """The places on one port."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._taken: Counter[Network] = Counter()
        self.taken = 0

    def take(self, address: Address) -> "Place | Refusal":
        """A place for a connection from there, or why there is none."""
        who = neighbourhood(address)
        if self.taken >= self._limits.max_connections:
            return Refusal.TOO_MANY
        if self._taken[who] >= self._limits.max_connections_per_address:
            return Refusal.TOO_MANY_FROM_ADDRESS
        self.taken += 1
        self._taken[who] += 1
        return Place(self, who)

    def give_back(self, who: Network) -> None:
        self.taken -= 1
        self._taken[who] -= 1
        if not self._taken[who]:
            # Addresses are without number; those that left are forgotten.
            del self._taken[who]


class Place:
    """One connection's. Giving it back twice counts once: a connection can end on more than one way."""

    __slots__ = ("_capacity", "_held", "_who")

    def __init__(self, capacity: Capacity, who: Network) -> None:
        self._capacity = capacity
        self._who = who
        self._held = True

    def give_back(self) -> None:
        if self._held:
            self._held = False
            self._capacity.give_back(self._who)


class Budget:
    """A quantity that several share, such as the memory for bodies that are still arriving."""

    def __init__(self, whole: int) -> None:
        self.left = whole

    def take(self, amount: int) -> bool:
        """Whether there was enough left."""
        if amount > self.left:
            return False
        self.left -= amount
        return True

    def give_back(self, amount: int) -> None:
        self.left += amount
