"""`GET /_matrix/federation/v1/state/{roomId}`: the state before an event, as events.
Server-server API, "Retrieving events"."""

from aiohttp import web

from federation.wire.answers import json_answer
from federation.wire.room_services import IN_ROOM, V1, begin


async def state(request: web.Request) -> web.Response:
    services, asked = await begin(request)
    room_id = request.match_info["room_id"]
    return json_answer(await services.requests.state(asked.origin, room_id, request.query))


ROUTES = (web.get(f"{V1}/state/{IN_ROOM}", state),)
