"""Operating a running node."""

import asyncio
import io
import signal
from pathlib import Path

import aiohttp
import pytest
import signedjson.key
import signedjson.sign

from storage.connect import DatabaseAddress
from tests.support.node import MakeNode, Node

pytestmark = pytest.mark.process


async def test_status_reports_the_node(make_node: MakeNode) -> None:
    """Through the control socket, in the same words as at the start."""
    node = make_node()
    summary = await node.start()
    code, status = await node.cli("status")
    assert code == 0
    assert {name: status[name] for name in summary} == summary
    assert status["ready"] is True
    assert status["database"]["kind"] == "embedded"


async def test_a_rotated_key_keeps_what_it_signed_valid(make_node: MakeNode) -> None:
    """The running node signs with the new key at once and publishes the old one with its expiry, also after a
    restart."""
    node = make_node()
    await node.start()
    _, before = await node.get("/_matrix/key/v2/server")
    [old] = before["verify_keys"]
    code, answer = await node.cli("keys", "rotate")
    assert code == 0
    _, after = await node.get("/_matrix/key/v2/server")
    assert set(after["verify_keys"]) == {answer["key_id"]} != {old}
    assert after["old_verify_keys"][old]["key"] == before["verify_keys"][old]["key"]
    assert after["old_verify_keys"][old]["expired_ts"] < after["valid_until_ts"]
    # What the old key signed before still verifies with the key that is now published as old.
    key = signedjson.key.decode_verify_key_base64("ed25519", old.split(":")[1], after["old_verify_keys"][old]["key"])
    signedjson.sign.verify_signed_json(before, node.started["server_name"], key)
    await node.kill()
    await node.start()
    _, again = await node.get("/_matrix/key/v2/server")
    assert (again["verify_keys"], again["old_verify_keys"]) == (after["verify_keys"], after["old_verify_keys"])


async def test_keys_are_rotated_while_the_node_is_stopped(make_node: MakeNode) -> None:
    """And shown, never with the private half."""
    node = make_node()
    await node.start()
    assert await node.stop() == 0
    _, first = await node.cli("keys", "show")
    code, second = await node.cli("keys", "rotate")
    assert code == 0
    assert list(second["old_keys"]) == [first["key_id"]]
    assert await node.cli("keys", "show") == (0, second)
    [key] = signedjson.key.read_signing_keys(io.StringIO((node.data / "signing.key").read_text()))
    assert f"{key.alg}:{key.version}" == second["key_id"]
    assert (node.data / "signing.key").read_text().split()[2] not in str(second)


async def test_a_new_certificate_is_loaded_without_dropping_connections(make_node: MakeNode) -> None:
    """SIGHUP: open connections stay, new ones get the new certificate; an invalid one changes nothing."""
    donor = make_node()
    await donor.start()
    assert await donor.stop() == 0
    node = make_node()
    own = node.directory / "own"
    own.mkdir()
    _copy_certificate(donor.data / "tls", own)
    (node.directory / "palaver.toml").write_text(
        '[listener]\ncertificate = "own/certificate.pem"\nprivate_key = "own/key.pem"\n'
        # Longer than a busy machine needs to start a second node.
        "header_timeout = 600\n"
    )
    await node.start()
    first, one = await _certificate_on(node)
    assert one == (donor.data / "tls" / "certificate.pem").read_bytes()

    other = make_node()
    await other.start()
    assert await other.stop() == 0
    _copy_certificate(other.data / "tls", own)
    await _hang_up(node, "Reloaded the certificates.")
    second, two = await _certificate_on(node)
    assert two == (other.data / "tls" / "certificate.pem").read_bytes()

    (own / "certificate.pem").write_text("broken")
    await _hang_up(node, "A new certificate is invalid; the old one stays in use.")
    third, three = await _certificate_on(node)
    assert three == two
    for connection in (first, second, third):
        assert await _asked(*connection) == b"HTTP/1.1 200 OK"
        connection[1].close()


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def _copy_certificate(source: Path, target: Path) -> None:
    for name in ("key.pem", "certificate.pem"):
        (target / name).write_bytes((source / name).read_bytes())


async def _hang_up(node: Node, expected: str) -> None:
    assert node.process is not None
    node.process.send_signal(signal.SIGHUP)
    await node.logged(expected)


