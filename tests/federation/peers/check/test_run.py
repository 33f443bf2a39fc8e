"""Checks of servers of every kind on loopback."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from federation.client.errors import PeerMalformed, PeerRefused, PeerTimedOut
from federation.client.peer_settings import PeerSettings
from federation.client.server_discovery import NoRoute
from federation.homeserver import Homeserver, HomeserverSettings, open_homeserver
from federation.keys.server_keys import LocalKeys, key_from_seed
from federation.observer import HomeserverObserver
from federation.peers.check import connectivity as connection_probe
from federation.peers.check import run as peer_check
from federation.peers.check.facts import Facts, Verdict, worst
from federation.peers.check.report import report
from federation.peers.check.run import gather_facts
from federation.peers.policy import policy
from storage.database import Database
from storage.federation.server_keys import ServerKeyRow, store_keys
from tests.support.loopback_server import LoopbackServer, raw_server
from tests.support.neighbourhood import Neighbourhood
from tests.support.server_keys import DAY, key, key_document, public

PEER = "peer.test"
OWN_KEYS = LocalKeys(key_from_seed("own", b"o" * 32))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Peer:
    """A Matrix server as far as it is checked; each response can be changed."""

    name: str = PEER
    keys: Any = None
    version: Any = field(default_factory=lambda: {"server": {"name": "Test", "version": "1"}})
    event: tuple[int, Any] = (404, {"errcode": "M_NOT_FOUND", "error": "No."})
    requests: list[web.Request] = field(default_factory=list)

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if request.path == "/_matrix/key/v2/server":
            keys = self.keys or key_document(self.name, key("1"), until=now_ms() + DAY)
            return web.Response(body=keys) if isinstance(keys, bytes) else web.json_response(keys)
        if request.path == "/_matrix/federation/v1/version":
            return web.json_response(self.version)
        status, content = self.event
        return web.json_response(content, status=status)


async def listening(neighbourhood: Neighbourhood, peer: Peer, **how: Any) -> LoopbackServer:
    """Start the peer where its SRV record points."""
    server = await neighbourhood.server(peer, peer.name, **how)
    neighbourhood.names.add(f"_matrix-fed._tcp.{peer.name}", "SRV", f"0 0 {server.port} {peer.name}.")
    return server


@asynccontextmanager
async def us(
    neighbourhood: Neighbourhood, database: Database, directory: Path, name: str = "us.test", **more: Any
) -> AsyncIterator[Homeserver]:
    """A homeserver that trusts every certificate made so far."""
    trusted = neighbourhood.certificates.trusted
    given = {"policy": policy((), is_open=True), "blocked": (), **more}
    settings = HomeserverSettings(
        name,
        "1",
        directory / "media",
        authorities=trusted if trusted.exists() else None,
        name_servers=(("127.0.0.1", neighbourhood.names.port),),
        **given,
    )
    opening = open_homeserver(settings, database, lambda: OWN_KEYS, now_ms=now_ms, observer=HomeserverObserver())
    async with opening as homeserver:
        yield homeserver


@pytest.fixture
async def check(neighbourhood: Neighbourhood, database: Database, tmp_path: Path) -> Any:
    """Check a server."""

    async def check_it(server: str = PEER, **how: Any) -> Facts:
        async with us(neighbourhood, database, tmp_path, **how) as homeserver:
            return await gather_facts(homeserver, server)

    return check_it


async def test_a_healthy_server(neighbourhood: Neighbourhood, check: Any) -> None:
    """All facts are gathered, and nothing is wrong."""
    peer = Peer()
    server = await listening(neighbourhood, peer)
    facts: Facts = await check()
    [probe] = facts.probes
    assert (probe.address, probe.candidate.port, probe.unreachable) == ("127.0.0.1", server.port, None)
    assert probe.handshake is not None
    assert probe.handshake.version in {"TLSv1.2", "TLSv1.3"}
    assert probe.handshake.certificate is not None
    assert probe.handshake.certificate.names == (PEER,)
    assert probe.answers_as(PEER)
    assert facts.signed is not None
    assert isinstance(facts.signed.problem, PeerRefused)
    assert {finding.verdict for finding in report(facts)} == {Verdict.FINE}
    # The requests use the host name of the route; only the last one is signed.
    assert {request.headers["Host"] for request in peer.requests} == {PEER}
    assert ["Authorization" in request.headers for request in peer.requests] == [False, False, True]


async def test_an_invalid_name_is_not_looked_up(check: Any) -> None:
    """There is no route."""
    assert (await check("no name")).route is None


async def test_a_name_without_route(neighbourhood: Neighbourhood, check: Any) -> None:
    """Neither records nor addresses; or a record that declares it."""
    facts = await check("nowhere.test")
    assert [one.host for one in facts.names_without_address] == ["nowhere.test"]
    assert facts.probes == ()
    neighbourhood.names.add("_matrix-fed._tcp.closed.test", "SRV", "0 0 0 .")
    assert isinstance((await check("closed.test")).route, NoRoute)


async def test_each_address_is_tested_separately(neighbourhood: Neighbourhood, check: Any) -> None:
    """An unreachable one is found, although another one answers."""
    await listening(neighbourhood, Peer())
    neighbourhood.names.add(PEER, "A", "127.0.0.1", "127.0.0.9")
    facts = await check()
    probes = {probe.address: probe for probe in facts.probes}
    assert probes["127.0.0.1"].answers_as(PEER)
    assert probes["127.0.0.9"].unreachable == "connection refused"
    assert facts.signed is not None


async def test_the_number_of_tested_addresses_is_limited(
    neighbourhood: Neighbourhood, check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server with a thousand addresses causes few connections."""
    monkeypatch.setattr(peer_check, "MAX_ADDRESSES", 2)
    await listening(neighbourhood, Peer())
    neighbourhood.names.add(PEER, "A", *(f"127.0.0.{number}" for number in range(2, 7)))
    facts = await check()
    assert (len(facts.probes), facts.addresses_left_out) == (2, 3)


