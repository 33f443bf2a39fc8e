"""`GET /_matrix/key/v2/query/{serverName}` and `POST /_matrix/key/v2/query`: the keys of other servers.
Server-server API, "Querying Keys Through Another Server"."""

from aiohttp import web

from federation.canonical_json import NotJson, decode
from federation.errors import MatrixError
from federation.service.notary import Notary
from federation.wire.answers import json_answer

NOTARY = web.AppKey("NOTARY", Notary)


async def key_query(request: web.Request) -> web.Response:
    notary = request.app[NOTARY]
    server, minimum = request.match_info["server_name"], request.query.get("minimum_valid_until_ts")
    return json_answer(await notary.single(server, minimum))


async def key_query_of_many(request: web.Request) -> web.Response:
    try:
        body = decode(await request.read())
    except NotJson:
        raise MatrixError("M_NOT_JSON", "The body of the request is not JSON.") from None
    return json_answer(await request.app[NOTARY].many(body))


_PATH = "/_matrix/key/v2/query"

ROUTES = (
    web.get(f"{_PATH}/{{server_name:[^/]+}}", key_query),
    # Before v1.6 a key id could be asked for; more keys than that one may be answered.
    web.get(f"{_PATH}/{{server_name:[^/]+}}/{{key_id:[^/]*}}", key_query),
    web.post(_PATH, key_query_of_many),
)
