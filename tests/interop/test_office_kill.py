"""A node, a Computer or an Agent is killed during a tool call. The clients are published ones, and people of
a Synapse watch."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bridge.connectors.offices.rooms.call_events import CALL, RESULT
from tests.interop.office_company import AGENT, COMPUTER, Office, is_call, is_result, office_company, outcome
from tests.interop.staffed_node import Company, answers
from tests.support.smcp import Peers
from tests.support.tls import Authority

pytestmark = [pytest.mark.interop, pytest.mark.process, pytest.mark.xdist_group("office kill")]

OFFICES = """
[offices]
enabled = true

[[offices.rules]]
tool = "*fail"
approval = "ask"
deadline_secs = 600
approvers = ["@alice:{synapse}"]
"""
LIMIT = 5
"""Seconds that the Agent gives a call on which its node is killed."""


@pytest.fixture(scope="module")
async def company(
    palaver: Path, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Company, str]]:
    """One node and one Synapse for all of these tests; a test that stops one of them starts it again."""
    directory = tmp_path_factory.mktemp("synapses")
    async with office_company(palaver, authority, directory, "federation", OFFICES) as made:
        yield made


@pytest.fixture
async def office(company: tuple[Company, str], tmp_path: Path) -> AsyncIterator[Office]:
    """With a Computer and an Agent, and alice in its room."""
    here, token = company
    async with Peers(tmp_path) as peers:
        made = Office(here, token, peers)
        await made.computer_comes()
        await made.shown_to(here.alice)
        await made.agent_comes()
        yield made


async def begun(office: Office, limit: int) -> tuple["asyncio.Task[Any]", str]:
    """Start the longest possible call, and return its message."""
    calling = asyncio.create_task(office.call("slow", limit=limit, seconds=90))
    assert await office.computer.until("tool") == {"word": "begin"}
    call = await office.here.alice.wait_for(is_call("slow"), room_id=office.room_id)
    return calling, str(call["event_id"])


async def audited(office: Office, tool: str) -> list[tuple[str | None, int | None]]:
    """Return how each of these calls has ended and how long it took, from `palaver offices calls`."""
    code, answer = await office.here.node.cli("offices", "calls", "--office", office.office_id)
    assert code == 0, answer
    return [(call["outcome"], call["took_ms"]) for call in answer["calls"] if call["tool_name"] == f"tools__{tool}"]


async def come_back(office: Office) -> None:
    """Both reconnect by themselves, and join again, as their users have to."""
    for peer in (office.agent, office.computer):
        await peer.until("connect")
        peer.forget()
    await office.computer.do("join", office=office.office_id)
    await office.agent.do("join", office=office.office_id, name=AGENT)
    await office.computer.until("notify:enter_office")


async def echoed(office: Office, text: str) -> None:
    """Check that a call works and is shown in the room, and so all earlier events."""
    result = await office.call("echo", text=text)
    assert result["content"][0]["text"] == text
    alice = office.here.alice
    call = await alice.wait_for(
        lambda event: event["content"].get(CALL, {}).get("params") == {"text": text}, room_id=office.room_id
    )
    await alice.wait_for(is_result(call["event_id"]), room_id=office.room_id)


async def test_a_node_is_killed(office: Office) -> None:
    """Connections end, and the Agent never waits beyond its own time limit. After the restart the
    node reports once that the call was interrupted, to people and in the audit, however often it is killed;
    the Computer reconnects and works."""
    node, alice = office.here.node, office.here.alice
    calling, root = await begun(office, LIMIT)
    for peer in (office.agent, office.computer):
        peer.forget()
    await node.kill()
    await office.agent.until("disconnect")
    await office.computer.until("disconnect")

    await node.start()
    await come_back(office)
    told = await alice.wait_for(is_result(root), room_id=office.room_id)
    assert (outcome(told), told["sender"]) == ("interrupted", node.user("palaver"))
    assert "took_ms" not in told["content"][RESULT]
    assert "The node stopped before the tool answered" in told["content"]["body"]
    result = await calling
    assert result["isError"]
    await echoed(office, "once more")
    assert await audited(office, "slow") == [("interrupted", None)]

    for _ in range(2):
        await node.kill()
        await node.start()
        await come_back(office)
    await echoed(office, "and again")
    assert await audited(office, "slow") == [("interrupted", None)]
    assert [outcome for outcome, _ in await audited(office, "echo")] == ["done", "done"]
    thread = await alice.relations(office.room_id, root, "m.thread")
    assert [event["event_id"] for event in thread] == [told["event_id"]]
    members = await alice.joined_members(office.room_id)
    assert {office.user(AGENT), office.user(COMPUTER)} <= set(members)


async def test_a_computer_is_killed(office: Office) -> None:
    """The Agent and the room get the error at once."""
    calling, root = await begun(office, 60)
    office.agent.forget()
    await office.computer.kill()
    result = await calling
    assert result["isError"]
    assert (await office.agent.until("ack client:tool_call"))["code"] == 404
    told = await office.here.alice.wait_for(is_result(root), room_id=office.room_id)
    assert outcome(told) == "not_found"
    [(how, _)] = await audited(office, "slow")
    assert how == "not_found"


async def test_an_agent_is_killed(office: Office) -> None:
    """The Computer is asked to stop, and the tool ends; the room shows that the call was cancelled. Another
    Agent can join at once."""
    calling, root = await begun(office, 60)
    calling.cancel()
    await office.agent.kill()
    cancelled = await office.computer.until("notify:tool_call_cancel")
    assert cancelled["agent"] == office.expectations.agent_id
    assert await office.computer.until("tool") == {"word": "cancelled"}
    told = await office.here.alice.wait_for(is_result(root), room_id=office.room_id)
    assert outcome(told) == "cancelled"
    [(how, _)] = await audited(office, "slow")
    assert how == "cancelled"
    await office.agent_comes()
    await echoed(office, "next")


async def test_a_node_is_killed_during_an_approval(office: Office) -> None:
    """The question does not survive: the thread shows that the call was interrupted, and a later answer
    starts nothing."""
    node, alice = office.here.node, office.here.alice
    calling = asyncio.create_task(office.call("fail", limit=LIMIT))
    call = await alice.wait_for(is_call("fail"), room_id=office.room_id)
    root = call["event_id"]
    question = await alice.wait_for(answers(root, "❓"), room_id=office.room_id)
    for peer in (office.agent, office.computer):
        peer.forget()
    await node.kill()
    await node.start()
    await come_back(office)
    told = await alice.wait_for(is_result(root), room_id=office.room_id)
    assert outcome(told) == "interrupted"
    assert (await calling)["isError"]
    await alice.react(office.room_id, question["event_id"], "✅")
    # Later events arrive later on the same connection.
    calling, running = await begun(office, 60)
    await alice.react(office.room_id, running, "❌")
    await alice.wait_for(answers(running, f"{alice.user_id} cannot stop this call"))
    assert [said["tool_name"] for said in office.computer.heard("client:tool_call")] == ["tools__slow"]
    assert await audited(office, "fail") == [("interrupted", None)]
    carol = office.here.carol
    await carol.join(office.alias)
    await carol.react(office.room_id, running, "❌")
    assert (await calling)["isError"]