async def test_a_blocked_address_is_not_connected_to(neighbourhood: Neighbourhood, check: Any) -> None:
    """Not even for a test."""
    peer = Peer()
    server = await listening(neighbourhood, peer)
    facts = await check(blocked=(ip_network("127.0.0.0/8"),))
    assert (facts.probes[0].is_blocked, facts.probes[0].answers_as(PEER)) == (True, False)
    assert peer.requests == []
    assert server.connections == set()


async def test_an_untrusted_certificate_is_read(neighbourhood: Neighbourhood, check: Any) -> None:
    """Its details are read without trusting it, and no request is sent."""
    peer = Peer()
    files = neighbourhood.certificates.make(PEER, trusted=False)
    await listening(neighbourhood, peer, files=files)
    handshake = (await check()).probes[0].handshake
    assert (handshake.version, handshake.code) == (None, 20)
    assert handshake.certificate.names == (PEER,)
    assert peer.requests == []


async def test_a_certificate_for_another_name_is_read(neighbourhood: Neighbourhood, check: Any) -> None:
    """With its names."""
    await listening(neighbourhood, Peer(), files=neighbourhood.certificates.make("other.test"))
    handshake = (await check()).probes[0].handshake
    assert (handshake.code, handshake.certificate.names) == (62, ("other.test",))


async def test_a_port_without_tls(neighbourhood: Neighbourhood, check: Any) -> None:
    """Plain HTTP, or no response."""
    await listening(neighbourhood, Peer(), plain=True)
    handshake = (await check()).probes[0].handshake
    assert (handshake.version, handshake.code) == (None, None)
    assert handshake.problem

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with raw_server(silent, None) as port:
        handshake = (await check(f"127.0.0.1:{port}")).probes[0].handshake
    assert (handshake.version, handshake.problem) == (None, "the connection was closed")


