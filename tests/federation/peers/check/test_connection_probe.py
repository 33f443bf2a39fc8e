"""Single connections; `test_peer_check` shows what is made of them."""

import asyncio
import ssl

import pytest

from federation.client.server_discovery import Candidate
from federation.peers.check import connectivity as connection_probe
from federation.peers.check.connectivity import pinning, shake_hands, trusting, unreachable
from federation.peers.check.facts import Place
from tests.support.loopback_server import raw_server
from tests.support.neighbourhood import Neighbourhood, answering
from tests.support.ports import lasting_port


def place(port: int, address: str = "127.0.0.1") -> Place:
    return Place(Candidate("a.test", port), address)


async def test_who_listens_is_reached(neighbourhood: Neighbourhood) -> None:
    """And nothing is said to him."""
    server = await neighbourhood.server(answering({}), "a.test")
    assert await unreachable(place(server.port)) is None
    assert await unreachable(place(lasting_port())) == "connection refused"
    assert server.requests == []


async def test_a_certificate_is_seen_whether_it_is_believed_or_not(neighbourhood: Neighbourhood) -> None:
    """By everybody, by nobody, or by whoever has been told of this very one."""
    server = await neighbourhood.server(answering({}), "a.test")
    believing = ssl.create_default_context(cafile=neighbourhood.certificates.trusted)
    shake, der = await shake_hands(place(server.port), "a.test", believing)
    assert (shake.code, der is not None) == (None, True)
    shake, seen = await shake_hands(place(server.port), "other.test", trusting())
    assert (shake.version is not None, seen) == (True, der)
    shake, none = await shake_hands(place(server.port), "a.test", ssl.create_default_context())
    assert (shake.version, shake.code, none) == (None, 20, None)
    assert der is not None
    for name, code in (("a.test", None), ("other.test", 62)):
        shake, _ = await shake_hands(place(server.port), name, pinning(der))
        assert shake.code == code
    # What was pinned says nothing of any other.
    other = await neighbourhood.server(answering({}), "a.test")
    shake, _ = await shake_hands(place(other.port), "a.test", pinning(der))
    assert shake.code == 20


async def test_who_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a handshake that is none an error of ours."""
    monkeypatch.setattr(connection_probe, "TIMEOUT", 0.2)
    release = asyncio.Event()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()

    async def loud(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-nobody\r\n")
        await writer.drain()
        await reader.read(1)

    async with raw_server(mute, None) as silent, raw_server(loud, None) as speaking:
        shake, _ = await shake_hands(place(silent), "a.test", trusting())
        assert shake.problem == "it did not answer the handshake"
        shake, _ = await shake_hands(place(speaking), "a.test", trusting())
        assert (shake.version, shake.code) == (None, None)
        assert shake.problem
        release.set()
