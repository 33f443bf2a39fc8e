"""Steps: requesting what a Computer has."""

import base64
import hashlib
from pathlib import Path

from tests.support.smcp.expectations import Expectations, both, forget, refused, tools
from tests.support.smcp.processes import PublishedAgent, PublishedComputer
from tests.support.smcp.skill import BINARY, LONG_TEXT, SKILL, SKILL_TEXT


async def walk_tools(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    """The Agent gets the Computer's answer unchanged."""
    forget(agent, computer)
    assert set(await tools(agent, computer)) == {"add", "echo", "slow", "fail", "large"}
    said = await agent.until("ack client:get_tools")
    assert said == await computer.until("answer client:get_tools")
    assert ["bundle_id" in tool for tool in said["tools"]] == [computer.is_at_least("0.3")] * 5


async def walk_config(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    if not x.relays_config:
        return
    forget(agent, computer)
    found = await agent.do("config", computer=computer.name)
    assert found["servers"]["tools"]["type"] == "stdio"
    assert await agent.until("ack client:get_config") == await computer.until("answer client:get_config")


async def walk_desktop(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    for choice in ({}, {"size": 1}, {"window": "window://palaver.tools/board"}):
        [window] = (await agent.do("desktop", computer=computer.name, **choice))["desktops"]
        assert window == "window://palaver.tools/board\n\nwritten on the board"


async def walk_resources(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    """A request for an MCP server that the Computer does not have is refused by the Computer, and passed on
    unchanged."""
    if not both(agent, computer, "0.2"):
        return
    [board] = (await agent.do("resources", computer=computer.name, mcp_server="tools"))["resources"]
    assert (board["uri"], board["mime_type"]) == ("window://palaver.tools/board", "text/plain")
    assert (await refused(agent.do("resources", computer=computer.name, mcp_server="none")))["code"] == 4014


async def walk_skills(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    """A short text is in the answer; the Agent assembles a longer one from chunks."""
    if not both(agent, computer, "0.2"):
        return
    [skill] = (await agent.do("skills", computer=computer.name))["skills"]
    assert (skill["name"], skill["source"]) == (SKILL, "user")
    text = await agent.do("skill", computer=computer.name, name=SKILL)
    assert (text["rel_path"], text["body"]) == ("SKILL.md", SKILL_TEXT)
    text = await agent.do("skill", computer=computer.name, name=SKILL, rel_path="long.txt")
    assert text["body"] == LONG_TEXT

    async def reason(**skill: str) -> tuple[int, str | None]:
        said = await refused(agent.do("skill", computer=computer.name, **skill))
        return said["code"], said.get("reason")

    assert await reason(name="none") == (4014, None)
    assert await reason(name="No Name") == (4016, None)
    assert await reason(name=SKILL, rel_path="../../none") == (4017, "traversal")
    assert await reason(name=SKILL, rel_path="none.txt") == (4017, "not_found")


async def walk_get_blob(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    """In chunks, each with the size and the digest of the whole."""
    if not both(agent, computer, "0.2"):
        return
    found = await agent.do("skill", computer=computer.name, name=SKILL, rel_path="data.bin")
    assert "body" not in found
    read = b""
    while True:
        chunk = await agent.do("get_blob", computer=computer.name, handle=found["blob_handle"], chunk_offset=len(read))
        assert (chunk["chunk_offset"], chunk["total_size"]) == (len(read), len(BINARY))
        assert chunk["sha256"] == hashlib.sha256(BINARY).hexdigest()
        read += base64.b64decode(chunk["blob"])
        if chunk["eof"]:
            break
        # A quarter of a megabyte is the most that a Computer puts into one.
        assert len(read) % 262_144 == 0
    assert read == BINARY
    asked = {"computer": computer.name, "handle": found["blob_handle"], "chunk_offset": len(BINARY) + 1}
    assert (await refused(agent.do("get_blob", **asked)))["reason"] == "range"


async def walk_put_blob(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    """The Computer stores exactly what was sent."""
    if not both(agent, computer, "0.4"):
        return
    forget(computer)
    data = base64.b64encode(BINARY).decode()
    put = await agent.do("put_blob", computer=computer.name, data=data, name_hint="notes.bin")
    assert (put["total_size"], put["sha256"]) == (len(BINARY), hashlib.sha256(BINARY).hexdigest())
    landed = Path(put["landing_path"])
    assert landed.is_relative_to(computer.directory)
    assert landed.read_bytes() == BINARY
    assert [chunk["eof"] for chunk in computer.heard("client:put_blob")] == [False, False, True]
