"""How many connections there may be, in all and from one address. Counting only; nobody waits here."""

from collections import Counter

from federation.admission import Address, Network, Refusal, neighbourhood
from federation.wire.limits import Limits


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
