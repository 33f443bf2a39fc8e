"""`GET /_matrix/federation/v1/media/download/{mediaId}`: media of this server. Server-server API, "Content
Repository".

`timeout_ms` is ignored: this server returns an mxc URI only when the upload is complete.

`GET /_matrix/federation/v1/media/thumbnail/{mediaId}`: a thumbnail. Server-server API, "Content
Repository".

`animated` is ignored: thumbnails are never animated, which the specification allows.

The deprecated endpoints without authentication respond with 404.

Client-server API, "Content Repository": deprecated since v1.11, and "servers SHOULD […] freeze" them, so
that newer media is not available there. All media of this server is newer. Servers that support the
authenticated endpoints do not use these. With 404 M_NOT_FOUND other servers do not try further endpoints.
"""

from aiohttp import web

from federation.http.services import MEDIA, multipart_response
from federation.media import media as media_errors
from federation.media.media import is_media_id
from federation.media.thumbnail_size import parse_size


async def media_download(request: web.Request) -> web.StreamResponse:
    services = request.app[MEDIA]
    peer_request = await services.authenticator.authenticate(request)
    media_id = request.match_info["media_id"]
    if not is_media_id(media_id):
        raise media_errors.not_found()
    with services.slot(peer_request.origin):
        async with services.media.open_local(media_id) as opened:
            return await multipart_response(request, opened)


async def media_thumbnail(request: web.Request) -> web.StreamResponse:
    services = request.app[MEDIA]
    peer_request = await services.authenticator.authenticate(request)
    media_id = request.match_info["media_id"]
    query = request.query
    size = parse_size(query.get("width"), query.get("height"), query.get("method"))
    if not is_media_id(media_id):
        raise media_errors.not_found()
    with services.slot(peer_request.origin):
        return await multipart_response(request, await services.media.local_thumbnail(media_id, size))


async def media_unauthenticated(request: web.Request) -> web.Response:
    raise media_errors.not_found()


_PREFIX = "/_matrix/media/{version:r0|v1|v3}"
_MEDIA = "/{server_name:[^/]+}/{media_id:[^/]+}"


ROUTES = (
    web.get("/_matrix/federation/v1/media/download/{media_id:[^/]+}", media_download, allow_head=False),
    web.get("/_matrix/federation/v1/media/thumbnail/{media_id:[^/]+}", media_thumbnail, allow_head=False),
    web.get(f"{_PREFIX}/download{_MEDIA}", media_unauthenticated),
    web.get(f"{_PREFIX}/download{_MEDIA}/{{file_name:[^/]*}}", media_unauthenticated),
    web.get(f"{_PREFIX}/thumbnail{_MEDIA}", media_unauthenticated),
)
