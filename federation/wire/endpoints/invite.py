"""`PUT /_matrix/federation/v2/invite/{roomId}/{eventId}`: a user of this server is invited.
Server-server API, "Inviting to a room"."""

from aiohttp import web

from federation.inviting import incompatible
from federation.wire.answers import json_answer
from federation.wire.membership_services import IN_ROOM, OF_EVENT, V1, V2, begin


async def invite(request: web.Request) -> web.Response:
    requests, asked = await begin(request)
    room_id, event_id = request.match_info["room_id"], request.match_info["event_id"]
    return json_answer(await requests.receive_invite(asked.origin, room_id, event_id, asked.content))


async def invite_v1(request: web.Request) -> web.Response:
    """It says nothing of the room's version, which is then 1 or 2, and this server supports neither."""
    await begin(request)
    raise incompatible("1")


ROUTES = (
    web.put(f"{V2}/invite/{IN_ROOM}/{OF_EVENT}", invite),
    web.put(f"{V1}/invite/{IN_ROOM}/{OF_EVENT}", invite_v1),
)
