"""Steps: joining, being a member and leaving."""

import asyncio
from typing import Any

import pytest

from tests.support.smcp.expectations import Expectations, both, forget, refused
from tests.support.smcp.processes import PublishedAgent, PublishedComputer, Refused
from tests.support.smcp.walk_calls import call, walk_call


async def connect(peer: PublishedAgent | PublishedComputer, x: Expectations) -> Any:
    """Connect; return the driver's description of the connection."""
    if isinstance(peer, PublishedAgent):
        return await peer.do("connect", url=x.url, token=x.token, agent=x.agent_id, office=x.office)
    return await peer.do("connect", url=x.computer_url or x.url, token=x.computer_token or x.token)


async def refused_handshake(
    peer: PublishedAgent | PublishedComputer, x: Expectations, attempts: int = 1
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the client raises where its version is refused, and what the server said.

    python-engineio lets go of the connection before it reads the body. Where a server writes the body after
    the headers, and not with them, the client may have lost it by then: such a server needs more attempts.
    """
    while True:
        attempts -= 1
        with pytest.raises(Refused) as raised:
            await connect(peer, x)
        if attempts == 0 or raised.value.told["type"] != "RuntimeError":
            return raised.value.told, raised.value.body


async def arrive(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    """Both connect, upgrade to WebSocket and join; each is notified of the other by the name it joined
    with."""
    assert (await connect(computer, x))["transport"] == "websocket"
    assert (await connect(agent, x))["transport"] == "websocket"
    await join(agent, computer, x)
    await leave_and_come_back(agent, computer, x)


async def join(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    """The Computer joins first, so that it can report the Agent's join: the Agent reads no
    acknowledgement."""
    await computer.do("join", office=x.office)
    await agent.do("join", office=x.office, name=agent.name)
    assert await computer.until("notify:enter_office") == {"office_id": x.office, "agent": agent.name}


async def leave_and_come_back(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    await computer.do("leave", office=x.office)
    assert await agent.until("notify:leave_office") == {"office_id": x.office, "computer": computer.name}
    await come(agent, computer, x)


async def come(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    """A Computer joins; the Agent requests its tools by itself."""
    forget(agent, computer)
    await computer.do("join", office=x.office)
    assert await agent.until("notify:enter_office") == {"office_id": x.office, "computer": computer.name}
    assert (await agent.until("ack client:get_tools"))["tools"]


async def walk_list(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    """The Agent sees the Computers of its office. The answer has all members, with their versions."""
    forget(agent)
    [seen] = await agent.do("list", office=x.office)
    assert (seen["name"], seen["role"], seen["office_id"]) == (computer.name, "computer", x.office)
    assert seen.get("a2c_version") == computer.protocol
    said = await agent.until("ack server:list_room")
    assert {(session["name"], session["role"]) for session in said["sessions"]} == {
        (agent.name, "agent"),
        (computer.name, "computer"),
    }


async def walk_notifications(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    """The Agent is notified on which Computer something changed, and requests it as far as its version
    does."""
    asked = {
        "update_config": ("notify:update_config", "get_tools", "0.1"),
        "update_tools": ("notify:update_tool_list", "get_tools", "0.3"),
        "update_desktop": ("notify:update_desktop", "get_desktop", "0.1"),
        "update_skills": ("notify:update_skills", "get_skills", "0.2"),
    }
    for command, (event, getter, since) in asked.items():
        if command == "update_skills" and not both(agent, computer, "0.2"):
            continue
        forget(agent, computer)
        await computer.do(command)
        assert await agent.until(event) == {"computer": computer.name}
        if agent.is_at_least(since):
            await agent.until(f"ack client:{getter}")


async def walk_leave(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    """Each is notified when the other leaves; a former member is in no list, and is listed again after it
    returns."""
    forget(agent, computer)
    await leave_and_come_back(agent, computer, x)
    await agent.do("leave", office=x.office)
    assert await computer.until("notify:leave_office") == {"office_id": x.office, "agent": agent.name}
    await agent.do("join", office=x.office, name=agent.name)
    await computer.until("notify:enter_office")
    assert len(await agent.do("list", office=x.office)) == 1


async def walk_disconnect(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    """The end of a connection counts as leaving."""
    forget(agent, computer)
    await computer.do("disconnect")
    assert await agent.until("notify:leave_office") == {"office_id": x.office, "computer": computer.name}
    assert await agent.do("list", office=x.office) == []
    await connect(computer, x)
    await come(agent, computer, x)
    await agent.do("disconnect")
    assert await computer.until("notify:leave_office") == {"office_id": x.office, "agent": agent.name}
    await connect(agent, x)
    await agent.do("join", office=x.office, name=agent.name)
    await computer.until("notify:enter_office")


async def walk_reconnect(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    """The client reconnects after a cut, but it is in no office then, and makes no requests."""
    forget(agent, computer)
    await computer.do("reconnect")
    assert await agent.until("notify:leave_office") == {"office_id": x.office, "computer": computer.name}
    assert await agent.do("list", office=x.office) == []
    await come(agent, computer, x)
    await agent.do("reconnect")
    assert await computer.until("notify:leave_office") == {"office_id": x.office, "agent": agent.name}
    await agent.do("join", office=x.office, name=agent.name)
    await computer.until("notify:enter_office")
    await walk_call(agent, computer, x)


async def walk_join_again(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    """An Agent that joins its office again stays in it, without a notification."""
    forget(computer)
    await agent.do("join", office=x.office, name=agent.name)
    assert len(await agent.do("list", office=x.office)) == 1
    assert computer.heard("notify:enter_office") == []


async def walk_same_name(
    agent: PublishedAgent, computer: PublishedComputer, x: Expectations, other: PublishedComputer
) -> None:
    """A second Computer of the same name is refused and receives nothing; the first one is not affected."""
    assert other.name == computer.name
    await connect(other, x)
    forget(agent, computer, other)
    said = await refused(other.do("join", office=x.office))
    assert said["type"] == "RuntimeError"
    assert "Failed to join office" in said["message"]
    await walk_call(agent, computer, x)
    assert agent.heard("notify:enter_office") == []
    assert other.heard("client:tool_call") == []
    await other.do("disconnect")
    await walk_call(agent, computer, x)


async def walk_lost_computer(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    """A Computer that dies during a call ends it at once, with the error for an unknown Computer. Nothing
    follows."""
    calling = asyncio.create_task(call(agent, computer, "slow", seconds=60))
    try:
        assert await computer.until("tool") == {"word": "begin"}
        await computer.kill()
        result = await calling
    finally:
        calling.cancel()
    assert result["isError"]
    assert (await agent.until("ack client:tool_call"))["code"] == 404
    assert await agent.until("notify:leave_office") == {"office_id": x.office, "computer": computer.name}
    assert await agent.do("list", office=x.office) == []
