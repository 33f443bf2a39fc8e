"""`GET /_matrix/app/v1/users/{userId}` and `/rooms/{roomAlias}`: somebody looks for one of ours that the
homeserver does not know yet. Application service API, "Querying"."""

from aiohttp import web

from appservice.wire.services import V1, begin
from federation.errors import MatrixError
from federation.wire.answers import json_answer


async def users(request: web.Request) -> web.Response:
    # "200: The application service indicates that this user exists. The application service MUST have created
    # the user using the client-server API."
    services = begin(request)
    agent = services.namespaces.agent(request.match_info["user_id"])
    if agent is None or not await services.inhabitants.provide_agent(*agent):
        raise MatrixError("M_NOT_FOUND", "There is no such agent.", 404)
    return json_answer({})


async def rooms(request: web.Request) -> web.Response:
    # "200: The application service indicates that this room alias exists. The application service MUST have
    # created a room and associated it with the queried room alias using the client-server API."
    services = begin(request)
    room = services.namespaces.room(request.match_info["alias"])
    if room is None or not await services.inhabitants.provide_room(room):
        raise MatrixError("M_NOT_FOUND", "There is no such room of agents.", 404)
    return json_answer({})


ROUTES = tuple(
    route
    # The second one is the path of before v1.0, to which homeservers fall back.
    for prefix in (V1, "")
    for route in (
        web.get(f"{prefix}/users/{{user_id:[^/]+}}", users),
        web.get(f"{prefix}/rooms/{{alias:[^/]+}}", rooms),
    )
)
