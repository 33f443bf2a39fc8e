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

from federation.http.services import MEDIA, two_part_answer
from federation.media import media as media_errors
from federation.media.media import is_media_id
from federation.media.thumbnail_size import parse_size


async def media_download(request: web.Request) -> web.StreamResponse:
    shared = request.app[MEDIA]
    asker = await shared.authenticator.authenticate(request)
    media_id = request.match_info["media_id"]
    if not is_media_id(media_id):
        raise media_errors.not_found()
    with shared.place(asker.origin):
        async with shared.media.open_local(media_id) as opened:
            return await two_part_answer(request, opened)


async def media_thumbnail(request: web.Request) -> web.StreamResponse:
    shared = request.app[MEDIA]
    asker = await shared.authenticator.authenticate(request)
    media_id = request.match_info["media_id"]
    query = request.query
    size = parse_size(query.get("width"), query.get("height"), query.get("method"))
    if not is_media_id(media_id):
        raise media_errors.not_found()
    with shared.place(asker.origin):
        return await two_part_answer(request, await shared.media.local_thumbnail(media_id, size))


async def media_unauthenticated(request: web.Request) -> web.Response:
    raise media_errors.not_found()


_BEGINNING = "/_matrix/media/{version:r0|v1|v3}"
_ADDRESS = "/{server_name:[^/]+}/{media_id:[^/]+}"


ROUTES = (
    web.get("/_matrix/federation/v1/media/download/{media_id:[^/]+}", media_download, allow_head=False),
    web.get("/_matrix/federation/v1/media/thumbnail/{media_id:[^/]+}", media_thumbnail, allow_head=False),
    web.get(f"{_BEGINNING}/download{_ADDRESS}", media_unauthenticated),
    web.get(f"{_BEGINNING}/download{_ADDRESS}/{{file_name:[^/]*}}", media_unauthenticated),
    web.get(f"{_BEGINNING}/thumbnail{_ADDRESS}", media_unauthenticated),
)
