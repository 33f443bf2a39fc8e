"""Limits of connections and of memory for bodies."""

from ipaddress import ip_address

from hypothesis import given
from hypothesis import strategies as st

from federation.http.server.capacity import Budget, Capacity, ConnectionSlot, Limits
from federation.matrix.networks import Refusal

HOSTS = [ip_address(f"192.0.2.{number}") for number in range(4)]


def test_the_number_of_connections_is_limited() -> None:
    """In total, and for each address."""
    capacity = Capacity(Limits(max_connections=3, max_connections_per_address=2))
    first = capacity.acquire(HOSTS[0])
    assert isinstance(first, ConnectionSlot)
    assert isinstance(capacity.acquire(HOSTS[0]), ConnectionSlot)
    assert capacity.acquire(HOSTS[0]) is Refusal.TOO_MANY_FROM_ADDRESS
    assert isinstance(capacity.acquire(HOSTS[1]), ConnectionSlot)
    assert capacity.acquire(HOSTS[2]) is Refusal.TOO_MANY
    first.release()
    assert isinstance(capacity.acquire(HOSTS[2]), ConnectionSlot)


def test_a_slot_is_released_once() -> None:
    """However often a connection ends."""
    capacity = Capacity(Limits(max_connections=2))
    one, other = capacity.acquire(HOSTS[0]), capacity.acquire(HOSTS[0])
    assert isinstance(one, ConnectionSlot)
    assert isinstance(other, ConnectionSlot)
    one.release()
    one.release()
    assert capacity.used == 1


@given(st.lists(st.tuples(st.sampled_from(HOSTS), st.booleans())))
def test_the_counts_match_the_held_slots(steps: list[tuple[object, bool]]) -> None:
    """After any sequence; addresses without connections are removed."""
    capacity = Capacity(Limits(max_connections=6, max_connections_per_address=2))
    held: dict[object, list[ConnectionSlot]] = {host: [] for host in HOSTS}
    for host, takes in steps:
        if takes:
            place = capacity.acquire(host)  # type: ignore[arg-type]  # sampled_from loses the type
            full = sum(map(len, held.values())) == 6 or len(held[host]) == 2
            assert isinstance(place, Refusal) is full
            if isinstance(place, ConnectionSlot):
                held[host].append(place)
        elif held[host]:
            held[host].pop().release()
    assert capacity.used == sum(map(len, held.values()))
    assert len(capacity._used) == sum(bool(places) for places in held.values())


def test_a_budget_is_reserved_and_released() -> None:
    """An amount that exceeds the rest reserves nothing."""
    budget = Budget(10)
    assert budget.reserve(7)
    assert not budget.reserve(4)
    assert budget.reserve(3)
    budget.release(7)
    assert budget.left == 7
