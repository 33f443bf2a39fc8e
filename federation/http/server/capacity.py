"""Limits of the port, and the counting of connections and of memory for request bodies.

A peer that exceeds a limit gets an error.
"""

from collections import Counter
from dataclasses import dataclass

from federation.matrix.networks import Address, Network, Refusal, limited_network

KIB = 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes, times in seconds."""

    # One line of a request's head: the request line or one field. A backfill of many events has a long
    # line.
    max_line: int = 16 * KIB
    max_fields: int = 100
    # The whole head.
    max_head: int = 32 * KIB
    # As Synapse: 200 events of 64 KiB. A full transaction has 50, and 100 EDUs.
    max_body: int = 200 * 64 * KIB
    # The bodies of all requests in progress together, except small ones.
    max_bodies: int = 512 * KIB * KIB

    max_connections: int = 2000
    max_connections_per_address: int = 200
    # Refused connections that get an error at the same time; others are closed without a response.
    max_refusal_responses: int = 64

    # Time until the connection's first byte, which decides between TLS and HTTP.
    first_byte_timeout: float = 10.0
    handshake_timeout: float = 10.0
    tls_shutdown_timeout: float = 3.0
    # Time until the first byte of a request inside TLS, and from the first byte of a head until its end.
    head_timeout: float = 10.0
    body_timeout: float = 60.0
    # At least `body_progress` bytes of a body must arrive in each `body_progress_timeout` seconds.
    body_progress: int = KIB
    body_progress_timeout: float = 10.0
    # Time from the end of a request to the beginning of its response. Only handlers that hang exceed it.
    response_timeout: float = 300.0
    idle_timeout: float = 75.0
    # For a peer that stops reading its response.
    stall_timeout: float = 60.0
    # After the last response: received bytes are dropped for so long, because closing earlier would send a
    # reset and discard the response.
    linger_timeout: float = 2.0


class Capacity:
    """Counts the connections of one port, in total and for each network of addresses."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._used: Counter[Network] = Counter()
        self.used = 0

    def acquire(self, address: Address) -> "ConnectionSlot | Refusal":
        """Return a slot for a connection from the address, or the reason for refusing it."""
        network = limited_network(address)
        if self.used >= self._limits.max_connections:
            return Refusal.TOO_MANY
        if self._used[network] >= self._limits.max_connections_per_address:
            return Refusal.TOO_MANY_FROM_ADDRESS
        self.used += 1
        self._used[network] += 1
        return ConnectionSlot(self, network)

    def release(self, network: Network) -> None:
        self.used -= 1
        self._used[network] -= 1
        if not self._used[network]:
            # There are too many possible addresses to keep those without connections.
            del self._used[network]


class ConnectionSlot:
    """The slot of one connection. Releasing it twice counts once: a connection can end in several ways."""

    __slots__ = ("_capacity", "_held", "_network")

    def __init__(self, capacity: Capacity, network: Network) -> None:
        self._capacity = capacity
        self._network = network
        self._held = True

    def release(self) -> None:
        if self._held:
            self._held = False
            self._capacity.release(self._network)


class Budget:
    """A shared quantity, such as the memory for request bodies in progress."""

    def __init__(self, whole: int) -> None:
        self.left = whole

    def reserve(self, amount: int) -> bool:
        """Reserve the amount if enough is left. Return whether it was."""
        if amount > self.left:
            return False
        self.left -= amount
        return True

    def release(self, amount: int) -> None:
        self.left += amount
