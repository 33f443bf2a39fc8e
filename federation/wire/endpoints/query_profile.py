"""`GET /_matrix/federation/v1/query/profile`: what a user of this server says of himself.
Server-server API, "Querying for information"."""

from aiohttp import web

from federation.wire.answers import json_answer
from federation.wire.query_services import V1, begin


async def query_profile(request: web.Request) -> web.Response:
    services, _ = await begin(request)
    return json_answer(await services.profiles.answer(request.query))


ROUTES = (web.get(f"{V1}/query/profile", query_profile),)
