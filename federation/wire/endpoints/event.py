"""`GET /_matrix/federation/v1/event/{eventId}`: one event. Server-server API, "Retrieving events"."""

from aiohttp import web

from federation.wire.answers import json_answer
from federation.wire.room_services import OF_EVENT, V1, begin


async def event(request: web.Request) -> web.Response:
    services, asked = await begin(request)
    event_id = request.match_info["event_id"]
    return json_answer(await services.requests.event(asked.origin, event_id, services.now_ms()))


ROUTES = (web.get(f"{V1}/event/{OF_EVENT}", event),)
