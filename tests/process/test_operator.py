"""An operator's questions about other servers, between two installations."""

import asyncio
from typing import Any

import pytest

from tests.support.node import TIMEOUT, MakeNode, Node

pytestmark = pytest.mark.process


NOW = "(extract(epoch FROM now()) * 1000)::bigint"


def knowing(node: Node, other: Node) -> None:
    """Make the node admit the other, with its development authority."""
    authority = other.data / "tls" / "ca.pem"
    (node.directory / "palaver.toml").write_text(
        f'[[peers]]\nserver_name = "localhost:{other.port}"\nauthority = "{authority}"\n'
    )


@pytest.fixture
async def pair(make_node: MakeNode) -> tuple[Node, Node]:
    """Two nodes that admit each other."""
    here, there = make_node(), make_node()
    # The first start creates the certificate that the other node needs.
    await there.start()
    knowing(here, there)
    await here.start()
    assert await there.stop() == 0
    knowing(there, here)
    await there.start()
    return here, there


def name(node: Node) -> str:
    return f"localhost:{node.port}"


def texts(checked: dict[str, Any], verdict: str) -> str:
    return " ".join(one["text"] for one in checked["findings"] if one["verdict"] == verdict)


async def test_a_peer_is_checked_and_listed(pair: tuple[Node, Node]) -> None:
    """While it is healthy, offline, and not admitted; and this node, as others see it."""
    here, there = pair
    code, checked = await here.cli("peers", "check", name(there))
    assert (code, texts(checked, "fault")) == (0, "")
    assert f"It accepts the signature of {name(here)}." in texts(checked, "fine")
    code, checked = await here.cli("peers", "check", "--self")
    assert code == 0
    assert "points every machine to itself" in texts(checked, "warning")
    assert "Only servers that trust its authority" in texts(checked, "warning")
    _, listed = await here.cli("peers", "list")
    assert [(peer["server"], peer["configured"]) for peer in listed["peers"]] == [(name(there), True)]
    _, audit = await here.cli("audit", "--peer", name(there))
    assert {act["direction"] for act in audit["acts"]} == {"out"}

    await there.kill()
    code, checked = await here.cli("peers", "check", name(there))
    assert code == 1
    assert "connection refused" in texts(checked, "fault")
    code, checked = await here.cli("peers", "check", "localhost:1")
    assert code == 1
    assert "does not allow it" in texts(checked, "fault")


async def test_queued_events_are_sent_when_the_peer_is_back(pair: tuple[Node, Node]) -> None:
    """The queue is shown, and sent as soon as the operator requests a retry, before the node's own back-off
    ends."""
    here, there = pair
    assert await here.cli("queue") == (0, {"servers": [], "total": 0, "pdus": 0, "edus": 0})
    outage = f"INSERT INTO outages VALUES ('{name(there)}', {NOW} - 3600000, 10, {NOW} + 3600000)"
    queued = "INSERT INTO outbox_edus (destination, edu_type, content, queued_at)"
    await psql(here, f"{outage}; {queued} VALUES ('{name(there)}', 'org.test', '{{}}', {NOW})")
    # The node did not queue this itself: its next look at all queues finds it.
    waiting = await until(here, "queue", lambda queue: any(one["catching_up"] for one in queue["servers"]))
    [server] = waiting["servers"]
    assert (server["server"], server["edus"], server["state"]) == (name(there), 1, "backing_off")
    assert server["failures"] == 10
    code, retried = await here.cli("peers", "retry", "--all")
    assert (code, retried["tried"]) == (0, [{"server": name(there), "waiting": True}])
    await until(here, "queue", lambda queue: not queue["servers"])
    code, refused = await here.cli("peers", "retry", "stranger.test")
    assert (code, "does not allow federation with" in refused["problem"]) == (1, True)


async def test_missing_rooms_and_events(pair: tuple[Node, Node]) -> None:
    """The errors say what to do, without a traceback. A node has its own rooms from the beginning."""
    here, _ = pair
    code, listed = await here.cli("rooms", "list")
    aliases = {room["canonical_alias"].partition(":")[0] for room in listed["rooms"]}
    assert (code, aliases) == (0, {"#agents-default", "#agent-broadcast", "#agent-federation-default"})
    for words in (["rooms", "show", "!a:b"], ["rooms", "leave", "!a:b", "--yes"], ["events", "show", "$a"]):
        code, refused = await here.cli(*words)
        assert (code, bool(refused["advice"])) == (1, True), words
    assert not any("Traceback" in str(line) for line in here.log)


async def psql(node: Node, statement: str) -> None:
    process = await asyncio.create_subprocess_exec(
        str(node.command), "db", "shell", "--", "-c", statement, cwd=node.directory, env=node.env
    )
    assert await asyncio.wait_for(process.wait(), TIMEOUT) == 0


async def until(node: Node, command: str, condition: Any) -> dict[str, Any]:
    """Poll the state of another process until the condition holds."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            code, answer = await node.cli(command)
            assert code == 0, answer
            if condition(answer):
                return answer
            await asyncio.sleep(0.1)
