"""DNS queries: SRV records, and addresses if name servers are configured.

`AddressResolver` resolves names for aiohttp, and prevents connections to blocked networks.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from typing import Final

import dns.asyncresolver
import dns.exception
import dns.name
import dns.nameserver
import dns.rdatatype
import dns.resolver
from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult

from federation.client.server_discovery import SrvAnswer
from federation.client.srv_records import SrvRecord
from federation.client.well_known import DEFAULT_LIFETIME, MIN_LIFETIME
from federation.matrix.networks import Network, is_within, read_address

# Seconds to wait for one name server, and for any of them.
TRY_TIMEOUT: Final = 2.0
TIMEOUT: Final = 8.0
# Seconds for which a failure of the name servers is cached.
FAILURE_LIFETIME: Final = 60.0
# Seconds for which the absence of records is cached; they may be added soon.
ABSENCE_LIFETIME: Final = 3600.0


class Dns:
    """Queries name servers. `servers` are addresses and ports; without any, those of the system are used,
    which may change while this program runs."""

    def __init__(self, servers: Sequence[tuple[str, int]] = (), *, timeout: float = TIMEOUT) -> None:
        self._servers = tuple(servers)
        self._timeout = timeout

    @property
    def is_configured(self) -> bool:
        return bool(self._servers)

    async def srv(self, name: str) -> SrvAnswer:
        try:
            answer = await self._resolver().resolve(dns.name.from_text(name), "SRV", search=False)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer, dns.name.LabelTooLong, dns.name.NameTooLong):
            return SrvAnswer((), ABSENCE_LIFETIME)
        except (dns.exception.DNSException, OSError):
            return SrvAnswer((), FAILURE_LIFETIME, failed=True)
        records = tuple(
            SrvRecord(record.priority, record.weight, record.port, record.target.to_text()) for record in answer
        )
        return SrvAnswer(records, min(max(float(answer.chaining_result.minimum_ttl), MIN_LIFETIME), DEFAULT_LIFETIME))

    async def addresses(self, host: str) -> list[str]:
        """The addresses of a name, of both families. Raises OSError if there are none."""
        found = await asyncio.gather(*(self._addresses(host, kind) for kind in ("AAAA", "A")))
        if not any(found):
            raise OSError(f"{host} has no address")
        return [address for kind in found for address in kind]

    async def _addresses(self, host: str, kind: str) -> list[str]:
        try:
            answer = await self._resolver().resolve(dns.name.from_text(host), kind, search=False)
        except (dns.exception.DNSException, OSError):
            return []
        return [str(ipaddress.ip_address(record.address)) for record in answer]

    def _resolver(self) -> dns.asyncresolver.Resolver:
        """Create a resolver for each query: results are cached elsewhere, and the system's name servers may
        have changed."""
        resolver = dns.asyncresolver.Resolver(configure=not self._servers)
        if self._servers:
            resolver.nameservers = [dns.nameserver.Do53Nameserver(address, port) for address, port in self._servers]
        resolver.timeout = TRY_TIMEOUT
        resolver.lifetime = self._timeout
        return resolver


class AddressBlocked(OSError):
    """The name resolves to an address to which the configuration forbids connections."""


class AddressResolver(AbstractResolver):
    """Resolves names for aiohttp. `blocked`: networks to which no connection is made, so that other servers
    cannot direct this server into them by their DNS records or `.well-known`."""

    def __init__(self, dns: Dns, blocked: Sequence[Network] = ()) -> None:
        self._dns = dns
        self._blocked = tuple(blocked)
        # The system's resolver, which also reads the hosts file.
        self._system = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self.resolve_unfiltered(host, port, family)
        allowed = [one for one in found if not self.is_blocked(one["host"])]
        if not allowed:
            raise AddressBlocked(f"{host} resolves to a blocked address")
        return allowed

    async def resolve_unfiltered(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Resolve a name, including blocked addresses. Raises OSError if it has no address."""
        # RFC 6761, 6.3: `localhost` is not sent to name servers.
        if self._dns.is_configured and host.lower() != "localhost":
            return [_result(host, address, port) for address in await self._dns.addresses(host)]
        return await self._system.resolve(host, port, family)

    def is_blocked(self, address: str) -> bool:
        return is_within(read_address(address), self._blocked)

    async def close(self) -> None:
        await self._system.close()


def _result(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
    return ResolveResult(
        hostname=host,
        host=address,
        port=port,
        family=family,
        proto=socket.IPPROTO_TCP,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )
