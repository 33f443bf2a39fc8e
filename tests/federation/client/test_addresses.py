"""Names become addresses, and some addresses nobody is led to."""

from ipaddress import ip_network

import pytest

from federation.client.dns import AddressBlocked, AddressResolver, Dns
from tests.support.neighbourhood import Neighbourhood


def addresses_of(neighbourhood: Neighbourhood, *blocked: str) -> AddressResolver:
    dns = Dns([("127.0.0.1", neighbourhood.names.port)])
    return AddressResolver(dns, [ip_network(network) for network in blocked])


async def test_the_configured_servers_are_asked(neighbourhood: Neighbourhood) -> None:
    """For every name but `localhost`, which means this machine."""
    neighbourhood.names.add("a.test", "A", "192.0.2.7")
    neighbourhood.names.add("a.test", "AAAA", "2001:db8::7")
    addresses = addresses_of(neighbourhood)
    found = await addresses.resolve("a.test", 8448)
    assert [(one["host"], one["port"]) for one in found] == [("2001:db8::7", 8448), ("192.0.2.7", 8448)]
    local = await addresses.resolve("localhost", 8448)
    assert {one["host"] for one in local} <= {"127.0.0.1", "::1"}
    assert ("localhost", "A") not in neighbourhood.names.asked


async def test_without_configured_servers_the_system_is_asked() -> None:
    """Its list of hosts counts then."""
    found = await AddressResolver(Dns()).resolve("localhost", 80)
    assert found


async def test_blocked_addresses_are_left_out(neighbourhood: Neighbourhood) -> None:
    """Those of a name that are allowed remain."""
    neighbourhood.names.add("a.test", "A", "127.0.0.1", "192.0.2.7")
    neighbourhood.names.add("a.test", "AAAA", "::ffff:127.0.0.1")
    found = await addresses_of(neighbourhood, "127.0.0.0/8").resolve("a.test", 1)
    assert [one["host"] for one in found] == ["192.0.2.7"]


async def test_all_addresses_are_found_for_whoever_only_looks(neighbourhood: Neighbourhood) -> None:
    """Blocked or not; and where there is none that is an error."""
    neighbourhood.names.add("a.test", "A", "127.0.0.1", "192.0.2.7")
    addresses = addresses_of(neighbourhood, "127.0.0.0/8")
    assert {one["host"] for one in await addresses.resolve_unfiltered("a.test")} == {"127.0.0.1", "192.0.2.7"}
    with pytest.raises(OSError, match=r"b\.test has no address"):
        await addresses.resolve_unfiltered("b.test")


async def test_a_name_that_leads_only_to_blocked_ones_is_refused(neighbourhood: Neighbourhood) -> None:
    """A stranger's DNS must not make this node knock at doors inside its own network."""
    neighbourhood.names.add("a.test", "A", "10.0.0.1")
    with pytest.raises(AddressBlocked):
        await addresses_of(neighbourhood, "10.0.0.0/8").resolve("a.test", 1)
    addresses = addresses_of(neighbourhood, "10.0.0.0/8", "::1/128")
    assert addresses.is_blocked("10.1.2.3")
    assert addresses.is_blocked("::ffff:10.1.2.3")
    assert addresses.is_blocked("::1")
    assert not addresses.is_blocked("11.0.0.1")
