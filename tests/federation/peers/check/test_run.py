"""Servers of every kind on loopback, examined as a federation tester does."""

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
from federation.peers.check.run import examine
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
    """A Matrix server as far as it is examined; each answer can be another one."""

    name: str = PEER
    keys: Any = None
    version: Any = field(default_factory=lambda: {"server": {"name": "Test", "version": "1"}})
    event: tuple[int, Any] = (404, {"errcode": "M_NOT_FOUND", "error": "No."})
    asked: list[web.Request] = field(default_factory=list)

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        if request.path == "/_matrix/key/v2/server":
            keys = self.keys or key_document(self.name, key("1"), until=now_ms() + DAY)
            return web.Response(body=keys) if isinstance(keys, bytes) else web.json_response(keys)
        if request.path == "/_matrix/federation/v1/version":
            return web.json_response(self.version)
        status, content = self.event
        return web.json_response(content, status=status)


async def listening(neighbourhood: Neighbourhood, peer: Peer, **how: Any) -> LoopbackServer:
    """The peer, where its SRV record says."""
    server = await neighbourhood.server(peer, peer.name, **how)
    neighbourhood.names.add(f"_matrix-fed._tcp.{peer.name}", "SRV", f"0 0 {server.port} {peer.name}.")
    return server


@asynccontextmanager
async def us(
    neighbourhood: Neighbourhood, database: Database, directory: Path, name: str = "us.test", **more: Any
) -> AsyncIterator[Homeserver]:
    """Trusting every certificate made so far."""
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
    opening = open_homeserver(
        settings, database, lambda: OWN_KEYS, now_ms=now_ms, observer=HomeserverObserver()
    )
    async with opening as homeserver:
        yield homeserver


@pytest.fixture
async def look(neighbourhood: Neighbourhood, database: Database, tmp_path: Path) -> Any:
    """Examine a server."""

    async def examine_it(server: str = PEER, **how: Any) -> Facts:
        async with us(neighbourhood, database, tmp_path, **how) as homeserver:
            return await examine(homeserver, server)

    return examine_it


async def test_a_healthy_server(neighbourhood: Neighbourhood, look: Any) -> None:
    """Everything is seen, and nothing is wrong."""
    peer = Peer()
    server = await listening(neighbourhood, peer)
    facts: Facts = await look()
    [place] = facts.places
    assert (place.address, place.candidate.port, place.unreachable) == ("127.0.0.1", server.port, None)
    assert place.handshake is not None
    assert place.handshake.version in {"TLSv1.2", "TLSv1.3"}
    assert place.handshake.certificate is not None
    assert place.handshake.certificate.names == (PEER,)
    assert place.answers_as(PEER)
    assert facts.signed is not None
    assert isinstance(facts.signed.problem, PeerRefused)
    assert {finding.verdict for finding in report(facts)} == {Verdict.FINE}
    # It is asked as any server would ask it; only the last request is signed.
    assert {request.headers["Host"] for request in peer.asked} == {PEER}
    assert ["Authorization" in request.headers for request in peer.asked] == [False, False, True]


async def test_nothing_is_asked_of_what_is_no_name(look: Any) -> None:
    """Nor of a server to which no way leads."""
    assert (await look("no name")).route is None


async def test_a_name_that_leads_nowhere(neighbourhood: Neighbourhood, look: Any) -> None:
    """Neither records nor addresses; or a record that says so itself."""
    facts = await look("nowhere.test")
    assert [one.host for one in facts.names_without_address] == ["nowhere.test"]
    assert facts.places == ()
    neighbourhood.names.add("_matrix-fed._tcp.closed.test", "SRV", "0 0 0 .")
    assert isinstance((await look("closed.test")).route, NoRoute)


async def test_each_address_is_looked_at_by_itself(neighbourhood: Neighbourhood, look: Any) -> None:
    """One that is dead is seen, although another one answers."""
    await listening(neighbourhood, Peer())
    neighbourhood.names.add(PEER, "A", "127.0.0.1", "127.0.0.9")
    facts = await look()
    places = {place.address: place for place in facts.places}
    assert places["127.0.0.1"].answers_as(PEER)
    assert places["127.0.0.9"].unreachable == "connection refused"
    assert facts.signed is not None


