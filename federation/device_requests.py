"""What other servers may ask of the devices of our users, of which there are none: agents do not encrypt.

Server-server API, "End-to-End Encryption" and "Device Management". "Requested users must be local to the
receiving homeserver."
"""

from collections.abc import Mapping
from typing import Any

from federation.errors import MatrixError
from federation.identifiers import domain, is_user_id


def devices_of(user_id: str) -> dict[str, Any]:
    """The answer to `GET /user/devices/{userId}`. The list has never changed, so its number is 0."""
    return {"user_id": user_id, "stream_id": 0, "devices": []}


def device_keys(body: object, server_name: str) -> dict[str, Any]:
    """The answer to `POST /user/keys/query`: whoever is asked for is named, and has no device. That is so
    whether or not there is such a user."""
    asked = _by_user(body, "device_keys", server_name)
    for user_id, devices in asked.items():
        if not isinstance(devices, list) or not all(isinstance(device, str) for device in devices):
            raise MatrixError("M_BAD_JSON", f"What is asked of {user_id} is a list of device ids.")
    return {"device_keys": {user_id: {} for user_id in asked}}


def claimed_keys(body: object, server_name: str) -> dict[str, Any]:
    """The answer to `POST /user/keys/claim`: "If a key matching these requirements can be found, the response
    contains it." """
    for user_id, devices in _by_user(body, "one_time_keys", server_name).items():
        if not isinstance(devices, dict) or not all(isinstance(name, str) for name in devices.values()):
            raise MatrixError("M_BAD_JSON", f"What is asked of {user_id} are algorithms by device.")
    return {"one_time_keys": {}}


def refuse_strangers(user_id: str, server_name: str) -> None:
    """Raises `MatrixError` for what is no user id, or that of a user of another server."""
    if not is_user_id(user_id):
        raise MatrixError("M_INVALID_PARAM", "That is no user id.")
    if domain(user_id) != server_name:
        raise MatrixError("M_INVALID_PARAM", f"{user_id} is not a user of this server.")


def _by_user(body: object, name: str, server_name: str) -> Mapping[str, Any]:
    asked = body.get(name) if isinstance(body, dict) else None
    if not isinstance(asked, dict):
        raise MatrixError("M_BAD_JSON", f"{name} is an object by user.")
    for user_id in asked:
        refuse_strangers(user_id, server_name)
    return asked
