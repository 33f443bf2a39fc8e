"""`PUT /_matrix/federation/v1/send/{txnId}`: receives a transaction. Server-server API, "Transactions"."""

from aiohttp import web

from federation.http.responses import json_response
from federation.http.services import V1, authenticate_room_request


async def send(request: web.Request) -> web.Response:
    services, peer_request = await authenticate_room_request(request)
    transaction_id = request.match_info["txn_id"]
    return json_response(await services.inbox.receive(peer_request.origin, transaction_id, peer_request.content))


ROUTES = (web.put(f"{V1}/send/{{txn_id:[^/]+}}", send),)
