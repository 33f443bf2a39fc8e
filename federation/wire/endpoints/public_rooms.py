"""`GET` and `POST /_matrix/federation/v1/publicRooms`: the rooms that this server lists in public.
Server-server API, "Published room directory"."""

from aiohttp import web

from federation.public_rooms import from_body, from_query
from federation.wire.answers import json_answer
from federation.wire.query_services import V1, begin


async def list_public_rooms(request: web.Request) -> web.Response:
    services, asked = await begin(request)
    return json_answer(await services.public_rooms.answer(asked.origin, from_query(request.query)))


async def search_public_rooms(request: web.Request) -> web.Response:
    services, asked = await begin(request)
    return json_answer(await services.public_rooms.answer(asked.origin, from_body(asked.content)))


ROUTES = (
    web.get(f"{V1}/publicRooms", list_public_rooms),
    web.post(f"{V1}/publicRooms", search_public_rooms),
)
