"""`GET /_matrix/federation/v1/query/directory`: the room that an alias of this server names.
Server-server API, "Querying for information"."""

from aiohttp import web

from federation.wire.answers import json_answer
from federation.wire.query_services import V1, begin


async def query_directory(request: web.Request) -> web.Response:
    services, asked = await begin(request)
    return json_answer(await services.directory.answer(request.query, asked.origin))


ROUTES = (web.get(f"{V1}/query/directory", query_directory),)
