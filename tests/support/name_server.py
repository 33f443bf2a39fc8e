"""A name server on loopback: real packets, and a zone that the test defines."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset


@dataclass
class NameServer:
    """`records` has the answers by name and type, `broken` the names answered with SERVFAIL, and `silent` the
    names that are not answered. Any other name does not exist."""

    records: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    ttl: int = 3600
    asked: "Counter[tuple[str, str]]" = field(default_factory=Counter)
    port: int = 0

    def add(self, name: str, kind: str, *values: str) -> None:
        self.records[name, kind] = list(values)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["NameServer"]:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: _Protocol(self), local_addr=("127.0.0.1", 0))
        self.port = transport.get_extra_info("sockname")[1]
        try:
            yield self
        finally:
            transport.close()

    def answer(self, packet: bytes) -> bytes | None:
        try:
            query = dns.message.from_wire(packet)
        except dns.exception.DNSException:
            return None
        question = query.question[0]
        name = question.name.to_text(omit_final_dot=True).lower()
        kind = dns.rdatatype.to_text(question.rdtype)
        self.asked[name, kind] += 1
        if name in self.silent:
            return None
        response = dns.message.make_response(query)
        response.flags |= dns.flags.RA
        if name in self.broken:
            response.set_rcode(dns.rcode.SERVFAIL)
        elif values := self.records.get((name, kind)):
            response.answer.append(dns.rrset.from_text_list(question.name, self.ttl, "IN", kind, values))
        elif not any(known == name for known, _ in self.records):
            response.set_rcode(dns.rcode.NXDOMAIN)
        return response.to_wire()


class _Protocol(asyncio.DatagramProtocol):
    def __init__(self, server: NameServer) -> None:
        self._server = server

    def connection_made(self, transport: Any) -> None:
        # asyncio's own datagram transport is no `DatagramTransport` before Python 3.12.
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        answer = self._server.answer(data)
        if answer is not None:
            self._transport.sendto(answer, addr)
