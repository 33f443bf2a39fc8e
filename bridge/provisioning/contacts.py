"""The agents as contacts of the bridge's network, and chats with them: `contacts`, `search_users`,
`resolve_identifier/…`, `create_dm/…`; and refusals of what this bridge does not support."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from aiohttp import web

from bridge.agents.address import AgentAddress, BareAgentId, InvalidAddress, parse_target
from bridge.agents.agent import Agent
from bridge.agents.routing import Route, Unknown
from bridge.agents.search import AgentSearch
from bridge.matrix.ghost import GhostNames, NoGhost, display_name
from bridge.provisioning.login import check_login
from bridge.provisioning.services import Answer, ProvisioningServices, read_object
from federation.matrix.errors import MatrixError

MAX_CONTACTS: Final = 1_000
MAX_FOUND: Final = 100
MAX_TEXT: Final = 1_000
"""Characters of a search or an identifier."""
SCHEME: Final = "palaver:"


def list_agents(agents: Iterable[Agent], node_id: str, most: int = MAX_CONTACTS) -> list[Agent]:
    """Online agents, those of this node first. There may be a hundred thousand agents."""
    here = [agent for agent in agents if agent.is_online]
    here.sort(key=lambda agent: (agent.node_id != node_id, agent.node_id, agent.agent_id))
    return here[:most]


def find_agents(agents: Iterable[Agent], query: str, most: int = MAX_FOUND) -> list[Agent]:
    """All words have to occur in the agent's data."""
    if len(query) > MAX_TEXT:
        raise MatrixError("M_INVALID_PARAM", f"A search has at most {MAX_TEXT} characters.")
    words = AgentSearch.words_of(query)
    if not words:
        return []
    search = AgentSearch(words=words)
    return list(islice((agent for agent in agents if search.matches(agent)), most))


def resolve(text: str, names: GhostNames, route: Callable[[str], Route]) -> AgentAddress:
    """The agent with this user id, address, or unambiguous id. Raises `MatrixError`."""
    if not text or len(text) > MAX_TEXT:
        raise _not_found("The identifier is empty or too long.")
    text = text.removeprefix(SCHEME)
    if text.startswith("@"):
        address = names.address(text)
        if address is None:
            raise _not_found("That user is not an agent of this node.")
        return address
    target = parse_target(text)
    match target:
        case InvalidAddress(reason):
            raise _not_found(reason)
        case AgentAddress():
            return target
        case BareAgentId():
            decision = route(text)
            if isinstance(decision, Unknown):
                raise _not_found(decision.reason)
            return decision.address


def _not_found(reason: str) -> MatrixError:
    return MatrixError("M_NOT_FOUND", reason[:MAX_TEXT], 404)


def contact(
    agent: Agent, names: GhostNames, *, name: str | None = None, avatar: str | None = None, room: str | None = None
) -> dict[str, Any]:
    """`room` is the existing chat."""
    ghost = names.ghost(agent.address)
    credentials: dict[str, Any] = {
        "id": str(agent.address),
        "name": name or display_name(agent.agent_id),
        "identifiers": identifiers(agent.address),
    }
    if ghost is not None and not isinstance(ghost, NoGhost):
        credentials["mxid"] = ghost
    if avatar is not None:
        credentials["avatar_url"] = avatar
    if room is not None:
        credentials["dm_room_mxid"] = room
    return credentials


def identifiers(address: AgentAddress) -> Sequence[str]:
    return [f"{SCHEME}{address}"]


async def contacts(request: web.Request, services: ProvisioningServices) -> Mapping[str, Any]:
    person = await _person(request, services)
    agents = list_agents(services.routes.table.agents(), services.names.node_id)
    return {"contacts": await _shown(services, person, agents)}


async def search_users(request: web.Request, services: ProvisioningServices) -> Mapping[str, Any]:
    person = await _person(request, services)
    query = (await read_object(request)).get("query")
    if not isinstance(query, str):
        raise MatrixError("M_BAD_JSON", "`query` has to be a string.")
    agents = find_agents(services.routes.table.agents(), query)
    return {"results": await _shown(services, person, agents)}


async def resolve_identifier(request: web.Request, services: ProvisioningServices) -> Mapping[str, Any]:
    person = await _person(request, services)
    agent = _target_agent(request, services)
    known = await services.chats.known_chats(person, [agent.address])
    return await _contact_with_avatar(services, agent, known.get(agent.address))


async def create_dm(request: web.Request, services: ProvisioningServices) -> Answer:
    person = await _person(request, services)
    agent = _target_agent(request, services)
    chat = await services.chats.get_or_create(person, agent.address)
    return await _contact_with_avatar(services, agent, chat.room_id), 201 if chat.is_new else 200


async def create_group(request: web.Request, services: ProvisioningServices) -> Answer:
    await _person(request, services)
    raise MatrixError("M_UNRECOGNIZED", "This bridge has no groups: create a room and invite agents to it.", 501)


async def backfill(request: web.Request, services: ProvisioningServices) -> Answer:
    await _person(request, services)
    raise MatrixError("M_UNRECOGNIZED", "This bridge has no history to backfill: it is all in rooms.", 501)


async def _person(request: web.Request, services: ProvisioningServices) -> str:
    person = await services.person(request)
    await check_login(request, services, person)
    return person


def _target_agent(request: web.Request, services: ProvisioningServices) -> Agent:
    address: AgentAddress = resolve(request.match_info["identifier"], services.names, services.routes.route)
    agent = services.routes.agent(address)
    if agent is None:
        raise MatrixError("M_NOT_FOUND", "There is no such agent.", 404)
    return agent


async def _shown(services: ProvisioningServices, person: str, agents: Sequence[Agent]) -> list[dict[str, Any]]:
    known = await services.chats.known_chats(person, [agent.address for agent in agents])
    return [
        contact(agent, services.names, name=services.name_of(agent), room=known.get(agent.address)) for agent in agents
    ]


async def _contact_with_avatar(services: ProvisioningServices, agent: Agent, room: str | None) -> dict[str, Any]:
    """With the avatar, which needs a request to the homeserver."""
    ghost = services.names.ghost(agent.address)
    profile = None
    if ghost is not None and not isinstance(ghost, NoGhost):
        profile = await services.side.profile(ghost)
    avatar = None if profile is None else profile.get("avatar_url")
    return contact(
        agent,
        services.names,
        name=services.name_of(agent),
        avatar=avatar if isinstance(avatar, str) else None,
        room=room,
    )
