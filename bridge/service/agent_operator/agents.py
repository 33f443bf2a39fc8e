"""`palaver agents list` and `show`."""

import asyncio
import heapq
from collections.abc import Iterable, Mapping
from typing import Any, Final

from bridge.agent import Agent
from bridge.agent_search import GONE, STATUSES, AgentSearch, shown_status
from bridge.service.agent_operator.finding import find_agent
from bridge.service.agent_operator.parts import Parts
from bridge.service.operator.arguments import Arguments
from bridge.service.task_store import task_of
from bridge.task_view import line_of
from storage.agent_tokens import list_tokens
from storage.errors import LocalError
from storage.tasks import fetch_load, list_live_of_agents

PAGE: Final = 100
MOST: Final = 10_000
AT_ONCE: Final = 500
"""Agents that are looked at before others have their turn: there may be a hundred thousand."""
MOST_TASKS: Final = 20
MOST_TOKENS: Final = 100


async def agents_list(parts: Parts, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Those of this node first, then by node and id."""
    arguments = Arguments(given)
    limit = arguments.number("limit", PAGE, MOST)
    wanted = AgentSearch(
        node=arguments.optional_text("node") or None,
        status=_status(arguments.optional_text("status")),
        capabilities=tuple(arguments.texts("capabilities")),
        words=AgentSearch.words_of(arguments.optional_text("search") or ""),
        with_gone=arguments.flag("all"),
    )
    known = list(parts.routes.table.agents())
    first: list[Agent] = []
    total = 0
    for begin in range(0, len(known), AT_ONCE):
        found = [agent for agent in known[begin : begin + AT_ONCE] if wanted.matches(agent)]
        total += len(found)
        first += found
        if len(first) > 2 * limit:
            first = _first(parts, first, limit)
        await asyncio.sleep(0)
    return {"agents": [_listed(parts, agent) for agent in _first(parts, first, limit)], "total": total}


def _status(text: str | None) -> str | None:
    if text is not None and text not in STATUSES:
        raise LocalError(f"{text} is no status of an agent.", f"There are {', '.join(STATUSES)}.")
    return text


def _first(parts: Parts, agents: Iterable[Agent], limit: int) -> list[Agent]:
    return heapq.nsmallest(limit, agents, key=lambda agent: _place(parts, agent))


def _place(parts: Parts, agent: Agent) -> tuple[bool, str, str]:
    return agent.node_id != parts.node_id, agent.node_id, agent.agent_id


def _listed(parts: Parts, agent: Agent) -> dict[str, Any]:
    return {
        "address": str(agent.address),
        "agent_id": agent.agent_id,
        "node_id": agent.node_id,
        "is_local": agent.node_id == parts.node_id,
        "runtime": agent.runtime,
        "capabilities": list(agent.capabilities),
        "status": shown_status(agent),
        "current_task": agent.current_task,
        "last_heard": parts.routes.table.last_seen(agent),
        "registered_at": agent.registered_at,
        "gone_at": agent.gone_at,
        "gone_reason": agent.gone_reason,
    }


async def agents_show(parts: Parts, given: Mapping[str, Any]) -> Mapping[str, Any]:
    agent = find_agent(parts, Arguments(given).text("agent"))
    address = str(agent.address)
    is_local = agent.node_id == parts.node_id
    async with parts.database.transaction(readonly=True) as connection:
        load = await fetch_load(connection, address)
        rows = await list_live_of_agents(connection, [address], 0, MOST_TASKS + 1)
        tokens = await list_tokens(connection, agent.agent_id, MOST_TOKENS) if is_local else []
    settings = parts.local.settings(agent) if is_local else None
    node = parts.routes.table.node(agent.node_id)
    return {
        **_listed(parts, agent),
        "why": parts.routes.explain(agent.address),
        "connector": agent.connector,
        "configured": is_local and agent.agent_id in parts.configured,
        "namespaces": sorted(parts.local.namespaces(agent)) if is_local else None,
        "last_word": agent.said_at,
        "heard_by_itself": agent.last_seen is not None,
        "was": agent.status.value if shown_status(agent) == GONE else None,
        "node": None
        if node is None
        else {
            "url": node.url,
            "trusted": is_local or node.trusted,
            "first_seen_at": node.first_seen_at or None,
            "last_heartbeat": node.last_heartbeat,
            "silent_since": node.silent_since,
        },
        "queue": None
        if settings is None
        else {
            "at_once": settings.at_once,
            "most_waiting": settings.waiting,
            "active": load.active,
            "waiting": load.waiting,
        },
        "tasks": [line_of(task_of(row)) for row in rows[:MOST_TASKS]],
        "more_tasks": len(rows) > MOST_TASKS,
        "tokens": sum(token.is_good(parts.now_ms()) for token in tokens),
    }
