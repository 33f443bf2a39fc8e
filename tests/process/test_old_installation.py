"""An installation of an earlier commit keeps working: with its data directory unchanged, and with its dump in
a new node.

`old_installation/make_old_installation.py` created both, and describes how.
"""

import asyncio
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from storage.embedded.home import choose_identity
from tests.bridge.connectors.offices.clients import Clients
from tests.process.agent_nodes import until
from tests.support.node import TIMEOUT, Node
from tests.support.ports import lasting_port

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("old installation")]
KEPT = Path(__file__).parent / "old_installation"
NAME, OTHER, ADDED = "old.test", "other.test", "workshop.test"
# As if the node had been stopped a moment ago: tasks have time limits, and are forgotten one day.
STOPPED_NOW = """
CREATE TEMP TABLE age AS
    SELECT (extract(epoch FROM now()) * 1000)::bigint - max(received_at) AS ms FROM tasks;
UPDATE tasks SET received_at = received_at + ms, deadline = deadline + ms, started_at = started_at + ms,
    finished_at = finished_at + ms FROM age;
UPDATE people_tasks SET made_at = made_at + ms FROM age;
UPDATE audit SET at = at + ms * interval '1 millisecond' FROM age;
"""


@dataclass
class OldNode(Node):
    """Its configuration is that of the archive, except for the port."""

    @property
    def env(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PALAVER_")}
        return {**inherited, "PALAVER_LISTENER__PORT": str(self.port), **self.environment}

    @property
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads((self.directory / "facts.json").read_text())
        return facts

    async def ask(self, *words: str) -> dict[str, Any]:
        code, answer = await self.cli(*words)
        assert code == 0, answer
        return answer

    async def shows_any(self, event_ids: list[str], text: str) -> bool:
        for event_id in event_ids:
            if text in json.dumps(await self.ask("events", "show", event_id)):
                return True
        return False

    async def task_over(self, task: str) -> dict[str, Any]:
        async def over() -> dict[str, Any] | None:
            shown = await self.ask("task", "show", task)
            return shown if shown["answer"] is not None else None

        return await until(over)


def unpack(directory: Path) -> None:
    with tarfile.open(KEPT / "old.tar.xz") as archive:
        # Newer versions of Python have a filter for archives; the first ones of 3.11 do not.
        archive.extraction_filter = getattr(tarfile, "tar_filter", None)
        archive.extractall(directory)
    identity = choose_identity("nobody", os.geteuid())
    if identity is not None:
        # The archive does not know as which user Postgres runs here.
        home = directory / "data" / "postgres"
        for path in (home, *home.rglob("*")):
            os.chown(path, identity.uid, identity.gid)


@pytest.fixture(scope="module", params=["data directory", "dump"])
async def old(request: pytest.FixtureRequest, palaver: Path) -> AsyncIterator[OldNode]:
    """The node, started with the current program."""
    # Not below the directory of the test: the path of a Unix socket has 107 bytes.
    directory = Path(tempfile.mkdtemp(prefix="palaver-old-"))
    node = OldNode(palaver, directory, lasting_port(), 0)
    try:
        unpack(directory)
        if request.param == "dump":
            shutil.rmtree(node.data / "postgres")
            await node.ask("db", "restore", str(KEPT / "old.dump"))
        shift = await asyncio.create_subprocess_exec(
            str(palaver), "db", "shell", "--", "-q", "-v", "ON_ERROR_STOP=1", "-c", STOPPED_NOW,
            cwd=directory, env=node.env,
        )  # fmt: skip
        assert await asyncio.wait_for(shift.wait(), TIMEOUT) == 0
        await node.start()
        yield node
    finally:
        await node.clean_up()
        shutil.rmtree(directory, ignore_errors=True)


async def test_rooms_and_events_are_kept(old: OldNode) -> None:
    """With the members of both servers, and readable messages."""
    rooms = {room["canonical_alias"]: room for room in (await old.ask("rooms", "list"))["rooms"]}
    for alias, room_id in old.facts["rooms"].items():
        assert rooms[alias]["room_id"] == room_id
        dag = await old.ask("rooms", "dag", room_id, "--limit", "200")
        assert set(old.facts["events"][room_id]) <= {event["event_id"] for event in dag["events"]}
        if alias == f"#agents-default:{NAME}":
            messages = [event["event_id"] for event in dag["events"] if event["type"] == "m.room.message"]
            assert await old.shows_any(messages, "at home")
    assert rooms[f"#agent-federation-default:{NAME}"]["servers"] == 2


async def test_the_signing_key_is_kept(old: OldNode) -> None:
    """The previous key is still published."""
    assert await old.ask("keys", "show") == old.facts["key"]
    _, published = await old.get("/_matrix/key/v2/server")
    assert set(published["verify_keys"]) == {old.facts["key"]["key_id"]}
    assert set(published["old_verify_keys"]) == set(old.facts["key"]["old_keys"])


async def test_tasks_are_kept(old: OldNode) -> None:
    """Finished tasks stay finished, running ones are lost, queued ones run, and those for an unreachable node
    stay queued."""
    for task, success, output in (
        ("at-home", True, "at home\n"),
        ("over-there", True, "over there\n"),
        ("failed", False, ""),
        ("waiting", True, "late\n"),
    ):
        answer = (await old.task_over(task))["answer"]
        assert (answer["success"], answer["output"]) == (success, output), task
    assert (await old.task_over("begun"))["answer"]["error_code"] == "NODE_UNREACHABLE"
    assert (await old.ask("task", "show", "out"))["to"] == f"worker@{OTHER}"
    assert (await old.ask("task", "show", f"for-other@{OTHER}"))["state"] == "done"


async def test_peers_are_kept(old: OldNode) -> None:
    """The configured one, with its queued events, and the one that was added."""
    peers = {peer["node_id"]: peer["from"] for peer in (await old.ask("peers", "list"))["agent_peers"]}
    assert peers == {OTHER: "configuration", ADDED: "added"}
    [waiting] = (await old.ask("queue"))["servers"]
    assert (waiting["server"], waiting["pdus"] > 0) == (OTHER, True)
    acts = (await old.ask("audit", "--peer", OTHER, "--limit", "500"))["acts"]
    asked = {(act["direction"], act["act"]) for act in acts}
    assert {("in", "io.cis.agent.task.request"), ("out", "io.cis.agent.task.request")} <= asked


async def test_an_agent_token_still_works(old: OldNode) -> None:
    """The program with this token attaches itself, and runs tasks."""
    [token] = (await old.ask("agents", "token", "list"))["tokens"]
    assert (token["agent_id"], token["state"], token["note"]) == ("helper", "good", "of the old node")
    program = await asyncio.create_subprocess_exec(
        str(old.command), "agent", "run", "--id", "helper", "--token-file", "helper.token",
        "--url", old.url(""), "--authority", str(old.data / "tls" / "ca.pem"), "--", "sh",
        cwd=old.directory, env=old.env,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:

        async def there() -> bool:
            listed = (await old.ask("agents", "list"))["agents"]
            return any(agent["address"] == f"helper@{NAME}" for agent in listed)

        await until(there)
        await old.ask("task", "send", "helper", "echo new", "--id", "new", "--no-wait")
        assert (await old.task_over("new"))["answer"]["output"] == "new\n"
    finally:
        program.kill()
        await program.wait()


async def test_an_office_token_and_its_calls_are_kept(old: OldNode) -> None:
    """A Computer rejoins its office, whose room and calls are unchanged."""
    [token] = (await old.ask("offices", "token", "list"))["tokens"]
    assert (token["owner"], token["offices"], token["state"]) == ("the lab", ["build-*"], "good")
    async with AsyncExitStack() as stack:
        clients = Clients(old.url("", "http"), stack)
        await clients.computer("bench", "build-7", token=(old.directory / "office.token").read_text())
        [office] = (await old.ask("offices", "list"))["offices"]
        assert office["office_id"] == "build-7"
    assert (await old.ask("offices", "show", "build-7"))["calls"] == old.facts["calls"]
    room = await old.ask("rooms", "show", f"#office-build-7:{NAME}")
    assert room["room_id"] == old.facts["rooms"][f"#office-build-7:{NAME}"]
