"""Nodes with agents that are killed while they work, and a scripted published CIS node: processes of the
installed wheel, created from their configuration files alone."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from nacl.signing import SigningKey

from bridge.connectors.cis.protocol.envelope import Envelope
from bridge.connectors.cis.protocol.envelope import read as read_envelope
from bridge.connectors.cis.protocol.envelope import write as write_envelope
from bridge.connectors.cis.protocol.published import sign
from tests.bridge.connectors.cis.published_node import PublishedNode, published_node
from tests.process.agent_nodes import AgentNode, agent_nodes
from tests.support.postgres import Server

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("agent nodes")]
KITCHEN, LIVING = "kitchen.test", "living.test"
WORKER = f"worker@{KITCHEN}"
SILENCE = 8.0
"""Seconds after which a program attached to the kitchen is offline."""
KEY = SigningKey(b"k" * 32)
PUBLISHED = """
[[agent_federation.peers]]
node_id = "old.test"
url = "{url}"
profile = "cis-1.1"

[[agent_federation.peers]]
node_id = "signed.test"
url = "{url}"
profile = "cis-1.1"
signing_key = "{key}"
require_signature = true

[[agent_federation.peers]]
node_id = "elsewhere.test"
url = "{url}"
profile = "cis-1.1"
networks = ["192.0.2.1/32"]
"""


@pytest.fixture(scope="module")
async def old() -> AsyncIterator[PublishedNode]:
    async with published_node("old.test") as node:
        yield node


@pytest.fixture(scope="module")
async def nodes(
    palaver: Path, postgres_server: Server, migrated_template: str, old: PublishedNode
) -> AsyncIterator[list[AgentNode]]:
    """The kitchen has working agents, and the living room requests tasks. A test that kills a node must start
    it again."""
    published = PUBLISHED.format(url=old.url, key=bytes(KEY.verify_key).hex())
    kitchen = {"name": KITCHEN, "agents": ["worker"], "more": published, "agent_timeout": SILENCE}
    living = {"name": LIVING, "agents": ["reader"]}
    async with agent_nodes(palaver, postgres_server, migrated_template, kitchen, living) as made:
        await made[0].sees(WORKER, f"reader@{LIVING}")
        await made[1].sees(WORKER)
        yield made


@pytest.fixture
def kitchen(nodes: list[AgentNode]) -> AgentNode:
    return nodes[0]


@pytest.fixture
def living(nodes: list[AgentNode]) -> AgentNode:
    return nodes[1]


def _waits_for(node: AgentNode, name: str) -> str:
    return f"echo begun; until [ -e {node.work / name} ]; do sleep 0.02; done; echo {name}"


async def test_a_task_runs_on_another_node(kitchen: AgentNode, living: AgentNode) -> None:
    """`palaver task send`: the agent's output and exit code are returned, and it ran once."""
    code, output = await living.palaver("task", "send", WORKER, "echo to you; exit 7", "--id", "across")
    assert (code, output) == (7, "to you\n")
    answer = (await living.answered("across"))["answer"]
    assert (answer["success"], answer["output"], answer["exit_code"]) == (False, "to you\n", 7)
    assert kitchen.begun()["across"] == 1


async def test_the_agents_node_is_killed_during_a_task(kitchen: AgentNode, living: AgentNode) -> None:
    """The running task is answered as lost and does not run again; the queued one runs once. No process of
    the agent survives its node."""
    await living.ask(WORKER, _waits_for(kitchen, "never"), "lost")
    process = await kitchen.until_begun("lost")
    await living.ask(WORKER, "echo late", "waiting")
    await kitchen.kill()
    while _is_alive(process):
        await asyncio.sleep(0.02)
    await kitchen.start()
    answer = (await living.answered("lost"))["answer"]
    assert (answer["success"], answer["error_code"]) == (False, "NODE_UNREACHABLE")
    assert answer["metadata"]["interrupted"] is True
    answer = (await living.answered("waiting"))["answer"]
    assert (answer["success"], answer["output"]) == (True, "late\n")
    assert (kitchen.begun()["lost"], kitchen.begun()["waiting"]) == (1, 1)
    assert ["lost", "ends", "0"] not in kitchen.runs()


