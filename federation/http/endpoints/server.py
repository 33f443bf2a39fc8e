"""`GET /_matrix/federation/v1/version`: name and version of the software. Server-server API, 3.1."""

from aiohttp import web

from federation.http.responses import json_response
from federation.http.services import NODE


async def version(request: web.Request) -> web.Response:
    """Respond with name and version, as the specification requires. No other response contains the
    version."""
    return json_response({"server": {"name": "Palaver", "version": request.app[NODE].version}})


ROUTES = (web.get("/_matrix/federation/v1/version", version),)
