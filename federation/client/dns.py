"""Asks the name servers: for SRV records, and for addresses where the configuration says whom to ask.

Turns names into addresses for aiohttp, and keeps it from connecting to those that nobody may be led to.
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
from federation.client.well_known import DEFAULT, SHORTEST
from federation.matrix.networks import Network, is_within, read_address

# Seconds: for one name server, and for an answer from any of them.
TRY: Final = 2.0
PATIENCE: Final = 8.0
# How long it is believed that name servers do not answer.
FAILED: Final = 60.0
# How long it is believed that a name has no records: it may be about to get some.
ABSENT: Final = 3600.0


class Dns:
    """`servers`: addresses and ports. Without any, those of the system, which may change while we run."""

    def __init__(self, servers: Sequence[tuple[str, int]] = (), *, patience: float = PATIENCE) -> None:
        self._servers = tuple(servers)
        self._patience = patience

    @property
    def is_configured(self) -> bool:
        return bool(self._servers)

    async def srv(self, name: str) -> SrvAnswer:
        try:
            answer = await self._resolver().resolve(dns.name.from_text(name), "SRV", search=False)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer, dns.name.LabelTooLong, dns.name.NameTooLong):
            return SrvAnswer((), ABSENT)
        except (dns.exception.DNSException, OSError):
            return SrvAnswer((), FAILED, failed=True)
        records = tuple(
            SrvRecord(record.priority, record.weight, record.port, record.target.to_text())
            for record in answer
        )
        return SrvAnswer(records, min(max(float(answer.chaining_result.minimum_ttl), SHORTEST), DEFAULT))

    async def addresses(self, host: str) -> list[str]:
        """The addresses of a name, of both families. Raises OSError where there are none."""
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
        """A new one each time: answers are kept elsewhere, and the system's servers may be others by now."""
        resolver = dns.asyncresolver.Resolver(configure=not self._servers)
        if self._servers:
            resolver.nameservers = [
                dns.nameserver.Do53Nameserver(address, port) for address, port in self._servers
            ]
        resolver.timeout = TRY
        resolver.lifetime = self._patience
        return resolver


class AddressBlocked(OSError):
    """The configuration forbids connecting to where the name leads."""


class Addresses(AbstractResolver):
    """`blocked`: networks that no other server may lead us into, by its DNS or its `.well-known`."""

    def __init__(self, dns: Dns, blocked: Sequence[Network] = ()) -> None:
        self._dns = dns
        self._blocked = tuple(blocked)
        # The system's own way, which also reads its list of hosts.
        self._system = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self.find(host, port, family)
        allowed = [one for one in found if not self.is_blocked(one["host"])]
        if not allowed:
            raise AddressBlocked(f"{host} leads to an address that is blocked")
        return allowed

    async def find(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Where the name leads, blocked or not. Raises OSError where it leads nowhere."""
        # RFC 6761, 6.3: `localhost` is not asked for.
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
