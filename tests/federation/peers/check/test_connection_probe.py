"""Test connections to single addresses; `test_run` tests how they are used."""

import asyncio
import ssl

import pytest

from federation.client.server_discovery import Candidate
from federation.peers.check import connectivity as connection_probe
from federation.peers.check.connectivity import pinned_context, tls_handshake, unreachable, unverified_context
from federation.peers.check.facts import AddressProbe
from tests.support.loopback_server import raw_server
from tests.support.neighbourhood import Neighbourhood, answering
from tests.support.ports import lasting_port


def probe(port: int, address: str = "127.0.0.1") -> AddressProbe:
    return AddressProbe(Candidate("a.test", port), address)


async def test_an_address_that_listens_is_reachable(neighbourhood: Neighbourhood) -> None:
    """Nothing is sent on the connection."""
    server = await neighbourhood.server(answering({}), "a.test")
    assert await unreachable(probe(server.port)) is None
    assert await unreachable(probe(lasting_port())) == "connection refused"
    assert server.requests == []


async def test_a_certificate_is_read_whether_it_is_trusted_or_not(neighbourhood: Neighbourhood) -> None:
    """Trusted by an authority, not trusted, or trusted by pinning."""
    server = await neighbourhood.server(answering({}), "a.test")
    believing = ssl.create_default_context(cafile=neighbourhood.certificates.trusted)
    handshake, der = await tls_handshake(probe(server.port), "a.test", believing)
    assert (handshake.code, der is not None) == (None, True)
    handshake, seen = await tls_handshake(probe(server.port), "other.test", unverified_context())
    assert (handshake.version is not None, seen) == (True, der)
    handshake, none = await tls_handshake(probe(server.port), "a.test", ssl.create_default_context())
    assert (handshake.version, handshake.code, none) == (None, 20, None)
    assert der is not None
    for name, code in (("a.test", None), ("other.test", 62)):
        handshake, _ = await tls_handshake(probe(server.port), name, pinned_context(der))
        assert handshake.code == code
    # A pinned certificate does not make any other trusted.
    other = await neighbourhood.server(answering({}), "a.test")
    handshake, _ = await tls_handshake(probe(other.port), "a.test", pinned_context(der))
    assert handshake.code == 20


async def test_a_handshake_that_is_not_answered_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """An invalid handshake is reported as a problem."""
    monkeypatch.setattr(connection_probe, "TIMEOUT", 0.2)
    release = asyncio.Event()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()

    async def loud(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-nobody\r\n")
        await writer.drain()
        await reader.read(1)

    async with raw_server(mute, None) as silent, raw_server(loud, None) as speaking:
        handshake, _ = await tls_handshake(probe(silent), "a.test", unverified_context())
        assert handshake.problem == "no response"
        handshake, _ = await tls_handshake(probe(speaking), "a.test", unverified_context())
        assert (handshake.version, handshake.code) == (None, None)
        assert handshake.problem
        release.set()
