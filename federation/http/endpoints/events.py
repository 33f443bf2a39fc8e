"""`GET /_matrix/federation/v1/event/{eventId}`: one event. Server-server API, "Retrieving events".

`GET /_matrix/federation/v1/event_auth/{roomId}/{eventId}`: the auth chain of an event.
Server-server API, "Retrieving event authorization information".

`GET /_matrix/federation/v1/state/{roomId}`: the state before an event, as events.
Server-server API, "Retrieving events".

`GET /_matrix/federation/v1/state_ids/{roomId}`: the state before an event, as event ids.
Server-server API, "Retrieving events".

`GET /_matrix/federation/v1/backfill/{roomId}`: events and those before them. Server-server API,
"Backfilling and retrieving missing events".

`POST /_matrix/federation/v1/get_missing_events/{roomId}`: the events between others. Server-server API,
"Backfilling and retrieving missing events".

`GET /_matrix/federation/v1/timestamp_to_event/{roomId}`: the event closest to a timestamp. Server-server
API, "Retrieving events".
"""

from aiohttp import web

from federation.http.responses import json_response
from federation.http.services import EVENT_ID, ROOM_ID, V1, authenticate_room_request


async def event(request: web.Request) -> web.Response:
    services, peer_request = await authenticate_room_request(request)
    event_id = request.match_info["event_id"]
    return json_response(await services.requests.event(peer_request.origin, event_id, services.now_ms()))


async def event_auth(request: web.Request) -> web.Response:
    services, peer_request = await authenticate_room_request(request)
    room_id, event_id = request.match_info["room_id"], request.match_info["event_id"]
    return json_response(await services.requests.event_auth(peer_request.origin, room_id, event_id))


async def state(request: web.Request) -> web.Response:
    services, peer_request = await authenticate_room_request(request)
    room_id = request.match_info["room_id"]
    return json_response(await services.requests.state(peer_request.origin, room_id, request.query))


async def state_ids(request: web.Request) -> web.Response:
    services, peer_request = await authenticate_room_request(request)
    room_id = request.match_info["room_id"]
    return json_response(await services.requests.state_ids(peer_request.origin, room_id, request.query))


async def backfill(request: web.Request) -> web.Response:
    services, peer_request = await authenticate_room_request(request)
    room_id, start = request.match_info["room_id"], request.query.getall("v", [])
    limit = request.query.get("limit")
    return json_response(
        await services.requests.backfill(peer_request.origin, room_id, start, limit, services.now_ms())
    )


async def get_missing_events(request: web.Request) -> web.Response:
    services, peer_request = await authenticate_room_request(request)
    room_id = request.match_info["room_id"]
    return json_response(await services.requests.missing_events(peer_request.origin, room_id, peer_request.content))


async def timestamp_to_event(request: web.Request) -> web.Response:
    services, peer_request = await authenticate_room_request(request)
    room_id = request.match_info["room_id"]
    return json_response(await services.requests.timestamp_to_event(peer_request.origin, room_id, request.query))


ROUTES = (
    web.get(f"{V1}/event/{EVENT_ID}", event),
    web.get(f"{V1}/event_auth/{ROOM_ID}/{EVENT_ID}", event_auth),
    web.get(f"{V1}/state/{ROOM_ID}", state),
    web.get(f"{V1}/state_ids/{ROOM_ID}", state_ids),
    web.get(f"{V1}/backfill/{ROOM_ID}", backfill),
    web.post(f"{V1}/get_missing_events/{ROOM_ID}", get_missing_events),
    web.get(f"{V1}/timestamp_to_event/{ROOM_ID}", timestamp_to_event),
)
