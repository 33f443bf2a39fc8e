"""`palaver agents list`, `show` and `remove`, and `palaver route`.

Removing an agent of this node unregisters it and notifies every peer. Removing an agent of another node
affects only this node: its route is removed and its tasks fail. In both cases the agent returns when it
registers again.
"""

import asyncio
import heapq
from collections.abc import Iterable, Mapping
from typing import Any, Final

from bridge.agents.agent import Agent
from bridge.agents.routing import Local, Remote, Unknown
from bridge.agents.search import GONE, STATUSES, AgentSearch, display_status
from bridge.agents.updates import MAX_TEXT_LENGTH, Unregistration, Updated
from bridge.control.agents.context import CommandContext
from bridge.control.agents.lookup import find_agent
from bridge.control.server.arguments import Arguments
from bridge.tasks.store import task_of
from bridge.tasks.view import task_summary
from storage.agents.tasks import fetch_load, list_live_of_agents
from storage.agents.tokens import list_tokens
from storage.errors import LocalError

PAGE: Final = 100
MAX_PAGE: Final = 10_000
AT_ONCE: Final = 500
"""Agents to filter before yielding to the event loop: there may be a hundred thousand."""
MAX_TASKS: Final = 20
MAX_TOKENS: Final = 100


async def agents_list(context: CommandContext, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """List matching agents: those of this node first, then by node and id."""
    arguments = Arguments(given)
    limit = arguments.number("limit", PAGE, MAX_PAGE)
    wanted = AgentSearch(
        node=arguments.optional_text("node") or None,
        status=_status(arguments.optional_text("status")),
        capabilities=tuple(arguments.texts("capabilities")),
        words=AgentSearch.words_of(arguments.optional_text("search") or ""),
        with_gone=arguments.flag("all"),
    )
    known = list(context.routes.table.agents())
    first: list[Agent] = []
    total = 0
    for begin in range(0, len(known), AT_ONCE):
        found = [agent for agent in known[begin : begin + AT_ONCE] if wanted.matches(agent)]
        total += len(found)
        first += found
        if len(first) > 2 * limit:
            first = _first(context, first, limit)
        await asyncio.sleep(0)
    return {"agents": [_listed(context, agent) for agent in _first(context, first, limit)], "total": total}


def _status(text: str | None) -> str | None:
    if text is not None and text not in STATUSES:
        raise LocalError(f"{text} is not a status of an agent.", f"Use one of {', '.join(STATUSES)}.")
    return text


def _first(context: CommandContext, agents: Iterable[Agent], limit: int) -> list[Agent]:
    return heapq.nsmallest(limit, agents, key=lambda agent: _sort_key(context, agent))


def _sort_key(context: CommandContext, agent: Agent) -> tuple[bool, str, str]:
    return agent.node_id != context.node_id, agent.node_id, agent.agent_id


def _listed(context: CommandContext, agent: Agent) -> dict[str, Any]:
    return {
        "address": str(agent.address),
        "agent_id": agent.agent_id,
        "node_id": agent.node_id,
        "is_local": agent.node_id == context.node_id,
        "runtime": agent.runtime,
        "capabilities": list(agent.capabilities),
        "status": display_status(agent),
        "current_task": agent.current_task,
        "last_heard": context.routes.table.last_seen(agent),
        "registered_at": agent.registered_at,
        "gone_at": agent.gone_at,
        "gone_reason": agent.gone_reason,
    }


async def agents_show(context: CommandContext, given: Mapping[str, Any]) -> Mapping[str, Any]:
    agent = find_agent(context, Arguments(given).text("agent"))
    address = str(agent.address)
    is_local = agent.node_id == context.node_id
    async with context.database.transaction(readonly=True) as connection:
        load = await fetch_load(connection, address)
        rows = await list_live_of_agents(connection, [address], 0, MAX_TASKS + 1)
        tokens = await list_tokens(connection, agent.agent_id, MAX_TOKENS) if is_local else []
    settings = context.local.settings(agent) if is_local else None
    node = context.routes.table.node(agent.node_id)
    problem = context.local.problems().get(agent.address)
    return {
        **_listed(context, agent),
        "problem": None if problem is None else {"sentence": problem.sentence, "since": problem.since_ms},
        "why": context.routes.explain(agent.address),
        "connector": agent.connector,
        "configured": is_local and agent.agent_id in context.configured,
        "namespaces": sorted(context.local.namespaces(agent)) if is_local else None,
        "last_word": agent.sent_at,
        "heard_by_itself": agent.last_seen is not None,
        "was": agent.status.value if display_status(agent) == GONE else None,
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
            "at_once": settings.parallel,
            "most_waiting": settings.queue_length,
            "active": load.active,
            "waiting": load.waiting,
        },
        "tasks": [task_summary(task_of(row)) for row in rows[:MAX_TASKS]],
        "more_tasks": len(rows) > MAX_TASKS,
        "tokens": sum(token.is_valid(context.now_ms()) for token in tokens),
    }


REASON: Final = "removed by the operator"


async def agents_remove(context: CommandContext, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Remove an agent. `tokens` in the answer are the ids of tokens with which it can attach again."""
    arguments = Arguments(given)
    agent = find_agent(context, arguments.text("agent"))
    reason = arguments.optional_text("reason", MAX_TEXT_LENGTH) or REASON
    is_local = agent.node_id == context.node_id
    if is_local and agent.agent_id in context.configured:
        raise LocalError(
            f"The node runs the agent {agent.agent_id} because it is in the configuration.",
            "Remove it from the configuration and restart the node.",
        )
    refusal = context.removal_refusal(agent) if is_local and agent.is_online else None
    if refusal is not None:
        raise refusal
    if not agent.is_online:
        raise LocalError(f"{agent.address} is already offline: {agent.gone_reason}.", "There is nothing to do.")
    await _unregister(context, agent, reason)
    tokens = await _tokens(context, agent) if is_local else []
    return {"address": str(agent.address), "is_local": is_local, "reason": reason, "tokens": tokens}


async def _unregister(context: CommandContext, agent: Agent, reason: str) -> None:
    # Newer than the agent's last update even if this clock was set back or the agent's node is ahead.
    sent_at = max(context.now_ms(), agent.sent_at + 1)
    [verdict] = await context.routes.update([Unregistration(agent.address, reason, sent_at)])
    if not isinstance(verdict, Updated):
        why = getattr(verdict, "reason", "it is no longer known")
        raise LocalError(f"{agent.address} could not be removed: {why}.", "Check its state with `palaver agents show`.")


async def _tokens(context: CommandContext, agent: Agent) -> list[str]:
    now_ms = context.now_ms()
    async with context.database.transaction(readonly=True) as connection:
        rows = await list_tokens(connection, agent.agent_id, MAX_TOKENS)
    return [row.token_id for row in rows if row.is_valid(now_ms)]


async def route(context: CommandContext, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Explain the route of an address. For an invalid address `why` has the error."""
    text = Arguments(given).text("address")
    decision = context.routes.route(text)
    said: dict[str, Any] = {
        "asked": text,
        "address": None,
        "node_id": None,
        "url": None,
        "code": None,
        "candidates": [],
        "advice": None,
        "why": context.routes.explain(text),
    }
    match decision:
        case Local(address):
            said |= {"decision": "local", "address": str(address), "node_id": address.node_id}
        case Remote(address, url):
            said |= {"decision": "remote", "address": str(address), "node_id": address.node_id, "url": url}
        case Unknown(code, _, candidates):
            said |= {
                "decision": "unknown",
                "code": code.value,
                "candidates": [str(candidate) for candidate in candidates],
                "advice": code.advice,
            }
    return said
