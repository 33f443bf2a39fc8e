"""Asks the name servers: for SRV records, and for addresses where the configuration says whom to ask."""

import asyncio
import ipaddress
from collections.abc import Sequence
from typing import Final

import dns.asyncresolver
import dns.exception
import dns.name
import dns.nameserver
import dns.rdatatype
import dns.resolver

from federation.server_discovery import SrvAnswer
from federation.srv_records import SrvRecord
from federation.well_known import DEFAULT, SHORTEST

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
