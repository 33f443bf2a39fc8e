"""The old ways to media, which anybody could go without saying who he is: closed here.

Client-server API, "Content Repository": deprecated since v1.11, and "servers SHOULD […] freeze" them: what is
newer is not there. All of ours is newer. Servers that know the authenticated way never come here, because it
is served; said with 404 M_NOT_FOUND, the others do not look for a third way.
"""

from aiohttp import web

from federation import media_errors


async def media_unauthenticated(request: web.Request) -> web.Response:
    raise media_errors.not_found()


_BEGINNING = "/_matrix/media/{version:r0|v1|v3}"
_ADDRESS = "/{server_name:[^/]+}/{media_id:[^/]+}"

ROUTES = (
    web.get(f"{_BEGINNING}/download{_ADDRESS}", media_unauthenticated),
    web.get(f"{_BEGINNING}/download{_ADDRESS}/{{file_name:[^/]*}}", media_unauthenticated),
    web.get(f"{_BEGINNING}/thumbnail{_ADDRESS}", media_unauthenticated),
)
