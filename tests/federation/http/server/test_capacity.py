from ipaddress import ip_address

from hypothesis import given
from hypothesis import strategies as st

from federation.http.server.capacity import Budget, Capacity, ConnectionSlot, Limits
from federation.matrix.networks import Refusal

HOSTS = [ip_address(f"192.0.2.{number}") for number in range(4)]


def test_there_are_so_many_places_and_no_more() -> None:
    """The limit over all comes first, then the one per address."""
    capacity = Capacity(Limits(max_connections=3, max_connections_per_address=2))
    first = capacity.acquire(HOSTS[0])
    assert isinstance(first, ConnectionSlot)
    assert isinstance(capacity.acquire(HOSTS[0]), ConnectionSlot)
    assert capacity.acquire(HOSTS[0]) is Refusal.TOO_MANY_FROM_ADDRESS
    assert isinstance(capacity.acquire(HOSTS[1]), ConnectionSlot)
    assert capacity.acquire(HOSTS[2]) is Refusal.TOO_MANY
    first.release()
    assert isinstance(capacity.acquire(HOSTS[2]), ConnectionSlot)


def test_a_place_is_given_back_once() -> None:
    """However many ways a connection ends on, it held one place."""
    capacity = Capacity(Limits(max_connections=2))
    one, other = capacity.acquire(HOSTS[0]), capacity.acquire(HOSTS[0])
    assert isinstance(one, ConnectionSlot)
    assert isinstance(other, ConnectionSlot)
    one.release()
    one.release()
    assert capacity.used == 1


@given(st.lists(st.tuples(st.sampled_from(HOSTS), st.booleans())))
def test_the_counts_are_those_of_the_places_held(steps: list[tuple[object, bool]]) -> None:
    """After any taking and giving back; and an address without connections is forgotten."""
    capacity = Capacity(Limits(max_connections=6, max_connections_per_address=2))
    held: dict[object, list[ConnectionSlot]] = {host: [] for host in HOSTS}
    for host, takes in steps:
        if takes:
            place = capacity.acquire(host)  # type: ignore[arg-type]  # sampled_from has lost the type
            full = sum(map(len, held.values())) == 6 or len(held[host]) == 2
            assert isinstance(place, Refusal) is full
            if isinstance(place, ConnectionSlot):
                held[host].append(place)
        elif held[host]:
            held[host].pop().release()
    assert capacity.used == sum(map(len, held.values()))
    assert len(capacity._used) == sum(bool(places) for places in held.values())


def test_a_budget_is_spent_and_returned() -> None:
    """What does not fit is not taken at all."""
    budget = Budget(10)
    assert budget.reserve(7)
    assert not budget.reserve(4)
    assert budget.reserve(3)
    budget.release(7)
    assert budget.left == 7
