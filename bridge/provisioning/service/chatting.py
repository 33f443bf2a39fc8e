"""Agents, and chats with them: `contacts`, `search_users`, `resolve_identifier/…`, `create_dm/…`; and what
there is none of here."""

from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

from bridge.address import AgentAddress
from bridge.agent import Agent
from bridge.ghost import NoGhost
from bridge.provisioning.contacts import contact, found, listed, meant
from bridge.provisioning.service.logging_in import check_login
from bridge.provisioning.service.services import Answer, ProvisioningServices, read_object
from federation.errors import MatrixError


async def contacts(request: web.Request, services: ProvisioningServices) -> Mapping[str, Any]:
    person = await _person(request, services)
    agents = listed(services.routes.table.agents(), services.names.node_id)
    return {"contacts": await _shown(services, person, agents)}


async def search_users(request: web.Request, services: ProvisioningServices) -> Mapping[str, Any]:
    person = await _person(request, services)
    query = (await read_object(request)).get("query")
    if not isinstance(query, str):
        raise MatrixError("M_BAD_JSON", "`query` says what is searched for.")
    agents = found(services.routes.table.agents(), query)
    return {"results": await _shown(services, person, agents)}


async def resolve_identifier(request: web.Request, services: ProvisioningServices) -> Mapping[str, Any]:
    person = await _person(request, services)
    agent = _meant(request, services)
    known = await services.chats.known(person, [agent.address])
    return await _one(services, agent, known.get(agent.address))


async def create_dm(request: web.Request, services: ProvisioningServices) -> Answer:
    person = await _person(request, services)
    agent = _meant(request, services)
    chat = await services.chats.provide(person, agent.address)
    return await _one(services, agent, chat.room_id), 201 if chat.is_new else 200


async def create_group(request: web.Request, services: ProvisioningServices) -> Answer:
    await _person(request, services)
    raise MatrixError(
        "M_UNRECOGNIZED", "Agents have no groups: make a room, and invite those that you want there.", 501
    )


async def backfill(request: web.Request, services: ProvisioningServices) -> Answer:
    await _person(request, services)
    raise MatrixError("M_UNRECOGNIZED", "Agents have no history elsewhere: rooms hold all of it.", 501)


async def _person(request: web.Request, services: ProvisioningServices) -> str:
    person = await services.person(request)
    await check_login(request, services, person)
    return person


def _meant(request: web.Request, services: ProvisioningServices) -> Agent:
    address: AgentAddress = meant(request.match_info["identifier"], services.names, services.routes.route)
    agent = services.routes.agent(address)
    if agent is None:
        raise MatrixError("M_NOT_FOUND", "There is no such agent.", 404)
    return agent


async def _shown(
    services: ProvisioningServices, person: str, agents: Sequence[Agent]
) -> list[dict[str, Any]]:
    known = await services.chats.known(person, [agent.address for agent in agents])
    return [
        contact(agent, services.names, name=services.name_of(agent), room=known.get(agent.address))
        for agent in agents
    ]


async def _one(services: ProvisioningServices, agent: Agent, room: str | None) -> dict[str, Any]:
    """With its picture, for which the homeserver is asked."""
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
