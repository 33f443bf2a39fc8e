"""Each operator mistake gives one sentence with advice and a non-zero exit code, and damages nothing."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from tests.support.node import MakeNode, Node
from tests.support.ports import take

pytestmark = pytest.mark.process


async def _doctor(node: Node, **environment: str) -> dict[str, str]:
    """Return the faults that `palaver doctor` found, by subject."""
    _, report = await node.cli("doctor", environment=environment)
    return {found["subject"]: found["text"] for found in report["findings"] if found["verdict"] == "fault"}


async def test_the_doctor_finds_a_healthy_node_healthy(make_node: MakeNode) -> None:
    """Before the first start, while the node runs, and afterwards."""
    node = make_node()
    assert await _doctor(node) == {}
    await node.start()
    code, report = await node.cli("doctor")
    assert (code, report["healthy"]) == (0, True)
    told = {found["subject"]: found["text"] for found in report["findings"]}
    assert "signed by itself" in told["port"]
    assert "is ready" in told["node"]
    assert await node.stop() == 0
    assert await _doctor(node) == {}


async def test_a_second_start_on_the_same_data(make_node: MakeNode) -> None:
    """The first process is not affected."""
    node = make_node()
    await node.start()
    second = make_node(node.directory)
    code, error = await second.refused()
    assert code == 1
    assert "already running" in error["problem"]
    assert "palaver status" in error["advice"]
    assert (await node.get("/health/ready", "http"))[0] == 200
    assert await _doctor(node) == {}
    assert await node.stop() == 0


async def test_a_port_in_use(make_node: MakeNode) -> None:
    """The sentence names the port and the setting; the doctor finds it as well."""
    node = make_node()
    with take(node.port):
        code, error = await node.refused()
        assert code == 1
        assert f"Port {node.port}" in error["problem"]
        assert "in use" in error["problem"]
        assert set(await _doctor(node)) == {"port"}
    await node.start()


async def test_a_metrics_port_in_use(make_node: MakeNode) -> None:
    """Everything that had started is stopped again."""
    node = make_node()
    with take(node.metrics_port):
        code, error = await node.refused()
        assert code == 1
        assert "metrics.port" in error["advice"]
        assert set(await _doctor(node)) == {"metrics"}
    assert not (node.data / "postgres" / "18" / "postmaster.pid").exists()


async def test_a_bad_configuration(make_node: MakeNode) -> None:
    """All mistakes are reported at once, and nothing is created."""
    node = make_node()
    (node.directory / "palaver.toml").write_text("[listener]\nprot = 1\nidle_timeout = -1\n")
    code, error = await node.refused()
    assert code == 1
    assert [mistake["where"] for mistake in error["mistakes"]] == [
        "listener.idle_timeout (line 3)",
        "listener.prot (line 2)",
    ]
    assert not node.data.exists()
    assert set(await _doctor(node)) == {"configuration"}


async def test_a_missing_certificate(make_node: MakeNode) -> None:
    """The sentence names the file."""
    node = make_node()
    (node.directory / "palaver.toml").write_text('[listener]\ncertificate = "a.pem"\nprivate_key = "b.pem"\n')
    code, error = await node.refused()
    assert code == 1
    assert "a.pem" in error["problem"]
    assert set(await _doctor(node)) == {"certificate"}


async def test_an_unreachable_database(make_node: MakeNode, tmp_path: Path) -> None:
    """The sentence names the server and never the password."""
    (tmp_path / "password").write_text("hunter2\n")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        node = make_node(
            PALAVER_DATABASE__URL=f"postgresql://palaver@127.0.0.1:{port}/palaver",
            PALAVER_DATABASE__PASSWORD_FILE=str(tmp_path / "password"),
        )
        code, error = await node.refused()
        assert code == 1
        assert f"127.0.0.1:{port}" in error["problem"]
        assert "hunter2" not in str(error) + str(node.log)
        assert set(await _doctor(node)) == {"database"}


async def test_too_little_disk_space(make_node: MakeNode) -> None:
    """Reported before anything is written."""
    node = make_node(PALAVER_DATABASE__MINIMUM_FREE_SPACE="1000000GiB")
    code, error = await node.refused()
    assert code == 1
    assert "free on the disk" in error["problem"]
    assert set(await _doctor(node)) == {"disk"}
    node.environment["PALAVER_DATABASE__MINIMUM_FREE_SPACE"] = "1MiB"
    await node.start()
    assert await node.stop() == 0


async def test_a_full_disk(make_node: MakeNode) -> None:
    """A disk that fills up during the first start gives one sentence, and a later start with enough space
    works."""
    node = make_node(PALAVER_DATABASE__MINIMUM_FREE_SPACE="0B")
    node.data.mkdir()
    # A disk of 24 MiB, in a mount namespace that ends with the node; an ordinary user may make one too.
    become_root = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    mount = 'mount -t tmpfs -o size=24m,mode=0700 none "$0" && exec "$@"'
    node.prefix = ("unshare", *become_root, "--mount", "sh", "-c", mount, str(node.data))
    code, error = await node.refused()
    assert code == 1
    assert "free on the disk" in error["problem"]
    assert "data_dir" in error["advice"]
    node.prefix = ()
    await node.start()
    assert await node.stop() == 0


async def test_a_key_that_others_can_read(make_node: MakeNode) -> None:
    """The node refuses to start, because the key may be known to others."""
    node = make_node()
    await node.start()
    assert await node.stop() == 0
    (node.data / "signing.key").chmod(0o640)
    code, error = await node.refused()
    assert code == 1
    assert "chmod 600" in error["advice"]
    assert set(await _doctor(node)) == {"signing key"}


async def test_another_server_name_on_the_same_database(make_node: MakeNode) -> None:
    """Every signed event contains the server name, so it cannot be changed."""
    node = make_node()
    await node.start()
    assert await node.stop() == 0
    other = make_node(node.directory)
    code, error = await other.refused()
    assert code == 1
    assert f"localhost:{node.port}" in error["problem"]
    assert f"localhost:{other.port}" in error["problem"]


async def test_no_running_node(make_node: MakeNode) -> None:
    """`palaver status` says how to start one."""
    node = make_node()
    code, error = await node.cli("status")
    assert code == 1
    assert "palaver run" in error["advice"]


async def test_plain_http_from_elsewhere_is_refused(make_node: MakeNode) -> None:
    """A client outside the allowed networks must use TLS; nothing that it sends is parsed."""
    node = make_node(PALAVER_LISTENER__PLAIN_HTTP_FROM='["192.0.2.0/24"]')
    await node.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
    writer.write(b"GET /_matrix/key/v2/server HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"M_FORBIDDEN" in answer
    assert (await node.get("/_matrix/key/v2/server"))[0] == 200
