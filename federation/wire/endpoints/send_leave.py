"""`PUT /_matrix/federation/v2/send_leave/{roomId}/{eventId}`: a leave is handed in.
Server-server API, "Leaving Rooms (Rejecting Invites)"."""

from typing import Any

from aiohttp import web

from federation.wire.answers import json_answer
from federation.wire.membership_services import IN_ROOM, OF_EVENT, V1, V2, begin


async def send_leave(request: web.Request) -> web.Response:
    return json_answer(await _send(request))


async def send_leave_v1(request: web.Request) -> web.Response:
    """Removed from the specification in v1.18: the same as a list behind its status."""
    return json_answer([200, await _send(request)])


async def _send(request: web.Request) -> dict[str, Any]:
    requests, asked = await begin(request)
    room_id, event_id = request.match_info["room_id"], request.match_info["event_id"]
    return await requests.send_leave(asked.origin, room_id, event_id, asked.content)


ROUTES = (
    web.put(f"{V2}/send_leave/{IN_ROOM}/{OF_EVENT}", send_leave),
    web.put(f"{V1}/send_leave/{IN_ROOM}/{OF_EVENT}", send_leave_v1),
)
