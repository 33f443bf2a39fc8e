"""Makes the two archives that `test_old_installation.py` starts from: a data directory and a dump of a node.

Run it with the `palaver` of the commit whose installations must keep working:

    git worktree add ../old fce7198 && make -C ../old .venv/.development
    ../old/.venv/bin/python tests/process/old_installation/make_old_installation.py ../old/.venv/bin/palaver

Two nodes run on loopback: `old.test`, which is kept, and `other.test`, its peer. All keys are throw-away
material.
"""

import asyncio
import base64
import json
import shutil
import struct
import sys
import tarfile
import tempfile
import zlib
from pathlib import Path
from typing import Any

import socketio

HERE = Path(__file__).parent
NAME, OTHER = "old.test", "other.test"
PORTS = {NAME: 17_676, OTHER: 17_677}
ABSENT = "workshop.test"
NAMESPACE = "/smcp"
LONG = ("--timeout", "3600", "--no-wait")
CONFIGURATION = """
server_name = "{name}"
data_dir = "data"

[listener]
hosts = ["127.0.0.1"]
port = {port}

[metrics]
enabled = false

[people]
enabled = true

[offices]
enabled = true

[agent_federation]
heartbeat_interval_secs = 1

[[agents]]
id = "worker"
command = ["sh"]

[[agent_federation.peers]]
node_id = "{peer}"

[[peers]]
server_name = "{peer}"
address = "127.0.0.1:{peer_port}"
authority = "{peer}.pem"
"""


