"""Which connections are made, reused and refused."""

import asyncio
import contextlib
import socket
import ssl
from ipaddress import ip_network
from pathlib import Path

import pytest
from aiohttp import web
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from federation.client.connections import MAX_CONNECTIONS_PER_HOST, PeerConnections
from federation.client.dns import Dns
from federation.client.errors import PeerTlsFailure, PeerUnreachable
from federation.client.peer_settings import CertificateFiles, ConfiguredPeers, PeerSettings
from federation.client.requests import request_target
from storage.errors import LocalError
from tests.support.loopback_server import LoopbackServer
from tests.support.neighbourhood import Neighbourhood, answering
from tests.support.tls import Authority

VERSION = request_target("/_matrix/federation/v1/version")


def has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as six:
        six.bind(("::1", 0))
        return True
    return False


async def test_a_connection_is_reused(neighbourhood: Neighbourhood) -> None:
    """Consecutive requests need one."""
    server = await neighbourhood.server(answering({}), "a.test")
    reach = neighbourhood.reach()
    for _ in range(20):
        await reach.client.request("GET", f"a.test:{server.port}", VERSION)
    assert len(server.connections) == 1


async def test_the_number_of_connections_to_a_server_is_limited(neighbourhood: Neighbourhood) -> None:
    """Further requests wait; none fails."""
    release, full = asyncio.Event(), asyncio.Event()

    async def answer(_: web.Request) -> web.Response:
        if len(server.connections) == MAX_CONNECTIONS_PER_HOST:
            full.set()
        await release.wait()
        return web.json_response({})

    server = await neighbourhood.server(answer, "a.test")
    reach = neighbourhood.reach()
    name = f"a.test:{server.port}"
    asking = [
        asyncio.create_task(reach.client.request("GET", name, VERSION)) for _ in range(3 * MAX_CONNECTIONS_PER_HOST)
    ]
    await full.wait()
    release.set()
    assert await asyncio.gather(*asking) == [{}] * len(asking)
    assert len(server.connections) == MAX_CONNECTIONS_PER_HOST


async def test_a_certificate_must_be_for_the_name_and_of_a_known_authority(neighbourhood: Neighbourhood) -> None:
    """Verification is never disabled."""
    for files, why in (
        (neighbourhood.certificates.make("b.test"), "Hostname mismatch"),
        (neighbourhood.certificates.make("a.test", trusted=False), "certificate"),
    ):
        server = await neighbourhood.server(answering({}), "a.test", files=files)
        with pytest.raises(PeerTlsFailure, match=why):
            await neighbourhood.reach().client.request("GET", f"a.test:{server.port}", VERSION)
        assert server.requests == []


