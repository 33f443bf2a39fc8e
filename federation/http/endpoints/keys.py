"""`GET /_matrix/key/v2/server`: this server's signing keys, signed with them. Server-server API,
"Publishing Keys".

`GET /_matrix/key/v2/query/{serverName}` and `POST /_matrix/key/v2/query`: the keys of other servers.
Server-server API, "Querying Keys Through Another Server".
"""

from aiohttp import web

from federation.http.responses import json_response
from federation.http.services import NODE
from federation.keys.notary import Notary
from federation.matrix.canonical_json import NotJson, decode
from federation.matrix.errors import MatrixError


async def key_server(request: web.Request) -> web.Response:
    return json_response(request.app[NODE].own_keys())


NOTARY = web.AppKey("NOTARY", Notary)


async def key_query(request: web.Request) -> web.Response:
    notary = request.app[NOTARY]
    server, minimum = request.match_info["server_name"], request.query.get("minimum_valid_until_ts")
    return json_response(await notary.query_server(server, minimum))


async def key_query_of_many(request: web.Request) -> web.Response:
    try:
        body = decode(await request.read())
    except NotJson:
        raise MatrixError("M_NOT_JSON", "The body of the request is not JSON.") from None
    return json_response(await request.app[NOTARY].query_servers(body))


_PATH = "/_matrix/key/v2/query"


ROUTES = (
    web.get("/_matrix/key/v2/server", key_server),
    # Before v1.6 the path had a key id, which was to be ignored; it may be empty.
    web.get("/_matrix/key/v2/server/{key_id:[^/]*}", key_server),
    web.get(f"{_PATH}/{{server_name:[^/]+}}", key_query),
    # Before v1.6 the path had a key id; the response may contain other keys too.
    web.get(f"{_PATH}/{{server_name:[^/]+}}/{{key_id:[^/]*}}", key_query),
    web.post(_PATH, key_query_of_many),
)
