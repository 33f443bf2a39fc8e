"""`GET /.well-known/matrix/server`: the delegated address of this server. Server-server API, "Resolving
server names", step 3."""

from aiohttp import web

from federation.http.responses import json_response
from federation.http.services import NODE
from federation.matrix.errors import MatrixError


async def well_known_server(request: web.Request) -> web.Response:
    delegated = request.app[NODE].delegated_name
    if delegated is None:
        raise MatrixError("M_NOT_FOUND", "This server has no delegated address: resolve its server name.", 404)
    return json_response({"m.server": delegated})


ROUTES = (web.get("/.well-known/matrix/server", well_known_server),)
