"""What the steps of a walk expect of a server, and their shared helpers."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.smcp.processes import PublishedAgent, PublishedComputer, Refused


@dataclass(frozen=True)
class Expectations:
    """The expectations for one server and one office. Differences between versions are read from the two
    peers."""

    url: str
    token: str
    office: str
    # What the Agent's requests say it is; another than the name with which it joins, where the server
    # allows it.
    agent_id: str
    # The server of 0.1 neither reports an unknown Computer nor passes `client:get_config` on.
    tells_unknown: bool = True
    relays_config: bool = True
    # The address and the token of the Computer, if it joins through another node of the office.
    computer_url: str | None = None
    computer_token: str | None = None


def both(agent: PublishedAgent, computer: PublishedComputer, version: str) -> bool:
    return agent.is_at_least(version) and computer.is_at_least(version)


def forget(*peers: PublishedAgent | PublishedComputer) -> None:
    for peer in peers:
        peer.forget()


async def refused(asked: Awaitable[Any]) -> dict[str, Any]:
    """Run an action that must fail; return the error of the published client."""
    with pytest.raises(Refused) as raised:
        await asked
    return raised.value.told


async def tools(agent: PublishedAgent, computer: PublishedComputer) -> dict[str, str]:
    """Return the names of the tools. From 0.3 on they begin with the identity of their MCP server."""
    found = (await agent.do("tools", computer=computer.name))["tools"]
    begin = "tools__" if computer.is_at_least("0.3") else ""
    names = {tool["name"].removeprefix(begin): tool["name"] for tool in found}
    assert all(name == begin + tool for tool, name in names.items())
    return names
