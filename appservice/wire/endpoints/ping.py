"""`POST /_matrix/app/v1/ping`: the homeserver reaches us. Application service API, "Pinging"."""

from aiohttp import web

from appservice.wire.services import V1, begin
from federation.canonical_json import NotJson, decode
from federation.errors import MatrixError
from federation.identifiers import fits
from federation.wire.answers import json_answer


async def ping(request: web.Request) -> web.Response:
    services = begin(request)
    try:
        body = decode(await request.read() or b"{}")
    except NotJson:
        raise MatrixError("M_NOT_JSON", "The body is not JSON.") from None
    if not isinstance(body, dict):
        raise MatrixError("M_BAD_JSON", "The body is not an object.")
    # "transaction_id: A transaction ID for the ping, copied directly from the POST call to the homeserver."
    transaction_id = body.get("transaction_id")
    services.pinged(transaction_id if isinstance(transaction_id, str) and fits(transaction_id) else None)
    return json_answer({})


ROUTES = (web.post(f"{V1}/ping", ping),)
