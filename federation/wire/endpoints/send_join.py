"""`PUT /_matrix/federation/v2/send_join/{roomId}/{eventId}`: a join is handed in, the room is the answer.
Server-server API, "Joining Rooms"."""

from typing import Any

from aiohttp import web

from federation.wire.answers import json_answer
from federation.wire.membership_services import IN_ROOM, OF_EVENT, V1, V2, begin


async def send_join(request: web.Request) -> web.Response:
    omit_members = request.query.get("omit_members") == "true"
    return json_answer(await _send(request, omit_members=omit_members))


async def send_join_v1(request: web.Request) -> web.Response:
    """Removed from the specification in v1.18: the same as a list behind its status."""
    return json_answer([200, await _send(request, omit_members=False)])


async def _send(request: web.Request, *, omit_members: bool) -> dict[str, Any]:
    requests, asked = await begin(request)
    room_id, event_id = request.match_info["room_id"], request.match_info["event_id"]
    return await requests.send_join(asked.origin, room_id, event_id, asked.content, omit_members=omit_members)


ROUTES = (
    web.put(f"{V2}/send_join/{IN_ROOM}/{OF_EVENT}", send_join),
    web.put(f"{V1}/send_join/{IN_ROOM}/{OF_EVENT}", send_join_v1),
)