async def test_the_requesters_node_is_killed_during_a_task(kitchen: AgentNode, living: AgentNode) -> None:
    """The task goes on. After its restart the node receives the answer once; a request with the same id is
    the same task."""
    await living.ask(WORKER, _waits_for(kitchen, "go-on"), "patient")
    await kitchen.until_begun("patient")
    await living.kill()
    await kitchen.misses(f"reader@{LIVING}")
    kitchen.go_on("go-on")
    answered = await kitchen.answered("patient")
    await living.start()
    task = await living.answered("patient")
    assert (task["state"], task["answer"]["output"]) == ("done", "begun\ngo-on\n")
    assert task["answer"]["output"] == answered["answer"]["output"]
    await living.ask(WORKER, _waits_for(kitchen, "go-on"), "patient")
    assert (await living.task("patient"))["finished_at"] == task["finished_at"]
    await living.sees(WORKER)
    await living.ask(WORKER, "echo after", "after")
    await living.answered("after")
    assert kitchen.begun()["patient"] == 1


async def test_the_agents_process_is_killed(kitchen: AgentNode, living: AgentNode) -> None:
    """The task fails with the code of the signal; the agent runs the next task."""
    await living.ask(WORKER, _waits_for(kitchen, "not-at-all"), "killed")
    os.kill(await kitchen.until_begun("killed"), signal.SIGKILL)
    answer = (await living.answered("killed"))["answer"]
    assert (answer["success"], answer["exit_code"], answer["error_code"]) == (False, 128 + 9, None)
    await living.ask(WORKER, "echo next", "next")
    assert (await living.answered("next"))["answer"]["output"] == "next\n"
    assert kitchen.begun()["killed"] == 1


async def test_an_attached_program_is_killed(kitchen: AgentNode, living: AgentNode) -> None:
    """After the configured timeout its agent is reported offline, on its own node and on others, and its task
    has failed. Another program may attach as this agent, and does not run the task again."""
    helper = f"helper@{KITCHEN}"
    async with kitchen.attached("helper") as process:
        await living.sees(helper)
        await living.ask(helper, "echo from beside", "beside")
        assert (await living.answered("beside"))["answer"]["output"] == "from beside\n"
        await living.ask(helper, _waits_for(kitchen, "nothing"), "with-it")
        command = await kitchen.until_begun("with-it")
        process.send_signal(signal.SIGKILL)
        await process.wait()
        for node in (kitchen, living):
            assert "helper" in await node.misses(helper)
        answer = (await living.answered("with-it"))["answer"]
        # Either the lost lease of the task or the missing agent is detected first.
        assert answer["error_code"] in ("NODE_UNREACHABLE", "AGENT_NOT_FOUND")
        assert not answer["success"]
        while _is_alive(command):
            await asyncio.sleep(0.02)
    async with kitchen.attached("helper"):
        await living.sees(helper)
        await living.ask(helper, "echo as before", "as-before")
        assert (await living.answered("as-before"))["answer"]["output"] == "as before\n"
    assert kitchen.begun()["with-it"] == 1


def _is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# ---- a published node, which uses plain HTTP and sends one event at a time -----------------------------


def _flat(event: dict[str, Any]) -> dict[str, Any]:
    return {**event, "content": {"event_type": event["type"], **event["content"]["payload"]}}


def _signed_by(name: str, event: dict[str, Any], key: SigningKey) -> bytes:
    envelope = read_envelope(orjson.dumps(event))
    assert isinstance(envelope, Envelope)
    return write_envelope(sign(envelope, name, key))


@pytest.mark.parametrize("form", ["nested", "flat"])
async def test_tasks_are_exchanged_with_a_published_node(kitchen: AgentNode, old: PublishedNode, form: str) -> None:
    """With both shapes of content: its agent gets a task, and its own request is answered in the shape that
    it reads. A repeated event is handled once."""

    def shaped(event: dict[str, Any]) -> dict[str, Any]:
        return event if form == "nested" else _flat(event)

    url = kitchen.url("", "http")
    agent, request = f"old-{form}", f"published-{form}"
    event = shaped(old.registered(agent))
    assert await old.send(url, event) == (200, {"accepted": True, "event_id": event["event_id"]})
    await kitchen.sees(f"{agent}@old.test")

    event = shaped(old.request(WORKER, request_id=request))
    payload = event["content"]["payload"] if form == "nested" else event["content"]
    payload["task"]["prompt"] = f"echo for {form}"
    for _ in range(2):
        assert (await old.send(url, event))[0] == 200
    answer = (await old.next("task.response"))["content"]["payload"]
    assert (answer["request_id"], answer["result"]["output"]) == (request, f"for {form}\n")

    await kitchen.ask(f"{agent}@old.test", "peel the potatoes", f"ours-{form}")
    asked = (await old.next("task.request"))["content"]["payload"]
    assert asked["task"]["prompt"] == "peel the potatoes"
    result = {"success": True, "output": "peeled", "exit_code": 0, "metadata": {}}
    said = {
        "request_id": asked["request_id"],
        "from_agent": f"{agent}@old.test",
        "to_agent": asked["from_agent"],
        "result": result,
    }
    response = shaped(old.event("task.response", said, to=KITCHEN, agent=agent))
    assert (await old.send(url, response))[0] == 200
    assert (await kitchen.answered(f"ours-{form}"))["answer"]["output"] == "peeled"
    assert kitchen.begun()[request] == 1


