"""`GET /_matrix/app/v1/thirdparty/…`: clients look up agents and their rooms. Application service API,
"Third-party networks"."""

from aiohttp import web

from appservice.namespaces import AgentRoom
from appservice.registration import PROTOCOL
from appservice.third_party import agent_asked_for, location, protocol, room_asked_for
from appservice.third_party import user as user_of
from appservice.wire.services import UNSTABLE, V1, AppServices, begin
from federation.errors import MatrixError
from federation.wire.answers import json_answer


def _begin(request: web.Request) -> AppServices:
    services = begin(request)
    if request.match_info.get("protocol", PROTOCOL) != PROTOCOL:
        raise MatrixError("M_NOT_FOUND", f"The only protocol here is {PROTOCOL}.", 404)
    return services


async def protocols(request: web.Request) -> web.Response:
    return json_answer(protocol(_begin(request).namespaces))


async def users(request: web.Request) -> web.Response:
    services = _begin(request)
    return await _users(services, agent_asked_for(request.query, services.namespaces))


async def user_by_id(request: web.Request) -> web.Response:
    services = _begin(request)
    return await _users(services, services.namespaces.agent(request.query.get("userid", "")))


async def _users(services: AppServices, agent: tuple[str, str] | None) -> web.Response:
    found = user_of(agent, services.namespaces) if agent is not None else None
    if agent is None or found is None or not await services.inhabitants.knows_agent(*agent):
        raise MatrixError("M_NOT_FOUND", "There is no such agent.", 404)
    return json_answer([found])


async def locations(request: web.Request) -> web.Response:
    return await _locations(_begin(request), room_asked_for(request.query))


async def location_by_alias(request: web.Request) -> web.Response:
    services = _begin(request)
    return await _locations(services, services.namespaces.room(request.query.get("alias", "")))


async def _locations(services: AppServices, room: AgentRoom | None) -> web.Response:
    found = location(room, services.namespaces) if room is not None else None
    if room is None or found is None or not await services.inhabitants.knows_room(room):
        raise MatrixError("M_NOT_FOUND", "There is no such room of agents.", 404)
    return json_answer([found])


ROUTES = tuple(
    web.get(f"{prefix}/thirdparty/{path}", handler)
    for prefix in (V1, UNSTABLE)
    for path, handler in (
        ("protocol/{protocol:[^/]+}", protocols),
        ("user/{protocol:[^/]+}", users),
        ("user", user_by_id),
        ("location/{protocol:[^/]+}", locations),
        ("location", location_by_alias),
    )
)
