"""`GET /_matrix/federation/v1/backfill/{roomId}`: events and what lies before them.
Server-server API, "Backfilling and retrieving missing events"."""

from aiohttp import web

from federation.wire.answers import json_answer
from federation.wire.room_services import IN_ROOM, V1, begin


async def backfill(request: web.Request) -> web.Response:
    services, asked = await begin(request)
    room_id, start = request.match_info["room_id"], request.query.getall("v", [])
    limit = request.query.get("limit")
    return json_answer(
        await services.requests.backfill(asked.origin, room_id, start, limit, services.now_ms())
    )


ROUTES = (web.get(f"{V1}/backfill/{IN_ROOM}", backfill),)
