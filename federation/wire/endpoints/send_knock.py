"""`PUT /_matrix/federation/v1/send_knock/{roomId}/{eventId}`: a knock is handed in, and the room shown.
Server-server API, "Knocking upon a room"."""

from aiohttp import web

from federation.wire.answers import json_answer
from federation.wire.membership_services import IN_ROOM, OF_EVENT, V1, begin


async def send_knock(request: web.Request) -> web.Response:
    requests, asked = await begin(request)
    room_id, event_id = request.match_info["room_id"], request.match_info["event_id"]
    return json_answer(await requests.send_knock(asked.origin, room_id, event_id, asked.content))


ROUTES = (web.put(f"{V1}/send_knock/{IN_ROOM}/{OF_EVENT}", send_knock),)
