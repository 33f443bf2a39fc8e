"""`GET /_matrix/federation/v1/make_leave/{roomId}/{userId}`: the template of a leave.
Server-server API, "Leaving Rooms (Rejecting Invites)"."""

from aiohttp import web

from federation.wire.answers import json_answer
from federation.wire.membership_services import IN_ROOM, OF_USER, V1, begin


async def make_leave(request: web.Request) -> web.Response:
    requests, asked = await begin(request)
    room_id, user_id = request.match_info["room_id"], request.match_info["user_id"]
    return json_answer(await requests.make_leave(asked.origin, room_id, user_id))


ROUTES = (web.get(f"{V1}/make_leave/{IN_ROOM}/{OF_USER}", make_leave),)