async def test_a_server_that_does_not_answer_times_out(
    neighbourhood: Neighbourhood, check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the handshake nor after it."""
    monkeypatch.setattr(connection_probe, "TIMEOUT", 0.2)
    monkeypatch.setattr(peer_check, "RESPONSE_TIMEOUT", 0.2)
    release = asyncio.Event()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()

    async with raw_server(mute, None) as port:
        handshake = (await check(f"127.0.0.1:{port}")).probes[0].handshake
        release.set()
    assert handshake.problem == "no response"
    release.clear()

    async def slow(_: web.Request) -> web.StreamResponse:
        await release.wait()
        return web.Response()

    server = await neighbourhood.server(slow, PEER)
    [probe] = (await check(f"{PEER}:{server.port}")).probes
    release.set()
    assert isinstance(probe.keys.problem, PeerTimedOut)


@pytest.mark.parametrize("keys", [b"<html>", b"[]", b"\xff", b"[" * 5_000, b'{"x": "' + b"x" * 300_000 + b'"}'])
async def test_an_invalid_response_is_a_finding(neighbourhood: Neighbourhood, check: Any, keys: bytes) -> None:
    """Whatever is received."""
    await listening(neighbourhood, Peer(keys=keys))
    facts = await check()
    assert isinstance(facts.probes[0].keys.problem, PeerMalformed)
    assert facts.signed is None
    assert Verdict.FAULT in {finding.verdict for finding in report(facts)}


async def test_keys_of_another_server(neighbourhood: Neighbourhood, check: Any) -> None:
    """They are reported, and no signed request is sent."""
    await listening(neighbourhood, Peer(keys=key_document("other.test", key("1"), until=now_ms() + DAY)))
    facts = await check()
    assert any("the keys of other.test" in finding.text for finding in report(facts))
    assert facts.signed is None


async def test_the_known_keys_of_a_server_are_compared(
    neighbourhood: Neighbourhood, database: Database, check: Any
) -> None:
    """A different key under a known id is refused."""
    await listening(neighbourhood, Peer())
    known = ServerKeyRow(PEER, "ed25519:1", public(key("other")), now_ms() + DAY, None, 1, "direct")
    async with database.transaction() as connection:
        await store_keys(connection, [known], b"{}")
    facts = await check()
    assert facts.known_keys["ed25519:1"].public == known.public_key
    assert any("is not the key" in finding.text for finding in report(facts))


@pytest.mark.parametrize(
    ("answer", "status"), [((401, {"errcode": "M_UNAUTHORIZED", "error": "Who?"}), 401), ((200, {}), None)]
)
async def test_whether_our_signature_is_accepted(
    neighbourhood: Neighbourhood, check: Any, answer: tuple[int, Any], status: int | None
) -> None:
    """By the response to a signed request."""
    await listening(neighbourhood, Peer(event=answer))
    problem = (await check()).signed.problem
    assert (problem.status if problem is not None else None) == status


async def test_a_server_that_is_not_admitted_gets_no_signed_request(neighbourhood: Neighbourhood, check: Any) -> None:
    """The unsigned tests are made."""
    peer = Peer()
    await listening(neighbourhood, peer)
    facts = await check(policy=policy((), is_open=False))
    assert (facts.status.is_admitted, facts.probes[0].answers_as(PEER), facts.signed) == (False, True, None)
    assert all("Authorization" not in request.headers for request in peer.requests)


async def test_a_configured_address_is_tested(neighbourhood: Neighbourhood, check: Any) -> None:
    """Without server discovery; over plain HTTP if configured."""
    server = await neighbourhood.server(Peer(), plain=True)
    settings = {PEER: PeerSettings(f"127.0.0.1:{server.port}", plain=True)}
    facts = await check(peers=settings)
    assert (facts.queries, facts.route.step) == ((), "configured")
    assert facts.status.is_configured
    [probe] = facts.probes
    assert (probe.handshake, probe.answers_as(PEER)) == (None, True)


async def test_a_node_checks_itself(neighbourhood: Neighbourhood, check: Any) -> None:
    """Even at a blocked address; its own keys are compared with those published under its name."""
    peer = Peer("me.test")
    await listening(neighbourhood, peer)
    facts = await check("me.test", name="me.test", blocked=(ip_network("127.0.0.0/8"),))
    [probe] = facts.probes
    assert facts.status.is_self
    assert (probe.is_blocked, probe.answers_as("me.test"), facts.signed) == (True, True, None)
    assert probe.handshake.trusted_by_system is False
    assert facts.own_keys == {OWN_KEYS.current.key_id: bytes(OWN_KEYS.current.signing_key.verify_key)}
    texts = [finding.text for finding in report(facts)]
    assert any("not the keys of this node" in text for text in texts)
    peer.keys = key_document("me.test", OWN_KEYS.current, until=now_ms() + DAY)
    texts = [finding.text for finding in report(await check("me.test", name="me.test"))]
    assert not any("not the keys of this node" in text for text in texts)


@pytest.mark.parametrize(("names", "code"), [(("me.test",), None), (("other.test",), 62)])
async def test_a_node_checks_itself_with_a_private_certificate(
    neighbourhood: Neighbourhood, check: Any, names: tuple[str, ...], code: int | None
) -> None:
    """Peers may trust its authority; everything else must be valid."""
    files = neighbourhood.certificates.make(*names, trusted=False)
    own = key_document("me.test", OWN_KEYS.current, until=now_ms() + DAY)
    await listening(neighbourhood, Peer("me.test", keys=own), files=files)
    facts = await check("me.test", name="me.test")
    handshake = facts.probes[0].handshake
    assert (handshake.code, handshake.trusted_by_system, handshake.certificate.names) == (code, False, names)
    assert facts.probes[0].answers_as("me.test") == (code is None)
    assert worst(report(facts)) is (Verdict.WARNING if code is None else Verdict.FAULT)
