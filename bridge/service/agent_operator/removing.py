"""`palaver agents remove`: an agent is no longer there.

One of this node is unregistered, and everybody is told. One of another node is forgotten here alone: no route
leads to it, and what waits for it fails. Both stay gone until they are heard of anew.
"""

from collections.abc import Mapping
from typing import Any, Final

from bridge.agent import Agent
from bridge.agent_news import LONGEST_TEXT, Taken, Unregistered
from bridge.connectors.offices.member_agents import CONNECTOR as OFFICES
from bridge.service.agent_operator.finding import find_agent
from bridge.service.agent_operator.parts import Parts
from bridge.service.operator.arguments import Arguments
from storage.agent_tokens import list_tokens
from storage.errors import LocalError

REASON: Final = "removed by the operator"
MOST_TOKENS: Final = 100


async def agents_remove(parts: Parts, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """`tokens` are the ids of those with which it may come back."""
    arguments = Arguments(given)
    agent = find_agent(parts, arguments.text("agent"))
    reason = arguments.optional_text("reason", LONGEST_TEXT) or REASON
    is_local = agent.node_id == parts.node_id
    if is_local and agent.agent_id in parts.configured:
        raise LocalError(
            f"The configuration names the agent {agent.agent_id}, so the node runs it.",
            "Take it out of the configuration, and start the node again.",
        )
    if is_local and agent.connector == OFFICES and agent.is_here:
        raise LocalError(
            f"{agent.agent_id} is in an office, and is there as long as it is connected.",
            "`palaver offices token revoke` ends its connection.",
        )
    if not agent.is_here:
        raise LocalError(f"{agent.address} has gone already: {agent.gone_reason}.", "Nothing is to be done.")
    await _take_away(parts, agent, reason)
    tokens = await _tokens(parts, agent) if is_local else []
    return {"address": str(agent.address), "is_local": is_local, "reason": reason, "tokens": tokens}


async def _take_away(parts: Parts, agent: Agent, reason: str) -> None:
    # A clock that was put back, or a node that is ahead, must not make it old news.
    said_at = max(parts.now_ms(), agent.said_at + 1)
    [verdict] = await parts.routes.take([Unregistered(agent.address, reason, said_at)])
    if not isinstance(verdict, Taken):
        why = getattr(verdict, "reason", "it is not known any more")
        raise LocalError(
            f"{agent.address} could not be removed: {why}.",
            "`palaver agents show` tells what is known of it.",
        )


async def _tokens(parts: Parts, agent: Agent) -> list[str]:
    now_ms = parts.now_ms()
    async with parts.database.transaction(readonly=True) as connection:
        rows = await list_tokens(connection, agent.agent_id, MOST_TOKENS)
    return [row.token_id for row in rows if row.is_good(now_ms)]
