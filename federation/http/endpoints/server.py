"""`GET /_matrix/federation/v1/version`: what runs here. Server-server API, 3.1."""

from aiohttp import web

from federation.http.responses import json_answer
from federation.http.services import NODE


async def version(request: web.Request) -> web.Response:
    """The specification asks for name and version; this is the one answer that says the version."""
    return json_answer({"server": {"name": "Palaver", "version": request.app[NODE].version}})


ROUTES = (web.get("/_matrix/federation/v1/version", version),)
