"""`POST /_matrix/federation/v1/user/keys/claim`: keys to begin an encrypted conversation with. Server-server
API, "End-to-End Encryption"."""

from aiohttp import web

from federation.device_requests import claimed_keys
from federation.wire.answers import json_answer
from federation.wire.device_services import V1, begin


async def user_keys_claim(request: web.Request) -> web.Response:
    services, asked = await begin(request)
    return json_answer(claimed_keys(asked.content, services.server_name))


ROUTES = (web.post(f"{V1}/user/keys/claim", user_keys_claim),)
