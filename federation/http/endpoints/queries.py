"""`GET /_matrix/federation/v1/query/directory`: the room of an alias of this server. Server-server API,
"Querying for information".

`GET /_matrix/federation/v1/query/profile`: the profile of a user of this server. Server-server API,
"Querying for information".

`GET` and `POST /_matrix/federation/v1/publicRooms`: the published rooms of this server. Server-server
API, "Published room directory".

`GET /_matrix/federation/v1/hierarchy/{roomId}`: a room and its children, if it is a space.
Server-server API, "Spaces".

`GET /_matrix/federation/v1/openid/userinfo`: the user of an OpenID token. Server-server API, "OpenID".

This server issues no such tokens, so each token is unknown.
"""

from aiohttp import web

from federation.directory.public_rooms import from_body, from_query
from federation.http.responses import json_response
from federation.http.services import V1, authenticate_query
from federation.matrix.errors import MatrixError


async def query_directory(request: web.Request) -> web.Response:
    services, peer_request = await authenticate_query(request)
    return json_response(await services.directory.handle_query(request.query, peer_request.origin))


async def query_profile(request: web.Request) -> web.Response:
    services, _ = await authenticate_query(request)
    return json_response(await services.profiles.handle_query(request.query))


async def list_public_rooms(request: web.Request) -> web.Response:
    services, peer_request = await authenticate_query(request)
    return json_response(await services.public_rooms.handle_query(peer_request.origin, from_query(request.query)))


async def search_public_rooms(request: web.Request) -> web.Response:
    services, peer_request = await authenticate_query(request)
    return json_response(await services.public_rooms.handle_query(peer_request.origin, from_body(peer_request.content)))


_BOOLEANS = {"true": True, "false": False}


async def hierarchy(request: web.Request) -> web.Response:
    services, peer_request = await authenticate_query(request)
    suggested_only = _BOOLEANS.get(request.query.get("suggested_only", "false"))
    if suggested_only is None:
        raise MatrixError("M_INVALID_PARAM", "suggested_only must be true or false.", 400)
    room_id = request.match_info["room_id"]
    return json_response(
        await services.spaces.handle_query(peer_request.origin, room_id, suggested_only=suggested_only)
    )


async def openid_userinfo(request: web.Request) -> web.Response:
    if not request.query.get("access_token"):
        raise MatrixError("M_MISSING_TOKEN", "access_token is missing.", 401)
    raise MatrixError("M_UNKNOWN_TOKEN", "Access token unknown or expired", 401)


ROUTES = (
    web.get(f"{V1}/query/directory", query_directory),
    web.get(f"{V1}/query/profile", query_profile),
    web.get(f"{V1}/publicRooms", list_public_rooms),
    web.post(f"{V1}/publicRooms", search_public_rooms),
    web.get(f"{V1}/hierarchy/{{room_id:[^/]+}}", hierarchy),
    web.get("/_matrix/federation/unstable/org.matrix.msc2946/hierarchy/{room_id:[^/]+}", hierarchy),
    web.get("/_matrix/federation/v1/openid/userinfo", openid_userinfo),
)
