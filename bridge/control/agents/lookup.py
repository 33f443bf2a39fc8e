"""Finds the agent or the task that a person means."""

from typing import Final

from bridge.agents.address import AgentAddress, BareId, NotAnAddress, parse_target
from bridge.agents.agent import Agent
from bridge.control.agents.context import Parts
from bridge.tasks.request import key_text, read_key
from bridge.tasks.task import Task
from storage.errors import LocalError

_SHOWN: Final = 5
_LIST: Final = "`palaver agents list` shows those that are known."
_TASKS: Final = "`palaver task list` shows those that are known."


def find_agent(parts: Parts, text: str) -> Agent:
    """By its address, or by its id where that is enough. It may be gone."""
    match parse_target(text):
        case NotAnAddress(reason):
            raise LocalError(f"That is no address. {reason}", _LIST)
        case AgentAddress() as address:
            agent = parts.routes.agent(address)
            if agent is None:
                raise LocalError(parts.routes.explain(address), _LIST)
            return agent
        case BareId(agent_id):
            return _by_id(parts, agent_id)


def _by_id(parts: Parts, agent_id: str) -> Agent:
    """As a route is found: that of this node, or the only one there is."""
    table = parts.routes.table
    at_home = table.agents_of(parts.node_id).get(agent_id)
    if at_home is not None:
        return at_home
    places = (AgentAddress(agent_id, node.node_id) for node in table.nodes())
    found = [agent for place in places if (agent := table.agent(place)) is not None]
    found = [agent for agent in found if agent.is_here] or found
    if len(found) == 1:
        return found[0]
    if not found:
        raise LocalError(f"No agent {agent_id} is known.", _LIST)
    named = ", ".join(sorted(str(agent.address) for agent in found)[:_SHOWN])
    raise LocalError(f"There are {len(found)} agents {agent_id}: {named}.", "Say which one is meant.")


async def find_task(parts: Parts, text: str) -> Task:
    """By its key, or by the id of its request or its own where that is enough."""
    key = read_key(text)
    task = None if key is None else await parts.desk.task(key)
    if task is not None:
        return task
    found = await parts.desk.find(text, _SHOWN + 1)
    if len(found) == 1:
        return found[0]
    if not found:
        raise LocalError(f"No task {text} is known. They are kept for a week after their end.", _TASKS)
    named = ", ".join(key_text(one.key) for one in found[:_SHOWN])
    more = ", …" if len(found) > _SHOWN else ""
    raise LocalError(f"Several tasks are called {text}: {named}{more}.", "Say which one is meant.")
