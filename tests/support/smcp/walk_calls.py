"""Steps: calling tools."""

import asyncio
import contextlib
import hashlib
import time
from typing import Any

from tests.support.smcp.expectations import Expectations, forget, refused, tools
from tests.support.smcp.processes import PublishedAgent, PublishedComputer

# Above what travels inside a result, below what a frame may hold.
LARGE = 100_000


async def call(agent: PublishedAgent, computer: PublishedComputer, tool: str, limit: int = 30, **params: Any) -> Any:
    name = (await tools(agent, computer))[tool]
    forget(agent, computer)
    return await agent.do("call", computer=computer.name, tool=name, params=params, limit=limit)


async def walk_call(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    """The request and its result are passed on unchanged."""
    result = await call(agent, computer, "add", a=2, b=3)
    assert (result["isError"], result["structuredContent"]) == (False, {"result": 5})
    assert await computer.until("client:tool_call") == await agent.until("calling")
    assert await agent.until("ack client:tool_call") == await computer.until("answer client:tool_call")
    result = await call(agent, computer, "echo", text="ä line\nand 🫖")
    assert [item["text"] for item in result["content"]] == ["ä line\nand 🫖"]


async def walk_calls_at_once(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    """Each of several concurrent calls gets its own result."""
    echo = (await tools(agent, computer))["echo"]

    async def said(text: str) -> str:
        asked = {"computer": computer.name, "tool": echo, "params": {"text": text}, "limit": 30}
        [item] = (await agent.do("call", **asked))["content"]
        return str(item["text"])

    texts = [str(number) for number in range(20)]
    assert await asyncio.gather(*(said(text) for text in texts)) == texts


async def walk_tool_error(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    """A tool that fails, or does not exist, gives a result and not an error of the call."""
    result = await call(agent, computer, "fail")
    assert result["isError"]
    assert "always fails" in result["content"][0]["text"]
    asked = {"computer": computer.name, "tool": "none", "params": {}, "limit": 30}
    result = await agent.do("call", **asked)
    assert result["isError"]
    assert "not found" in result["structuredContent"]["error"]


async def walk_large(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    """From 0.2 on, data above 32 KiB is sent through a handle; the caller sees no difference."""
    [item] = (await call(agent, computer, "large", size=LARGE))["content"]
    data = bytes(position & 0xFF for position in range(LARGE))
    assert (item["size"], item["sha256"]) == (LARGE, hashlib.sha256(data).hexdigest())
    [item] = (await agent.until("ack client:tool_call"))["content"]
    assert ("a2c_blob_handle" in item.get("_meta", {})) == computer.is_at_least("0.2")


async def walk_timeout(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    """At its deadline the Agent stops waiting, and right after it the Computer the tool, each by itself.

    So no answer of a server reaches a published Agent by then. Its error tells nothing, no cancel follows.
    """
    stops = computer.is_at_least("0.2")
    began = time.monotonic()
    result = await call(agent, computer, "slow", limit=1, seconds=3)
    assert 1 <= time.monotonic() - began < 3
    assert (result["isError"], result["meta"], agent.heard("ack client:tool_call")) == (True, None, [])
    assert await computer.until("tool") == {"word": "begin"}
    late = await computer.until("answer client:tool_call")
    assert late["isError"]
    assert late["meta"] == ({"a2c_timeout": True} if computer.is_at_least("0.3") else None)
    assert await computer.until("tool") == {"word": "cancelled" if stops else "end"}


async def walk_cancel(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    """The Computer is notified, stops the tool and answers the call; before 0.2 it ignores it."""
    stops = computer.is_at_least("0.2")
    calling = asyncio.create_task(call(agent, computer, "slow", seconds=60 if stops else 1))
    try:
        assert await computer.until("tool") == {"word": "begin"}
        request = await agent.until("calling")
        await agent.do("cancel", req_id=request["req_id"])
        heard = await computer.until("notify:tool_call_cancel")
        assert heard["req_id"] == request["req_id"]
        result = await calling
    finally:
        calling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await calling
    assert result["isError"] == stops
    if computer.is_at_least("0.3"):
        assert result["meta"] == {"a2c_cancelled": True, "a2c_cancel_reason": "agent_requested"}
    assert await computer.until("tool") == {"word": "cancelled" if stops else "end"}


async def walk_unknown_computer(agent: PublishedAgent, computer: PublishedComputer, x: Expectations) -> None:
    """The error comes at once and is the same for every request; the other Computer is not notified."""
    if not x.tells_unknown:
        return
    forget(agent, computer)
    began = time.monotonic()
    result = await agent.do("call", computer="nobody", tool="add", params={}, limit=30)
    assert result["isError"]
    if agent.is_at_least("0.2"):
        assert "Computer with name 'nobody' not found" in result["content"][0]["text"]
    await refused(agent.do("tools", computer="nobody"))
    await refused(agent.do("desktop", computer="nobody"))
    # The one getter that does not look: an error is an empty configuration to it.
    assert not (await agent.do("config", computer="nobody")).get("servers")
    # Far below the time after which it would give up by itself.
    assert time.monotonic() - began < 10
    said = {"code": 404, "message": "Computer with name 'nobody' not found"}
    for event in ("tool_call", "get_tools", "get_desktop", "get_config"):
        answer = await agent.until(f"ack client:{event}")
        assert {name: answer[name] for name in said} == said
        assert answer["details"]["computer_name"] == "nobody"
    if agent.is_at_least("0.2"):
        assert (await refused(agent.do("skills", computer="nobody")))["code"] == 404
    assert computer.reports == []