@pytest.mark.parametrize("form", ["nested", "flat"])
@pytest.mark.parametrize(
    ("changed", "status", "words"),
    [
        ({"sender": "@old-1:stranger.test", "origin": "stranger.test"}, 403, "not configured as a peer"),
        ({"sender": "@old-1:elsewhere.test", "origin": "elsewhere.test"}, 403, "not configured as a peer"),
        ({"sender": f"@worker:{LIVING}", "origin": LIVING}, 403, "not configured as a peer"),
        ({"sender": "@old-1:signed.test"}, 403, "not signed"),
        ({"origin": "old.test", "sender": "@old-1:signed.test"}, 403, "sender"),
        ({"room_id": "!agent-federation-secret:old.test"}, 403, "namespace"),
        ({"room_id": f"!agent-federation-default:{LIVING}"}, 403, "another node"),
        ({"room_id": f"!agent-broadcast:{KITCHEN}"}, 403, "its own room"),
        ({"room_id": "!somewhere:old.test"}, 403, "not a room of agents"),
        ({"type": "io.cis.agent.message"}, 400, "INVALID_PAYLOAD: event_type"),
        ({"event_id": "nonsense"}, 400, "INVALID_PAYLOAD: event_id"),
        ({"origin_server_ts": "now"}, 400, "INVALID_PAYLOAD: origin_server_ts"),
        ({"content": {}}, 400, "INVALID_PAYLOAD: agent_id is missing"),
    ],
)
async def test_invalid_events_are_refused(
    kitchen: AgentNode, old: PublishedNode, form: str, changed: dict[str, Any], status: int, words: str
) -> None:
    """From an unknown node, from another network, without a required signature, in the wrong room, or
    malformed; with the wrong field. All in the shape that published nodes read."""
    event = old.registered("intruder")
    event = {**(event if form == "nested" else _flat(event)), **changed}
    got, answer = await old.send(kitchen.url("", "http"), event)
    assert (got, answer["accepted"]) == (status, False), answer
    assert words in answer["error"]
    assert set(answer) == {"accepted", "error", "event_id"}
    assert await kitchen.misses("intruder@old.test")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("agent_id", None),
        ("agent_id", "a@b"),
        ("node_id", 7),
        ("runtime_type", ["claude"]),
        ("capabilities", "all"),
        ("timestamp", "yesterday"),
    ],
)
@pytest.mark.parametrize("form", ["nested", "flat"])
async def test_a_malformed_field_is_named(
    kitchen: AgentNode, old: PublishedNode, form: str, field: str, value: Any
) -> None:
    """By its path in the shape that was sent."""
    event = old.registered("intruder")
    event["content"]["payload"][field] = value
    got, answer = await old.send(kitchen.url("", "http"), event if form == "nested" else _flat(event))
    path = f"payload.{field}" if form == "nested" else field
    assert (got, answer["accepted"]) == (400, False), answer
    assert answer["error"].startswith(f"INVALID_PAYLOAD: {path} "), answer


@pytest.mark.parametrize("form", ["nested", "flat"])
async def test_the_signature_of_a_peer_with_a_key_is_checked(kitchen: AgentNode, old: PublishedNode, form: str) -> None:
    """With another key, or over other content, the event is refused; with the right key it is accepted."""
    url, name = kitchen.url("", "http"), f"signer-{form}"
    event = {**old.registered(name, node_id="signed.test"), "sender": f"@{name}:signed.test"}
    event["room_id"] = "!agent-federation-default:signed.test"
    event = event if form == "nested" else _flat(event)
    forged = orjson.loads(_signed_by("signed.test", event, KEY))
    forged["origin_server_ts"] += 1
    for bad in (_signed_by("signed.test", event, SigningKey(b"x" * 32)), orjson.dumps(forged)):
        got, answer = await old.send(url, bad)
        assert (got, answer["accepted"]) == (403, False)
        assert "signature" in answer["error"]
    assert await kitchen.misses(f"{name}@signed.test")
    assert (await old.send(url, _signed_by("signed.test", event, KEY)))[0] == 200
    await kitchen.sees(f"{name}@signed.test")


async def test_a_node_without_published_peers_refuses_everything(living: AgentNode, old: PublishedNode) -> None:
    """Without parsing it."""
    for event in (old.registered(), b"nonsense"):
        got, answer = await old.send(living.url("", "http"), event)
        assert (got, answer["accepted"]) == (403, False)
        assert "not configured as a peer" in answer["error"]
