"""`GET /_matrix/key/v2/server`: this node's signing keys, signed by themselves. Server-server API, 3.2.1."""

from aiohttp import web

from federation.wire.answers import json_answer
from federation.wire.node import NODE


async def key_server(request: web.Request) -> web.Response:
    return json_answer(request.app[NODE].own_keys())


ROUTES = (
    web.get("/_matrix/key/v2/server", key_server),
    # Before v1.6 a key id could be asked for, which was to be ignored; it may be empty.
    web.get("/_matrix/key/v2/server/{key_id:[^/]*}", key_server),
)