async def _certificate_on(node: Node) -> tuple[Connection, bytes]:
    """Open a connection; return it and the certificate of the server, in PEM."""
    import ssl

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", node.port, ssl=context)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return (reader, writer), ssl.DER_cert_to_PEM_cert(der).encode()


async def _asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    writer.write(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return (await reader.readline()).strip()


async def test_a_client_certificate_is_required_for_its_peer(make_node: MakeNode) -> None:
    """A client that claims to be a peer with a configured certificate must present that certificate."""
    peer = make_node()
    await peer.start()
    assert await peer.stop() == 0
    node = make_node()
    (node.directory / "palaver.toml").write_text(
        f'[[peers]]\nserver_name = "kitchen.local"\nclient_certificate = "{peer.data}/tls/certificate.pem"\n'
    )
    await node.start()
    header = {"Authorization": 'X-Matrix origin="kitchen.local",destination="x",key="ed25519:1",sig="AAAA"'}
    without = node.tls()
    shown = node.tls()
    shown.load_cert_chain(peer.data / "tls" / "certificate.pem", peer.data / "tls" / "key.pem")
    seen = []
    for context in (without, shown):
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
            session.get(node.url("/_matrix/federation/v1/version"), headers=header) as response,
        ):
            seen.append((response.status, (await response.json()).get("errcode")))
    assert seen == [(401, "M_UNAUTHORIZED"), (200, None)]


async def test_an_external_database(make_node: MakeNode, empty_address: DatabaseAddress) -> None:
    """With `database.url` no embedded Postgres is started, and the schema is created there."""
    node = make_node(PALAVER_DATABASE__URL=empty_address.url)
    await node.start()
    assert not (node.data / "postgres").exists()
    assert (await node.get("/health/ready", "http"))[0] == 200
    assert (await node.cli("status"))[1]["database"]["kind"] == "external"
    assert (await node.cli("doctor"))[0] == 0
    assert await node.stop() == 0
    code, report = await node.cli("doctor")
    assert code == 0
    assert "schema up to date" in str(report)


async def test_a_database_is_backed_up_and_restored(make_node: MakeNode) -> None:
    """Backed up while the node runs, restored while it does not: a running node never loses its tables."""
    node = make_node()
    await node.start()
    file = node.directory / "saved.dump"
    code, answer = await node.cli("db", "dump", str(file))
    assert code == 0
    assert answer["bytes"] == file.stat().st_size > 0
    code, error = await node.cli("db", "restore", str(file), "--replace")
    assert code == 1
    assert "running" in error["problem"]
    assert await node.stop() == 0
    code, error = await node.cli("db", "restore", str(file))
    assert code == 1
    assert "not empty" in error["problem"]
    assert (await node.cli("db", "restore", str(file), "--replace"))[0] == 0
    await node.start()
    assert (await node.get("/health/ready", "http"))[0] == 200


async def test_the_schema_can_be_created_before_the_start(make_node: MakeNode) -> None:
    """`palaver migrate` starts the database itself, and does nothing the second time."""
    node = make_node()
    code, first = await node.cli("migrate")
    assert code == 0
    assert await node.cli("migrate") == (0, first)
    await node.start()
    assert await node.cli("migrate") == (0, first)


async def test_psql_opens_on_the_nodes_database(make_node: MakeNode) -> None:
    """Further arguments are passed on to it, and its exit code is returned."""
    node = make_node()
    await node.start()
    process = await asyncio.create_subprocess_exec(
        str(node.command), "db", "shell", "--", "-At", "-c", "SELECT server_name FROM node",
        cwd=node.directory, env=node.env, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert (process.returncode, out.decode().strip()) == (0, f"localhost:{node.port}")


async def test_init_writes_a_configuration_that_runs(make_node: MakeNode) -> None:
    """And does not overwrite an existing one."""
    node = make_node()
    code, answer = await node.cli("init", "--server-name", "kitchen.local")
    assert (code, answer["server_name"]) == (0, "kitchen.local")
    assert (await node.cli("config", "check"))[1]["mistakes"] == []
    code, error = await node.cli("init")
    assert code == 1
    assert "--force" in error["advice"]
    await node.start()
    assert node.started["server_name"] == f"localhost:{node.port}"
