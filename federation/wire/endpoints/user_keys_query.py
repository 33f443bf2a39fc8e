"""`POST /_matrix/federation/v1/user/keys/query`: the identity keys of users' devices. Server-server API,
"End-to-End Encryption"."""

from aiohttp import web

from federation.device_requests import device_keys
from federation.wire.answers import json_answer
from federation.wire.device_services import V1, begin


async def user_keys_query(request: web.Request) -> web.Response:
    services, asked = await begin(request)
    return json_answer(device_keys(asked.content, services.server_name))


ROUTES = (web.post(f"{V1}/user/keys/query", user_keys_query),)
