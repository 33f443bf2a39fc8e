"""Finds an agent or a task by what the operator typed."""

from typing import Final

from bridge.agents.address import AgentAddress, BareAgentId, InvalidAddress, parse_target
from bridge.agents.agent import Agent
from bridge.control.agents.context import PROTOCOL, CommandContext
from bridge.tasks.request import key_text, read_key
from bridge.tasks.task import Task
from storage.errors import LocalError

_SHOWN: Final = 5
SHORTEST: Final = 3
"""Minimum number of characters of the beginning of a task's id."""
_LIST: Final = "`palaver agents list` shows the known agents."
_TASKS: Final = "`palaver task list` shows the stored tasks."


def find_agent(context: CommandContext, text: str) -> Agent:
    """Find an agent by its address, or by its id if that is unique. The agent may be offline."""
    match parse_target(text):
        case InvalidAddress(reason):
            raise LocalError(f"That is not an address. {reason}", _LIST)
        case AgentAddress() as address:
            agent = context.routes.agent(address)
            if agent is None:
                raise LocalError(context.routes.explain(address), _LIST)
            return agent
        case BareAgentId(agent_id):
            return _by_id(context, agent_id)


def _by_id(context: CommandContext, agent_id: str) -> Agent:
    """Choose as the routing does: the agent of this node, or the only agent with this id."""
    table = context.routes.table
    local = table.agents_of(context.node_id).get(agent_id)
    if local is not None:
        return local
    addresses = (AgentAddress(agent_id, node.node_id) for node in table.nodes())
    found = [agent for address in addresses if (agent := table.agent(address)) is not None]
    found = [agent for agent in found if agent.is_online] or found
    if len(found) == 1:
        return found[0]
    if not found:
        raise LocalError(f"No agent {agent_id} is known.", _LIST)
    named = ", ".join(sorted(str(agent.address) for agent in found)[:_SHOWN])
    raise LocalError(f"There are {len(found)} agents with the id {agent_id}: {named}.", "Use the complete address.")


async def find_task(context: CommandContext, text: str) -> Task:
    """Find a task by its key, or by its task id or request id, or the beginning of one, if that is unique.
    The common beginning of ids that this node makes may be omitted."""
    key = read_key(text)
    task = None if key is None else await context.tasks.task(key)
    if task is not None:
        return task
    found = await context.tasks.find(text, _SHOWN + 1)
    if not found and len(text) >= SHORTEST:
        found = await context.tasks.find_by_beginning(text, f"{PROTOCOL}-{text}", limit=_SHOWN + 1)
    if len(found) == 1:
        return found[0]
    if not found:
        raise LocalError(f"No task {text} is stored. Tasks are deleted a week after their end.", _TASKS)
    named = ", ".join(key_text(match.key) for match in found[:_SHOWN])
    more = ", …" if len(found) > _SHOWN else ""
    raise LocalError(f"Several tasks have the id {text}, or one that begins so: {named}{more}.", "Use the task's key.")
