"""`GET /_matrix/federation/v1/event_auth/{roomId}/{eventId}`: the auth chain of an event.
Server-server API, "Retrieving event authorization information"."""

from aiohttp import web

from federation.wire.answers import json_answer
from federation.wire.room_services import IN_ROOM, OF_EVENT, V1, begin


async def event_auth(request: web.Request) -> web.Response:
    services, asked = await begin(request)
    room_id, event_id = request.match_info["room_id"], request.match_info["event_id"]
    return json_answer(await services.requests.event_auth(asked.origin, room_id, event_id))


ROUTES = (web.get(f"{V1}/event_auth/{IN_ROOM}/{OF_EVENT}", event_auth),)
