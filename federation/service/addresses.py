"""Turns names into addresses for aiohttp, and keeps it from connecting to those that nobody may be led to."""

import ipaddress
import socket
from collections.abc import Sequence

from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult

from federation.admission import Network, is_within, read_address
from federation.service.dns import Dns


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
