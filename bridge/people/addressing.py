"""Finds the agents to which a message is addressed, and the prompt in it.

Agents are mentioned, or named at the beginning of the message: `@worker-1: do this`,
`worker-1@kitchen.local do this`, `@worker-1:kitchen.local do this`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from bridge.agents.address import AgentAddress, BareAgentId, parse_target
from bridge.agents.routing import Local, Remote, Route, Unknown
from bridge.matrix.ghost import display_name
from bridge.people.message import Message
from federation.matrix.identifiers import is_user_id, localpart

AgentOf: TypeAlias = Callable[[str], AgentAddress | None]
"""Returns the known agent that this user id represents."""
RouteOf: TypeAlias = Callable[[AgentAddress | BareAgentId], Route]

_ENDS: Final = ":,"
_IN_NAMES: Final = frozenset("-._/+=@")


@dataclass(frozen=True, slots=True)
class NamedAgent:
    """A mentioned agent and its possible names in the text, which are not part of the prompt."""

    address: AgentAddress
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Addressees:
    """The agents to which a message is addressed. `others` are mentioned users that are not agents. `unknown`
    is set if the message begins with the name of an unknown agent."""

    agents: tuple[AgentAddress, ...]
    prompt: str
    others: tuple[str, ...] = ()
    unknown: Unknown | None = None


def find_addressees(message: Message, agent_of: AgentOf, route: RouteOf) -> Addressees:
    """Find the addressed agents. `agent_of` returns the agent of a user id, `route` the route of an
    address."""
    mentioned = [(user, agent_of(user)) for user in message.mentioned]
    agents = [
        NamedAgent(agent, (*names(user, agent), *message.names_of(user)))
        for user, agent in mentioned
        if agent is not None
    ]
    others = tuple(user for user, agent in mentioned if agent is None)
    word, rest = (*message.body.split(maxsplit=1), "", "")[:2]
    first = _first(word, agent_of, route)
    if isinstance(first, AgentAddress):
        found = dict.fromkeys([first, *(agent.address for agent in agents)])
        return Addressees(tuple(found), rest.strip(), others)
    addresses = tuple(dict.fromkeys(agent.address for agent in agents))
    prompt = strip_names(message.body, [name for agent in agents for name in agent.names])
    # In a message with mentions, an unknown first word is ordinary text.
    return Addressees(addresses, prompt, others, first if not message.mentioned else None)


def _first(word: str, agent_of: AgentOf, route: RouteOf) -> AgentAddress | Unknown | None:
    """Return the agent that the first word names, or None if it is an ordinary word."""
    text = word.rstrip(_ENDS)
    if text.startswith("@"):
        if is_user_id(text):
            return agent_of(text)
        parsed = parse_target(text[1:])
    elif "@" in text:
        parsed = parse_target(text)
    else:
        return None
    if not isinstance(parsed, AgentAddress | BareAgentId):
        return None
    match route(parsed):
        case Local(address) | Remote(address):
            return address
        case Unknown() as unknown:
            return unknown


def names(user: str, address: AgentAddress) -> tuple[str, ...]:
    """Return the names with which clients write a mention of this user in plain text."""
    name = localpart(user) or ""
    return user, str(address), address.agent_id, display_name(address.agent_id), name


def strip_names(body: str, names_to_strip: Iterable[str]) -> str:
    """Return the text without the names at its beginning."""
    longest_first = sorted({name for name in names_to_strip if name}, key=len, reverse=True)
    spellings = [spelling for name in longest_first for spelling in (f"@{name}", name)]
    rest = body.strip()
    while (name := next((spelling for spelling in spellings if _begins_with(rest, spelling)), None)) is not None:
        rest = rest[len(name) :].lstrip(_ENDS).strip()
    return rest


def _begins_with(text: str, name: str) -> bool:
    """Whether the text begins with this name, and not with a longer one."""
    following = text[len(name) : len(name) + 1]
    return text.startswith(name) and not (following.isalnum() or following in _IN_NAMES)
