"""`GET /_matrix/federation/v1/make_join/{roomId}/{userId}`: the template of a join.
Server-server API, "Joining Rooms".

`GET /_matrix/federation/v1/make_knock/{roomId}/{userId}`: the template of a knock.
Server-server API, "Knocking upon a room".

`GET /_matrix/federation/v1/make_leave/{roomId}/{userId}`: the template of a leave.
Server-server API, "Leaving Rooms (Rejecting Invites)".

`PUT /_matrix/federation/v2/send_join/{roomId}/{eventId}`: submits a join; the response is the room's
state. Server-server API, "Joining Rooms".

`PUT /_matrix/federation/v1/send_knock/{roomId}/{eventId}`: submits a knock; the response is stripped
state. Server-server API, "Knocking upon a room".

`PUT /_matrix/federation/v2/send_leave/{roomId}/{eventId}`: submits a leave. Server-server API, "Leaving
Rooms (Rejecting Invites)".

`PUT /_matrix/federation/v2/invite/{roomId}/{eventId}`: invites a user of this server. Server-server API,
"Inviting to a room".

`PUT /_matrix/federation/v1/exchange_third_party_invite/{roomId}` and `PUT …/3pid/onbind`: invites to an
e-mail address or a telephone number. Server-server API, "Third-party invites".

They are not supported: agents have neither, and this server uses no identity server.
"""

from typing import Any

from aiohttp import web

from federation.http.responses import json_response
from federation.http.services import EVENT_ID, ROOM_ID, USER_ID, V1, V2, authenticate_membership_request
from federation.matrix.errors import MatrixError
from federation.memberships.inviting import incompatible


async def make_join(request: web.Request) -> web.Response:
    requests, peer_request = await authenticate_membership_request(request)
    room_id, user_id = request.match_info["room_id"], request.match_info["user_id"]
    return json_response(
        await requests.make_join(peer_request.origin, room_id, user_id, request.query.getall("ver", []))
    )


async def make_knock(request: web.Request) -> web.Response:
    requests, peer_request = await authenticate_membership_request(request)
    room_id, user_id = request.match_info["room_id"], request.match_info["user_id"]
    return json_response(
        await requests.make_knock(peer_request.origin, room_id, user_id, request.query.getall("ver", []))
    )


async def make_leave(request: web.Request) -> web.Response:
    requests, peer_request = await authenticate_membership_request(request)
    room_id, user_id = request.match_info["room_id"], request.match_info["user_id"]
    return json_response(await requests.make_leave(peer_request.origin, room_id, user_id))


async def send_join(request: web.Request) -> web.Response:
    omit_members = request.query.get("omit_members") == "true"
    return json_response(await _send_join(request, omit_members=omit_members))


async def send_join_v1(request: web.Request) -> web.Response:
    """Respond with `[200, body]`. Removed from the specification in v1.18."""
    return json_response([200, await _send_join(request, omit_members=False)])


async def _send_join(request: web.Request, *, omit_members: bool) -> dict[str, Any]:
    requests, peer_request = await authenticate_membership_request(request)
    room_id, event_id = request.match_info["room_id"], request.match_info["event_id"]
    return await requests.send_join(
        peer_request.origin, room_id, event_id, peer_request.content, omit_members=omit_members
    )


async def send_knock(request: web.Request) -> web.Response:
    requests, peer_request = await authenticate_membership_request(request)
    room_id, event_id = request.match_info["room_id"], request.match_info["event_id"]
    return json_response(await requests.send_knock(peer_request.origin, room_id, event_id, peer_request.content))


async def send_leave(request: web.Request) -> web.Response:
    return json_response(await _send_leave(request))


async def send_leave_v1(request: web.Request) -> web.Response:
    """Respond with `[200, body]`. Removed from the specification in v1.18."""
    return json_response([200, await _send_leave(request)])


async def _send_leave(request: web.Request) -> dict[str, Any]:
    requests, peer_request = await authenticate_membership_request(request)
    room_id, event_id = request.match_info["room_id"], request.match_info["event_id"]
    return await requests.send_leave(peer_request.origin, room_id, event_id, peer_request.content)


async def invite(request: web.Request) -> web.Response:
    requests, peer_request = await authenticate_membership_request(request)
    room_id, event_id = request.match_info["room_id"], request.match_info["event_id"]
    return json_response(await requests.receive_invite(peer_request.origin, room_id, event_id, peer_request.content))


async def invite_v1(request: web.Request) -> web.Response:
    """Refuse the invite: this endpoint is for rooms of version 1 or 2, which this server does not
    support."""
    await authenticate_membership_request(request)
    raise incompatible("1")


async def third_party_invites(request: web.Request) -> web.Response:
    raise MatrixError("M_UNRECOGNIZED", "This server does not support third-party invites.", 404)


_V1 = "/_matrix/federation/v1"


ROUTES = (
    web.get(f"{V1}/make_join/{ROOM_ID}/{USER_ID}", make_join),
    web.get(f"{V1}/make_knock/{ROOM_ID}/{USER_ID}", make_knock),
    web.get(f"{V1}/make_leave/{ROOM_ID}/{USER_ID}", make_leave),
    web.put(f"{V2}/send_join/{ROOM_ID}/{EVENT_ID}", send_join),
    web.put(f"{V1}/send_join/{ROOM_ID}/{EVENT_ID}", send_join_v1),
    web.put(f"{V1}/send_knock/{ROOM_ID}/{EVENT_ID}", send_knock),
    web.put(f"{V2}/send_leave/{ROOM_ID}/{EVENT_ID}", send_leave),
    web.put(f"{V1}/send_leave/{ROOM_ID}/{EVENT_ID}", send_leave_v1),
    web.put(f"{V2}/invite/{ROOM_ID}/{EVENT_ID}", invite),
    web.put(f"{V1}/invite/{ROOM_ID}/{EVENT_ID}", invite_v1),
    web.put(f"{_V1}/exchange_third_party_invite/{{room_id:[^/]+}}", third_party_invites),
    web.put(f"{_V1}/3pid/onbind", third_party_invites),
)
