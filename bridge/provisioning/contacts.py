"""Agents as a manager of bridges knows people of the network behind a bridge."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final

from bridge.address import AgentAddress, BareId, NotAnAddress, parse_target
from bridge.agent import Agent
from bridge.agent_search import AgentSearch
from bridge.ghost import NoGhost, display_name
from bridge.ghost_names import GhostNames
from bridge.routing import Route, Unknown
from federation.errors import MatrixError

MOST_CONTACTS: Final = 1_000
MOST_FOUND: Final = 100
LONGEST: Final = 1_000
"""Characters of what is searched for, or of a name."""
SCHEME: Final = "palaver:"


def listed(agents: Iterable[Agent], node_id: str, most: int = MOST_CONTACTS) -> list[Agent]:
    """Those that are there: of this node first. There may be a hundred thousand of them."""
    here = [agent for agent in agents if agent.is_here]
    here.sort(key=lambda agent: (agent.node_id != node_id, agent.node_id, agent.agent_id))
    return here[:most]


def found(agents: Iterable[Agent], query: str, most: int = MOST_FOUND) -> list[Agent]:
    """All words have to be in what is known of an agent."""
    if len(query) > LONGEST:
        raise MatrixError("M_INVALID_PARAM", f"A search has at most {LONGEST} characters.")
    words = AgentSearch.words_of(query)
    if not words:
        return []
    search = AgentSearch(words=words)
    return list(islice((agent for agent in agents if search.matches(agent)), most))


def meant(text: str, names: GhostNames, route: Callable[[str], Route]) -> AgentAddress:
    """Whom somebody names: by the user, by the address, or by the id alone where that is enough. Raises
    `MatrixError`."""
    if not text or len(text) > LONGEST:
        raise _not_found("An identifier is not empty, and no text.")
    text = text.removeprefix(SCHEME)
    if text.startswith("@"):
        address = names.address(text)
        if address is None:
            raise _not_found("That user is no agent of this node.")
        return address
    target = parse_target(text)
    match target:
        case NotAnAddress(reason):
            raise _not_found(reason)
        case AgentAddress():
            return target
        case BareId():
            decision = route(text)
            if isinstance(decision, Unknown):
                raise _not_found(decision.reason)
            return decision.address


def _not_found(reason: str) -> MatrixError:
    return MatrixError("M_NOT_FOUND", reason[:LONGEST], 404)


def contact(
    agent: Agent,
    names: GhostNames,
    *,
    name: str | None = None,
    avatar: str | None = None,
    room: str | None = None,
) -> dict[str, Any]:
    """`room` is the chat that there is."""
    ghost = names.ghost(agent.address)
    shown: dict[str, Any] = {
        "id": str(agent.address),
        "name": name or display_name(agent.agent_id),
        "identifiers": identifiers(agent.address),
    }
    if ghost is not None and not isinstance(ghost, NoGhost):
        shown["mxid"] = ghost
    if avatar is not None:
        shown["avatar_url"] = avatar
    if room is not None:
        shown["dm_room_mxid"] = room
    return shown


def identifiers(address: AgentAddress) -> Sequence[str]:
    return [f"{SCHEME}{address}"]
