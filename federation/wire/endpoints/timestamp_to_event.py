"""`GET /_matrix/federation/v1/timestamp_to_event/{roomId}`: the event next to a time.
Server-server API, "Retrieving events"."""

from aiohttp import web

from federation.wire.answers import json_answer
from federation.wire.room_services import IN_ROOM, V1, begin


async def timestamp_to_event(request: web.Request) -> web.Response:
    services, asked = await begin(request)
    room_id = request.match_info["room_id"]
    return json_answer(await services.requests.timestamp_to_event(asked.origin, room_id, request.query))


ROUTES = (web.get(f"{V1}/timestamp_to_event/{IN_ROOM}", timestamp_to_event),)
