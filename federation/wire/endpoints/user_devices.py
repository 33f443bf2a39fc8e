"""`GET /_matrix/federation/v1/user/devices/{userId}`: the devices of a user. Server-server API, "Device
Management"."""

from aiohttp import web

from federation.device_requests import devices_of, refuse_strangers
from federation.errors import MatrixError
from federation.wire.answers import json_answer
from federation.wire.device_services import V1, begin


async def user_devices(request: web.Request) -> web.Response:
    services, _ = await begin(request)
    user_id = request.match_info["user_id"]
    refuse_strangers(user_id, services.server_name)
    if not await services.user_exists(user_id):
        raise MatrixError("M_NOT_FOUND", "There is no such user here.", 404)
    return json_answer(devices_of(user_id))


ROUTES = (web.get(f"{V1}/user/devices/{{user_id:[^/]+}}", user_devices),)
