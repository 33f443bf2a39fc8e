"""Resolving names to addresses, and blocking some."""

from ipaddress import ip_network

import pytest

from federation.client.dns import AddressBlocked, AddressResolver, Dns
from tests.support.neighbourhood import Neighbourhood


def addresses_of(neighbourhood: Neighbourhood, *blocked: str) -> AddressResolver:
    dns = Dns([("127.0.0.1", neighbourhood.names.port)])
    return AddressResolver(dns, [ip_network(network) for network in blocked])


async def test_the_configured_name_servers_are_used(neighbourhood: Neighbourhood) -> None:
    """For every name but `localhost`, which means this machine."""
    neighbourhood.names.add("a.test", "A", "192.0.2.7")
    neighbourhood.names.add("a.test", "AAAA", "2001:db8::7")
    addresses = addresses_of(neighbourhood)
    found = await addresses.resolve("a.test", 8448)
    assert [(one["host"], one["port"]) for one in found] == [("2001:db8::7", 8448), ("192.0.2.7", 8448)]
    local = await addresses.resolve("localhost", 8448)
    assert {one["host"] for one in local} <= {"127.0.0.1", "::1"}
    assert ("localhost", "A") not in neighbourhood.names.asked


async def test_without_configured_name_servers_the_systems_resolver_is_used() -> None:
    """Including its hosts file."""
    found = await AddressResolver(Dns()).resolve("localhost", 80)
    assert found


async def test_blocked_addresses_are_left_out(neighbourhood: Neighbourhood) -> None:
    """The other addresses of a name remain."""
    neighbourhood.names.add("a.test", "A", "127.0.0.1", "192.0.2.7")
    neighbourhood.names.add("a.test", "AAAA", "::ffff:127.0.0.1")
    found = await addresses_of(neighbourhood, "127.0.0.0/8").resolve("a.test", 1)
    assert [one["host"] for one in found] == ["192.0.2.7"]


async def test_resolving_without_the_filter(neighbourhood: Neighbourhood) -> None:
    """Including blocked addresses; a name without addresses is an error."""
    neighbourhood.names.add("a.test", "A", "127.0.0.1", "192.0.2.7")
    addresses = addresses_of(neighbourhood, "127.0.0.0/8")
    assert {one["host"] for one in await addresses.resolve_unfiltered("a.test")} == {"127.0.0.1", "192.0.2.7"}
    with pytest.raises(OSError, match=r"b\.test has no address"):
        await addresses.resolve_unfiltered("b.test")


async def test_a_name_with_only_blocked_addresses_is_refused(neighbourhood: Neighbourhood) -> None:
    """Other servers' DNS must not direct this node into its own network."""
    neighbourhood.names.add("a.test", "A", "10.0.0.1")
    with pytest.raises(AddressBlocked):
        await addresses_of(neighbourhood, "10.0.0.0/8").resolve("a.test", 1)
    addresses = addresses_of(neighbourhood, "10.0.0.0/8", "::1/128")
    assert addresses.is_blocked("10.1.2.3")
    assert addresses.is_blocked("::ffff:10.1.2.3")
    assert addresses.is_blocked("::1")
    assert not addresses.is_blocked("11.0.0.1")
