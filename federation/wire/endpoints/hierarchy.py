"""`GET /_matrix/federation/v1/hierarchy/{roomId}`: a room and its children, if it is a space.
Server-server API, "Spaces"."""

from aiohttp import web

from federation.errors import MatrixError
from federation.wire.answers import json_answer
from federation.wire.query_services import V1, begin

_BOOLEANS = {"true": True, "false": False}


async def hierarchy(request: web.Request) -> web.Response:
    services, asked = await begin(request)
    suggested_only = _BOOLEANS.get(request.query.get("suggested_only", "false"))
    if suggested_only is None:
        raise MatrixError("M_INVALID_PARAM", "suggested_only is true or false.", 400)
    room_id = request.match_info["room_id"]
    return json_answer(await services.spaces.answer(asked.origin, room_id, suggested_only=suggested_only))


ROUTES = (
    web.get(f"{V1}/hierarchy/{{room_id:[^/]+}}", hierarchy),
    # Until v1.2 of the specification, which servers of today try when they do not find the other.
    web.get("/_matrix/federation/unstable/org.matrix.msc2946/hierarchy/{room_id:[^/]+}", hierarchy),
)
