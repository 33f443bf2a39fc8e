"""Start, stop, kill, start again."""

import asyncio
import json
import os
import signal
from pathlib import Path

import aiohttp
import pytest

from tests.support.node import TIMEOUT, MakeNode, Node

pytestmark = pytest.mark.process


def _postgres_of(node: Node) -> int:
    return int((node.data / "postgres" / "18" / "postmaster.pid").read_text().split("\n")[0])


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_one_command_and_the_node_answers(make_node: MakeNode) -> None:
    """Keys, certificate and database are created; TLS and plain HTTP answer on one port."""
    node = make_node()
    summary = await node.start()
    assert summary["server_name"] == f"localhost:{node.port}"
    secure, plain = await node.get("/_matrix/key/v2/server"), await node.get("/_matrix/key/v2/server", "http")
    assert secure == plain
    assert secure[0] == 200
    assert secure[1]["server_name"] == f"localhost:{node.port}"
    assert (await node.get("/_matrix/federation/v1/version"))[1]["server"]["name"] == "Palaver"
    assert (await node.get("/health/live"))[0] == 200
    status, ready = await node.get("/health/ready", "http")
    assert status == 200
    assert set(ready["checks"]) == {"database", "migrations", "listeners"}
    status, nothing = await node.get("/_matrix/federation/v1/nothing")
    assert (status, nothing["errcode"]) == (404, "M_UNRECOGNIZED")
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{node.metrics_port}/metrics") as response,
    ):
        text = await response.text()
    for name in (
        "process_cpu_seconds",
        "palaver_database_pool",
        "palaver_event_loop_lag",
        "palaver_background_restarts",
        "palaver_http_request",
    ):
        assert name in text


async def test_a_stop_is_clean(make_node: MakeNode) -> None:
    """SIGTERM: exit code 0; Postgres, its lock file and the socket are gone."""
    node = make_node()
    await node.start()
    postgres = _postgres_of(node)
    assert await node.stop() == 0
    assert not _is_alive(postgres)
    assert not (node.data / "postgres" / "18" / "postmaster.pid").exists()
    assert not (node.data / "palaver.sock").exists()
    assert node.log[-1]["event"] == "Stopped."


async def test_a_running_request_is_finished(make_node: MakeNode) -> None:
    """SIGTERM arrives while a body is still being sent: the response is sent, then the connection is
    closed."""
    node = make_node()
    await node.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
    writer.write(b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{")
    await writer.drain()
    # The request is known to be under way once its first half is answered for on another connection.
    assert (await node.get("/health/live", "http"))[0] == 200
    assert node.process is not None
    node.process.send_signal(signal.SIGTERM)
    await node.logged("Stopping.")
    writer.write(b"}")
    await writer.drain()
    answer = await asyncio.wait_for(reader.read(), TIMEOUT)
    assert answer.startswith(b"HTTP/1.1 404 ")
    writer.close()
    assert await node.stop() == 0


async def test_a_stop_during_the_start_is_clean_too(make_node: MakeNode) -> None:
    """The process ends at once and leaves nothing behind."""
    node = make_node()
    await node.spawn()
    async with asyncio.timeout(TIMEOUT):
        while not (node.data / "palaver.lock").exists():
            await asyncio.sleep(0.01)
    assert await node.stop(signal.SIGINT) == 0
    assert await node.start()
    assert await node.stop() == 0


@pytest.mark.parametrize(
    "moment", ["palaver.lock", "signing.key", "tls/certificate.pem", "postgres/18.new*", "postgres/18", "palaver.sock"]
)
async def test_a_kill_during_the_start_is_survived(make_node: MakeNode, moment: str) -> None:
    """`kill -9` as soon as a file appears; the next start works with what it finds."""
    node = make_node()
    await node.spawn()
    async with asyncio.timeout(TIMEOUT):
        while not list(node.data.glob(moment)):
            await asyncio.sleep(0.001)
    await node.kill()
    await node.start()
    assert (await node.get("/health/ready", "http"))[0] == 200
    key = (await node.get("/_matrix/key/v2/server"))[1]["verify_keys"]
    await node.kill()
    await node.start()
    assert (await node.get("/_matrix/key/v2/server"))[1]["verify_keys"] == key
    assert await node.stop() == 0


async def test_a_killed_postgres_is_restarted(make_node: MakeNode) -> None:
    """The node keeps running, reports that it is not ready, and recovers by itself."""
    node = make_node()
    await node.start()
    node.log.clear()
    os.kill(_postgres_of(node), signal.SIGKILL)
    await node.logged("Postgres exited unexpectedly.")
    await node.logged("Postgres is running.")
    status = 503
    while status != 200:
        status, _ = await node.get("/health/ready", "http")
    assert await node.stop() == 0


async def test_a_second_start_reuses_everything(make_node: MakeNode) -> None:
    """Same key, certificate and database; nothing is created again."""
    node = make_node()
    await node.start()
    before = {path: path.read_bytes() for path in (node.data / "signing.key", node.data / "tls" / "ca.pem")}
    assert await node.stop() == 0
    node.log.clear()
    await node.start()
    assert {path: path.read_bytes() for path in before} == before
    assert "Created a new database." not in [line["event"] for line in node.log]
    assert "Migrating the database." not in [line["event"] for line in node.log]


async def test_all_lines_of_the_log_are_json(make_node: MakeNode, tmp_path: Path) -> None:
    """Without a terminal, every line is one object with a time and a level; none contains a secret."""
    node = make_node()
    await node.start()
    assert await node.stop() == 0
    seed = (node.data / "signing.key").read_text().split()[2]
    assert node.log
    for line in node.log:
        assert {"event", "level", "timestamp"} <= set(line), line
        assert seed not in json.dumps(line)
