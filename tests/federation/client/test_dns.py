"""DNS queries to real name servers."""

import pytest

from federation.client.dns import ABSENCE_LIFETIME, FAILURE_LIFETIME, Dns
from federation.client.server_discovery import SrvAnswer
from federation.client.srv_records import SrvRecord
from federation.client.well_known import DEFAULT_LIFETIME, MIN_LIFETIME
from tests.support.name_server import NameServer
from tests.support.neighbourhood import Neighbourhood


def dns_of(names: NameServer, timeout: float = 5.0) -> Dns:
    return Dns([("127.0.0.1", names.port)], timeout=timeout)


async def test_srv_records_are_read(neighbourhood: Neighbourhood) -> None:
    """Unsorted; `srv_records` decides their order."""
    neighbourhood.names.add("_matrix-fed._tcp.a.test", "SRV", "10 5 8448 b.test.", "20 0 443 c.test.")
    answer = await dns_of(neighbourhood.names).srv("_matrix-fed._tcp.a.test")
    assert set(answer.records) == {SrvRecord(10, 5, 8448, "b.test."), SrvRecord(20, 0, 443, "c.test.")}
    assert (answer.lifetime, answer.failed) == (3600.0, False)


@pytest.mark.parametrize(("ttl", "lifetime"), [(0, MIN_LIFETIME), (400, 400.0), (10**6, DEFAULT_LIFETIME)])
async def test_the_lifetime_of_records(neighbourhood: Neighbourhood, ttl: int, lifetime: float) -> None:
    """Their TTL, within bounds."""
    neighbourhood.names.ttl = ttl
    neighbourhood.names.add("_matrix._tcp.a.test", "SRV", "0 0 1 b.test.")
    assert (await dns_of(neighbourhood.names).srv("_matrix._tcp.a.test")).lifetime == lifetime


async def test_no_record_is_an_answer(neighbourhood: Neighbourhood) -> None:
    """A name that does not exist, one without such records, and one that cannot exist."""
    neighbourhood.names.add("b.test", "A", "127.0.0.1")
    dns = dns_of(neighbourhood.names)
    for name in ("a.test", "b.test", f"{'x' * 64}.test", ".".join(["x" * 60] * 5)):
        assert await dns.srv(name) == SrvAnswer((), ABSENCE_LIFETIME)


@pytest.mark.parametrize("name", ["broken.test", "silent.test", "a..test"])
async def test_no_answer_is_a_failure(neighbourhood: Neighbourhood, name: str) -> None:
    """Which is not the same as no record, and is cached for a minute only."""
    neighbourhood.names.broken.add("broken.test")
    neighbourhood.names.silent.add("silent.test")
    assert await dns_of(neighbourhood.names, timeout=0.2).srv(name) == SrvAnswer((), FAILURE_LIFETIME, failed=True)


async def test_addresses_of_both_families(neighbourhood: Neighbourhood) -> None:
    """Through the same name servers; IPv6 first."""
    neighbourhood.names.add("a.test", "A", "127.0.0.1", "127.0.0.2")
    neighbourhood.names.add("a.test", "AAAA", "::1")
    found = await dns_of(neighbourhood.names).addresses("a.test")
    assert found[0] == "::1"
    assert set(found) == {"::1", "127.0.0.1", "127.0.0.2"}


async def test_a_name_without_address_raises_oserror(neighbourhood: Neighbourhood) -> None:
    """Like the system's resolver, so that aiohttp handles it."""
    neighbourhood.names.broken.add("broken.test")
    for name in ("nowhere.test", "broken.test"):
        with pytest.raises(OSError, match="no address"):
            await dns_of(neighbourhood.names).addresses(name)


async def test_without_servers_the_systems_name_servers_are_used() -> None:
    """There may be none in a test environment; that is a failure and no crash."""
    dns = Dns(timeout=0.2)
    assert not dns.is_configured
    answer = await dns.srv("_matrix-fed._tcp.invalid")
    assert answer.records == ()