async def test_only_so_many_addresses_are_looked_at(
    neighbourhood: Neighbourhood, look: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever names a thousand makes this node connect to a few."""
    monkeypatch.setattr(peer_check, "MOST_PLACES", 2)
    await listening(neighbourhood, Peer())
    neighbourhood.names.add(PEER, "A", *(f"127.0.0.{number}" for number in range(2, 7)))
    facts = await look()
    assert (len(facts.places), facts.places_left_out) == (2, 3)


async def test_a_blocked_address_is_not_connected_to(neighbourhood: Neighbourhood, look: Any) -> None:
    """Not even to look."""
    peer = Peer()
    server = await listening(neighbourhood, peer)
    facts = await look(blocked=(ip_network("127.0.0.0/8"),))
    assert (facts.places[0].is_blocked, facts.places[0].answers_as(PEER)) == (True, False)
    assert peer.asked == []
    assert server.connections == set()


async def test_a_certificate_that_nobody_vouches_for_is_shown(
    neighbourhood: Neighbourhood, look: Any
) -> None:
    """Its details are read without believing it, and nothing is asked over it."""
    peer = Peer()
    files = neighbourhood.certificates.make(PEER, trusted=False)
    await listening(neighbourhood, peer, files=files)
    shake = (await look()).places[0].handshake
    assert (shake.version, shake.code) == (None, 20)
    assert shake.certificate.names == (PEER,)
    assert peer.asked == []


async def test_a_certificate_for_another_name_is_shown(neighbourhood: Neighbourhood, look: Any) -> None:
    """With the names that it is for."""
    await listening(neighbourhood, Peer(), files=neighbourhood.certificates.make("other.test"))
    shake = (await look()).places[0].handshake
    assert (shake.code, shake.certificate.names) == (62, ("other.test",))


async def test_a_port_that_speaks_no_tls_is_seen(neighbourhood: Neighbourhood, look: Any) -> None:
    """Plain HTTP, or nothing at all."""
    await listening(neighbourhood, Peer(), plain=True)
    shake = (await look()).places[0].handshake
    assert (shake.version, shake.code) == (None, None)
    assert shake.problem

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with raw_server(silent, None) as port:
        shake = (await look(f"127.0.0.1:{port}")).places[0].handshake
    assert (shake.version, shake.problem) == (None, "it broke off the handshake")


async def test_who_does_not_answer_is_not_waited_for(
    neighbourhood: Neighbourhood, look: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the handshake nor after it."""
    monkeypatch.setattr(connection_probe, "TIMEOUT", 0.2)
    monkeypatch.setattr(peer_check, "ANSWER", 0.2)
    release = asyncio.Event()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()

    async with raw_server(mute, None) as port:
        shake = (await look(f"127.0.0.1:{port}")).places[0].handshake
        release.set()
    assert shake.problem == "it did not answer the handshake"
    release.clear()

    async def slow(_: web.Request) -> web.StreamResponse:
        await release.wait()
        return web.Response()

    server = await neighbourhood.server(slow, PEER)
    [place] = (await look(f"{PEER}:{server.port}")).places
    release.set()
    assert isinstance(place.keys.problem, PeerTimedOut)


@pytest.mark.parametrize(
    "keys", [b"<html>", b"[]", b"\xff", b"[" * 5_000, b'{"x": "' + b"x" * 300_000 + b'"}']
)
async def test_an_answer_that_is_none_is_a_finding(
    neighbourhood: Neighbourhood, look: Any, keys: bytes
) -> None:
    """Whatever comes."""
    await listening(neighbourhood, Peer(keys=keys))
    facts = await look()
    assert isinstance(facts.places[0].keys.problem, PeerMalformed)
    assert facts.signed is None
    assert Verdict.FAULT in {finding.verdict for finding in report(facts)}


async def test_keys_of_another_server_are_seen(neighbourhood: Neighbourhood, look: Any) -> None:
    """Somebody listens there who is not who was asked for."""
    await listening(neighbourhood, Peer(keys=key_document("other.test", key("1"), until=now_ms() + DAY)))
    facts = await look()
    assert any("the keys of other.test" in finding.text for finding in report(facts))
    assert facts.signed is None


async def test_what_this_node_knows_of_its_keys_counts(
    neighbourhood: Neighbourhood, database: Database, look: Any
) -> None:
    """Another key under a known id is not believed, whatever its owner thinks."""
    await listening(neighbourhood, Peer())
    known = ServerKeyRow(PEER, "ed25519:1", public(key("other")), now_ms() + DAY, None, 1, "direct")
    async with database.transaction() as connection:
        await store_keys(connection, [known], b"{}")
    facts = await look()
    assert facts.known_keys["ed25519:1"].public == known.public_key
    assert any("is another key" in finding.text for finding in report(facts))


@pytest.mark.parametrize(
    ("answer", "status"), [((401, {"errcode": "M_UNAUTHORIZED", "error": "Who?"}), 401), ((200, {}), None)]
)
async def test_whether_our_signature_is_believed_is_seen(
    neighbourhood: Neighbourhood, look: Any, answer: tuple[int, Any], status: int | None
) -> None:
    """By the answer to a request that is signed."""
    await listening(neighbourhood, Peer(event=answer))
    problem = (await look()).signed.problem
    assert (problem.status if problem is not None else None) == status


async def test_whom_we_do_not_admit_we_do_not_ask(neighbourhood: Neighbourhood, look: Any) -> None:
    """It is looked at, as everybody may look; our signature is for those we speak with."""
    peer = Peer()
    await listening(neighbourhood, peer)
    facts = await look(policy=policy((), is_open=False))
    assert (facts.standing.is_admitted, facts.places[0].answers_as(PEER), facts.signed) == (False, True, None)
    assert all("Authorization" not in request.headers for request in peer.asked)


async def test_a_configured_address_is_looked_at(neighbourhood: Neighbourhood, look: Any) -> None:
    """Instead of asking anybody for the way; in plain HTTP where that is what the configuration says."""
    server = await neighbourhood.server(Peer(), plain=True)
    settings = {PEER: PeerSettings(f"127.0.0.1:{server.port}", plain=True)}
    facts = await look(peers=settings)
    assert (facts.asked, facts.route.step) == ((), "configured")
    assert facts.standing.is_configured
    [place] = facts.places
    assert (place.handshake, place.answers_as(PEER)) == (None, True)


async def test_this_node_is_seen_as_others_see_it(neighbourhood: Neighbourhood, look: Any) -> None:
    """Also where it lives at an address that no stranger could lead it to; with its own keys beside those
    that are published under its name."""
    peer = Peer("me.test")
    await listening(neighbourhood, peer)
    facts = await look("me.test", name="me.test", blocked=(ip_network("127.0.0.0/8"),))
    [place] = facts.places
    assert facts.standing.is_self
    assert (place.is_blocked, place.answers_as("me.test"), facts.signed) == (True, True, None)
    assert place.handshake.by_everybody is False
    assert facts.own_keys == {OWN_KEYS.current.key_id: bytes(OWN_KEYS.current.signing_key.verify_key)}
    texts = [finding.text for finding in report(facts)]
    assert any("not the keys of this node" in text for text in texts)
    peer.keys = key_document("me.test", OWN_KEYS.current, until=now_ms() + DAY)
    texts = [finding.text for finding in report(await look("me.test", name="me.test"))]
    assert not any("not the keys of this node" in text for text in texts)


@pytest.mark.parametrize(("names", "code"), [(("me.test",), None), (("other.test",), 62)])
async def test_a_certificate_of_its_own_making_does_not_end_the_look_at_itself(
    neighbourhood: Neighbourhood, look: Any, names: tuple[str, ...], code: int | None
) -> None:
    """Peers may have been told of its authority; but then all else must hold."""
    files = neighbourhood.certificates.make(*names, trusted=False)
    own = key_document("me.test", OWN_KEYS.current, until=now_ms() + DAY)
    await listening(neighbourhood, Peer("me.test", keys=own), files=files)
    facts = await look("me.test", name="me.test")
    shake = facts.places[0].handshake
    assert (shake.code, shake.by_everybody, shake.certificate.names) == (code, False, names)
    assert facts.places[0].answers_as("me.test") == (code is None)
    assert worst(report(facts)) is (Verdict.WARNING if code is None else Verdict.FAULT)