@pytest.mark.parametrize(("address", "name"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
async def test_an_address_is_checked_and_not_sent_as_sni(neighbourhood: Neighbourhood, address: str, name: str) -> None:
    """ "unless that certificate is expected to be an IP address in which case SNI is not supported" """
    if address == "::1" and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    good = LoopbackServer(answering({}))
    await neighbourhood.stack.enter_async_context(
        good.running(neighbourhood.certificates.make(address), addresses=[address])
    )
    other = LoopbackServer(answering({}))
    await neighbourhood.stack.enter_async_context(
        other.running(neighbourhood.certificates.make("10.0.0.1"), addresses=[address])
    )
    reach = neighbourhood.reach()
    assert await reach.client.request("GET", f"{name}:{good.port}", VERSION) == {}
    assert good.requests[0].headers["Host"] == f"{name}:{good.port}"
    assert good.names == [None]
    with pytest.raises(PeerTlsFailure):
        await reach.client.request("GET", f"{name}:{other.port}", VERSION)


async def test_plain_http_only_with_configured_peers(neighbourhood: Neighbourhood) -> None:
    """Published CIS nodes use no TLS. There is no fallback to plain HTTP if TLS fails."""
    server = await neighbourhood.server(answering({}), "a.test", plain=True)
    name = f"a.test:{server.port}"
    with pytest.raises(PeerTlsFailure):
        await neighbourhood.reach().client.request("GET", name, VERSION)
    assert server.requests == []
    reach = neighbourhood.reach({name: PeerSettings(plain=True)})
    assert await reach.client.request("GET", name, VERSION) == {}


async def test_a_client_certificate_is_presented_only_to_its_peer(neighbourhood: Neighbourhood) -> None:
    """If that peer requests one."""
    files = neighbourhood.certificates.make("us.test")
    shown: list[object] = []

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        shown.append(request.transport.get_extra_info("peercert"))
        return web.json_response({})

    wanting = await neighbourhood.server(answer, "a.test", client_authority=neighbourhood.certificates.trusted)
    other = await neighbourhood.server(answer, "b.test", client_authority=neighbourhood.certificates.trusted)
    name = f"a.test:{wanting.port}"
    reach = neighbourhood.reach({name: PeerSettings(client_certificate=files)})
    assert await reach.client.request("GET", name, VERSION) == {}
    assert len(shown) == 1
    with pytest.raises(PeerUnreachable):
        await reach.client.request("GET", f"b.test:{other.port}", VERSION)
    assert len(shown) == 1


async def test_blocked_addresses_are_not_connected_to(neighbourhood: Neighbourhood) -> None:
    """By name, by number, and by a number that the system would complete."""
    server = await neighbourhood.server(answering({}), "a.test", files=neighbourhood.certificates.make("a.test"))
    reach = neighbourhood.reach(blocked=[ip_network("127.0.0.0/8")])
    for name in (f"a.test:{server.port}", f"127.0.0.1:{server.port}", f"127.1:{server.port}"):
        with pytest.raises(PeerUnreachable, match="address"):
            await reach.client.request("GET", name, VERSION)
    assert server.names == []


async def test_a_configured_server_may_be_at_a_blocked_address(neighbourhood: Neighbourhood) -> None:
    """The operator knows where it is; other servers cannot be directed there."""
    server = await neighbourhood.server(answering({}), "a.test", "b.test")
    known = f"a.test:{server.port}"
    reach = neighbourhood.reach({known: PeerSettings()}, blocked=[ip_network("127.0.0.0/8")])
    assert await reach.client.request("GET", known, VERSION) == {}
    with pytest.raises(PeerUnreachable, match="address"):
        await reach.client.request("GET", f"b.test:{server.port}", VERSION)


async def test_the_authority_of_a_peer_is_trusted_only_for_it(neighbourhood: Neighbourhood) -> None:
    """Trusting one node's development certificate affects no other server."""
    files = neighbourhood.certificates.make("a.test", "b.test", trusted=False)
    server = await neighbourhood.server(answering({}), "a.test", "b.test", files=files)
    known = f"a.test:{server.port}"
    authority = neighbourhood.certificates.authority_of(files)
    reach = neighbourhood.reach({known: PeerSettings(authority=authority)})
    assert await reach.client.request("GET", known, VERSION) == {}
    with pytest.raises(PeerTlsFailure):
        await reach.client.request("GET", f"b.test:{server.port}", VERSION)


async def test_the_certificates_of_an_added_peer_are_trusted_immediately(neighbourhood: Neighbourhood) -> None:
    """And only for this peer, until it is removed. Invalid certificates are reported, and affect no other
    peer."""
    files = neighbourhood.certificates.make("a.test", "b.test", trusted=False)
    server = await neighbourhood.server(answering({}), "a.test", "b.test", files=files)
    known, other = f"a.test:{server.port}", f"b.test:{server.port}"
    added: dict[str, PeerSettings] = {}
    reach = neighbourhood.reach(added=added)
    for name in (known, other):
        with pytest.raises(PeerTlsFailure):
            await reach.client.request("GET", name, VERSION)
    authority = neighbourhood.certificates.authority_of(files).read_text()
    added[known] = PeerSettings(certificates=authority)
    assert await reach.client.request("GET", known, VERSION) == {}
    with pytest.raises(PeerTlsFailure):
        await reach.client.request("GET", other, VERSION)
    added[known] = PeerSettings(certificates="no certificate")
    with pytest.raises(PeerUnreachable, match="cannot read the certificates"):
        await reach.client.request("GET", known, VERSION)
    added[known] = PeerSettings(certificates=authority)
    assert await reach.client.request("GET", known, VERSION) == {}
    del added[known]
    with pytest.raises(PeerTlsFailure):
        await reach.client.request("GET", known, VERSION)


async def test_a_configured_address_needs_the_servers_certificate(neighbourhood: Neighbourhood) -> None:
    """It must be for the server's own name."""
    server = await neighbourhood.server(answering({}), "b.test")
    address = f"127.0.0.1:{server.port}"
    reach = neighbourhood.reach({"a.test": PeerSettings(address=address), "b.test": PeerSettings(address=address)})
    assert await reach.client.request("GET", "b.test", VERSION) == {}
    assert server.requests[0].headers["Host"] == "b.test"
    with pytest.raises(PeerTlsFailure):
        await reach.client.request("GET", "a.test", VERSION)


async def test_the_addresses_of_a_server(neighbourhood: Neighbourhood) -> None:
    """With those that are blocked for it: none for a configured server."""
    neighbourhood.names.add("a.test", "A", "127.0.0.1", "192.0.2.7")
    settings = {"b.test": PeerSettings("192.0.2.1:1")}
    connections = neighbourhood.reach(settings, blocked=[ip_network("127.0.0.0/8")]).connections
    assert await connections.addresses("a.test", "a.test") == {"127.0.0.1": True, "192.0.2.7": False}
    assert await connections.addresses("b.test", "a.test") == {"127.0.0.1": False, "192.0.2.7": False}
    assert await connections.addresses("a.test", "::1") == {"::1": False}
    for host in ("127.1", "::x", "nowhere.test"):
        with pytest.raises(OSError, match=r"no address|not an address"):
            await connections.addresses("a.test", host)
    assert connections.ssl_context("a.test").verify_mode is ssl.CERT_REQUIRED


async def test_certificates_are_reloaded(neighbourhood: Neighbourhood) -> None:
    """New connections use the new ones; unusable files change nothing."""
    server = await neighbourhood.server(answering({}), "a.test")
    reach = neighbourhood.reach()
    trusted = neighbourhood.certificates.trusted
    good = trusted.read_bytes()
    trusted.write_bytes(b"nonsense")
    with pytest.raises(LocalError):
        reach.connections.reload()
    assert await reach.client.request("GET", f"a.test:{server.port}", VERSION) == {}
    trusted.write_bytes(good)
    other = await neighbourhood.server(answering({}), "b.test")
    with pytest.raises(PeerTlsFailure):
        await reach.client.request("GET", f"b.test:{other.port}", VERSION)
    reach.connections.reload()
    assert await reach.client.request("GET", f"b.test:{other.port}", VERSION) == {}


async def test_an_encrypted_key_causes_no_prompt(tmp_path: Path) -> None:
    """OpenSSL would prompt on the terminal, and the node would hang."""
    certificate, private_key = tmp_path / "own.pem", tmp_path / "own.key"
    issued = Authority().issue("us.test")
    certificate.write_bytes(issued.pem)
    private_key.write_bytes(
        issued.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    )
    peers = ConfiguredPeers({"a": PeerSettings(client_certificate=CertificateFiles(certificate, private_key))})
    with pytest.raises(LocalError, match="unencrypted"):
        PeerConnections(Dns(), peers, user_agent="test")


async def test_the_error_names_an_unusable_file(tmp_path: Path) -> None:
    """For the operator."""
    missing, broken = tmp_path / "missing.pem", tmp_path / "broken.pem"
    broken.write_text("nonsense")
    for file in (missing, broken):
        with pytest.raises(LocalError, match=file.name):
            PeerConnections(Dns(), ConfiguredPeers(), user_agent="test", authorities=file)
        peers = ConfiguredPeers({"a": PeerSettings(client_certificate=CertificateFiles(file, file))})
        with pytest.raises(LocalError, match=file.name):
            PeerConnections(Dns(), peers, user_agent="test")
