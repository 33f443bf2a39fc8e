"""`PUT /_matrix/federation/v1/send/{txnId}`: receives a transaction. Server-server API, "Transactions"."""

from aiohttp import web

from federation.http.responses import json_answer
from federation.http.services import V1, begin


async def send(request: web.Request) -> web.Response:
    services, asked = await begin(request)
    transaction_id = request.match_info["txn_id"]
    return json_answer(await services.inbox.receive(asked.origin, transaction_id, asked.content))


ROUTES = (web.put(f"{V1}/send/{{txn_id:[^/]+}}", send),)