class Installation:
    """A node in a directory of its own."""

    def __init__(self, command: Path, above: Path, name: str, peer: str) -> None:
        self.command, self.name = command, name
        self.directory = above / name
        self.directory.mkdir()
        self.process: asyncio.subprocess.Process | None = None
        text = CONFIGURATION.format(name=name, port=PORTS[name], peer=peer, peer_port=PORTS[peer])
        (self.directory / "palaver.toml").write_text(text)

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            str(self.command), "run", "--json", cwd=self.directory,
            stdout=asyncio.subprocess.PIPE, stderr=(self.directory / "log").open("a"),
        )  # fmt: skip
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        assert line, (self.directory / "log").read_text()

    async def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        await self.process.wait()

    async def cli(self, *words: str, code: int | None = 0) -> Any:
        process = await asyncio.create_subprocess_exec(
            str(self.command), *words, "--json", cwd=self.directory,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await process.communicate()
        assert code is None or process.returncode == code, (words, out, err)
        return json.loads(out.splitlines()[-1]) if out else None

    async def until(self, *words: str, holds: Any) -> Any:
        while True:
            answer = await self.cli(*words, code=None)
            if holds(answer):
                return answer
            await asyncio.sleep(0.1)

    async def sql(self, statement: str) -> str:
        process = await asyncio.create_subprocess_exec(
            str(self.command), "db", "shell", "--", "-At", "-c", statement,
            cwd=self.directory, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, _ = await process.communicate()
        assert process.returncode == 0, statement
        return out.decode()


async def main(command: Path) -> None:
    # Postgres may store paths, so this one does not identify the machine.
    above = Path(tempfile.gettempdir()) / "old-installation"
    shutil.rmtree(above, ignore_errors=True)
    above.mkdir()
    old, other = Installation(command, above, NAME, OTHER), Installation(command, above, OTHER, NAME)
    await exchange_authorities(old, other)
    await old.cli("keys", "rotate")
    await asyncio.gather(old.start(), other.start())
    try:
        await fill(old, other)
        await other.kill()
        await leave_work_undone(old)
    finally:
        for one in (old, other):
            if one.process is not None and one.process.returncode is None:
                await one.kill()
    # Starts the killed node's database, and stops it in good order.
    await old.sql("VACUUM")
    await old.cli("db", "dump", str(HERE / "old.dump"), "--force")
    pack(old)
    shutil.rmtree(above)


async def exchange_authorities(*nodes: Installation) -> None:
    """The first start of a node creates its certificate. Its peer's certificate is configured before."""
    for one in nodes:
        (one.directory / "palaver.toml").rename(one.directory / "kept.toml")
        text = (one.directory / "kept.toml").read_text().partition("[[agent_federation.peers]]")[0]
        (one.directory / "palaver.toml").write_text(text)
        await one.start()
        await one.stop()
        (one.directory / "kept.toml").rename(one.directory / "palaver.toml")
    for one, peer in zip(nodes, reversed(nodes), strict=True):
        shutil.copy(peer.directory / "data" / "tls" / "ca.pem", one.directory / f"{peer.name}.pem")


async def fill(old: Installation, other: Installation) -> None:
    for one, address in ((old, f"worker@{OTHER}"), (other, f"worker@{NAME}")):
        await one.until("route", address, holds=lambda said: said.get("decision") not in (None, "unknown"))
    # Work in both directions, done and failed.
    await old.cli("task", "send", "worker", "echo at home", "--id", "at-home")
    await old.cli("task", "send", f"worker@{OTHER}", "echo over there", "--id", "over-there")
    await other.cli("task", "send", f"worker@{NAME}", "echo for you", "--id", "for-other")
    await old.cli("task", "send", "worker", "exit 7", "--id", "failed", code=7)
    await old.cli("peers", "add", ABSENT, "https://127.0.0.1:9")
    token = await old.cli("agents", "token", "create", "helper", "--note", "of the old node")
    (old.directory / "helper.token").write_text(token["token"])
    office = await old.cli("offices", "token", "create", "the lab", "--office", "build-*")
    (old.directory / "office.token").write_text(office["token"])
    await call_a_tool(old, office["token"])


async def call_a_tool(old: Installation, token: str) -> None:
    """Call a tool of a Computer in an office, whose result has an image, which becomes a file of the node."""
    client = socketio.AsyncClient()
    picture = {"type": "image", "data": base64.b64encode(dot()).decode(), "mimeType": "image/png"}
    answer = {"content": [{"type": "text", "text": "3"}, picture], "isError": False}
    client.on("client:tool_call", lambda said: answer, namespace=NAMESPACE)
    await client.connect(
        f"http://127.0.0.1:{PORTS[NAME]}", auth={"token": token}, headers={"x-api-key": token},
        namespaces=[NAMESPACE],
    )  # fmt: skip
    said = await client.call(
        "server:join_office", {"role": "computer", "name": "bench", "office_id": "build-7"}, namespace=NAMESPACE
    )
    assert said[0] is True, said
    await old.cli("offices", "call", "build-7", "bench", "add", '{"a": 1, "b": 2}')
    await client.disconnect()


def dot() -> bytes:
    """A picture of one pixel."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"\0\0")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


async def leave_work_undone(old: Installation) -> None:
    """Kill the node while its agent works, a task waits for the agent, and events wait for the dead peer."""
    await old.cli("task", "send", "worker", "sleep 1000", "--id", "begun", *LONG)
    await old.until("task", "show", "begun", holds=lambda said: said.get("state") == "running")
    await old.cli("task", "send", "worker", "echo late", "--id", "waiting", *LONG)
    await old.cli("task", "send", f"worker@{OTHER}", "echo out", "--id", "out", *LONG)
    await old.until("queue", holds=lambda said: said["pdus"] > 0)
    await write_facts(old)
    await old.kill()


async def write_facts(old: Installation) -> None:
    """What has no name that is known beforehand: the ids of its rooms, events, tokens and its key."""
    rooms = (await old.cli("rooms", "list"))["rooms"]
    events = {}
    for room in rooms:
        dag = await old.cli("rooms", "dag", room["room_id"], "--limit", "100")
        events[room["room_id"]] = [event["event_id"] for event in dag["events"]]
    facts = {
        "rooms": {room["canonical_alias"]: room["room_id"] for room in rooms},
        "events": events,
        "key": await old.cli("keys", "show"),
        "calls": (await old.cli("offices", "calls"))["calls"],
    }
    (old.directory / "facts.json").write_text(json.dumps(facts))


def pack(old: Installation) -> None:
    """Without what names the machine or can be made again."""
    unwanted = {"postmaster.opts", "postgres.log", "log"}
    with tarfile.open(HERE / "old.tar.xz", "w:xz", preset=9) as archive:
        for path in sorted(old.directory.rglob("*")):
            if path.name in unwanted or path.is_socket() or path.is_fifo():
                continue
            entry = archive.gettarinfo(path, str(path.relative_to(old.directory)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            if entry.isreg():
                with path.open("rb") as file:
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).absolute()))
