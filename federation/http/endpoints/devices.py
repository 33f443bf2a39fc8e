"""`GET /_matrix/federation/v1/user/devices/{userId}`: the devices of a user. Server-server API, "Device
Management".

`POST /_matrix/federation/v1/user/keys/claim`: one-time keys of users' devices. Server-server API,
"End-to-End Encryption".

`POST /_matrix/federation/v1/user/keys/query`: the identity keys of users' devices. Server-server API,
"End-to-End Encryption".

Local users have no devices: agents do not encrypt. "Requested users must be local to the receiving
homeserver."
"""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from federation.http.responses import json_response
from federation.http.services import V1, authenticate_device_request
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain, is_user_id


def devices_of(user_id: str) -> dict[str, Any]:
    """Return the response to `GET /user/devices/{userId}`. The list never changes, so its stream id is 0."""
    return {"user_id": user_id, "stream_id": 0, "devices": []}


def device_keys(body: object, server_name: str) -> dict[str, Any]:
    """Return the response to `POST /user/keys/query`: no devices for each requested user, whether or not
    the user exists."""
    users = _by_user(body, "device_keys", server_name)
    for user_id, devices in users.items():
        if not isinstance(devices, list) or not all(isinstance(device, str) for device in devices):
            raise MatrixError("M_BAD_JSON", f"The value for {user_id} must be a list of device ids.")
    return {"device_keys": {user_id: {} for user_id in users}}


def claimed_keys(body: object, server_name: str) -> dict[str, Any]:
    """Return the response to `POST /user/keys/claim`, which has no keys: "If a key matching these
    requirements can be found, the response contains it."
    """
    for user_id, devices in _by_user(body, "one_time_keys", server_name).items():
        if not isinstance(devices, dict) or not all(isinstance(name, str) for name in devices.values()):
            raise MatrixError("M_BAD_JSON", f"The value for {user_id} must map device ids to algorithms.")
    return {"one_time_keys": {}}


def refuse_remote_users(user_id: str, server_name: str) -> None:
    """Raise `MatrixError` for an invalid user id or a user of another server."""
    if not is_user_id(user_id):
        raise MatrixError("M_INVALID_PARAM", f"{user_id[:255]} is not a valid user id.")
    if domain(user_id) != server_name:
        raise MatrixError("M_INVALID_PARAM", f"{user_id} is not a user of this server.")


def _by_user(body: object, name: str, server_name: str) -> Mapping[str, Any]:
    users = body.get(name) if isinstance(body, dict) else None
    if not isinstance(users, dict):
        raise MatrixError("M_BAD_JSON", f"{name} must be an object with user ids as keys.")
    for user_id in users:
        refuse_remote_users(user_id, server_name)
    return users


async def user_devices(request: web.Request) -> web.Response:
    services, _ = await authenticate_device_request(request)
    user_id = request.match_info["user_id"]
    refuse_remote_users(user_id, services.server_name)
    if not await services.user_exists(user_id):
        raise MatrixError("M_NOT_FOUND", f"The user {user_id} does not exist on this server.", 404)
    return json_response(devices_of(user_id))


async def user_keys_claim(request: web.Request) -> web.Response:
    services, peer_request = await authenticate_device_request(request)
    return json_response(claimed_keys(peer_request.content, services.server_name))


async def user_keys_query(request: web.Request) -> web.Response:
    services, peer_request = await authenticate_device_request(request)
    return json_response(device_keys(peer_request.content, services.server_name))


ROUTES = (
    web.get(f"{V1}/user/devices/{{user_id:[^/]+}}", user_devices),
    web.post(f"{V1}/user/keys/claim", user_keys_claim),
    web.post(f"{V1}/user/keys/query", user_keys_query),
)
