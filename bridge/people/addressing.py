"""Whom a message is for, and what it says to them.

Agents are mentioned, or named at the beginning: `@worker-1: do this`, `worker-1@kitchen.local do this`,
`@worker-1:kitchen.local do this`.
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
"""The agent that is known and appears as this user."""
RouteOf: TypeAlias = Callable[[AgentAddress | BareAgentId], Route]

_ENDS: Final = ":,"
_OF_NAMES: Final = frozenset("-._/+=@")


@dataclass(frozen=True, slots=True)
class Named:
    """An agent, and how the message calls it: not part of what it is told."""

    address: AgentAddress
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Addressed:
    """`others` are mentioned who are no agents. `unknown`: somebody is named at the beginning who is not
    there."""

    agents: tuple[AgentAddress, ...]
    prompt: str
    others: tuple[str, ...] = ()
    unknown: Unknown | None = None


def addressed(message: Message, agent_of: AgentOf, route: RouteOf) -> Addressed:
    """`agent_of` says which users are agents, and `route` whether an address leads somewhere."""
    mentioned = [(user, agent_of(user)) for user in message.mentioned]
    agents = [
        Named(agent, (*names(user, agent), *message.names_of(user)))
        for user, agent in mentioned
        if agent is not None
    ]
    others = tuple(user for user, agent in mentioned if agent is None)
    word, rest = (*message.body.split(maxsplit=1), "", "")[:2]
    first = _first(word, agent_of, route)
    if isinstance(first, AgentAddress):
        found = dict.fromkeys([first, *(one.address for one in agents)])
        return Addressed(tuple(found), rest.strip(), others)
    addresses = tuple(dict.fromkeys(one.address for one in agents))
    prompt = without_names(message.body, [name for one in agents for name in one.names])
    # Who mentions somebody has said whom he means.
    return Addressed(addresses, prompt, others, first if not message.mentioned else None)


def _first(word: str, agent_of: AgentOf, route: RouteOf) -> AgentAddress | Unknown | None:
    """Whom the first word names; None when it is a word like any other."""
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
    """How clients write a mention of this user in plain text, whatever name is shown of it."""
    name = localpart(user) or ""
    return user, str(address), address.agent_id, display_name(address.agent_id), name


def without_names(body: str, calls: Iterable[str]) -> str:
    """What is said behind the names at the beginning."""
    longest_first = sorted({call for call in calls if call}, key=len, reverse=True)
    spellings = [spelling for call in longest_first for spelling in (f"@{call}", call)]
    left = body.strip()
    while (called := next((one for one in spellings if _begins_with(left, one)), None)) is not None:
        left = left[len(called) :].lstrip(_ENDS).strip()
    return left


def _begins_with(text: str, name: str) -> bool:
    """With the whole name, which may be part of a longer one."""
    behind = text[len(name) : len(name) + 1]
    return text.startswith(name) and not (behind.isalnum() or behind in _OF_NAMES)
