"""`POST /_matrix/federation/v1/get_missing_events/{roomId}`: what lies between events.
Server-server API, "Backfilling and retrieving missing events"."""

from aiohttp import web

from federation.wire.answers import json_answer
from federation.wire.room_services import IN_ROOM, V1, begin


async def get_missing_events(request: web.Request) -> web.Response:
    services, asked = await begin(request)
    room_id = request.match_info["room_id"]
    return json_answer(await services.requests.missing_events(asked.origin, room_id, asked.content))


ROUTES = (web.post(f"{V1}/get_missing_events/{IN_ROOM}", get_missing_events),)
