"""`GET /_matrix/federation/v1/media/download/{mediaId}`: media of this server. Server-server API, "Content
Repository".

`timeout_ms` is not looked at: an address is given out here only when its bytes are there.

`GET /_matrix/federation/v1/media/thumbnail/{mediaId}`: a smaller picture. Server-server API, "Content
Repository".

`animated` is not looked at: a thumbnail here never moves, which is allowed whatever is asked for.

The old ways to media, which anybody could go without saying who he is: closed here.

Client-server API, "Content Repository": deprecated since v1.11, and "servers SHOULD […] freeze" them: what is
newer is not there. All of ours is newer. Servers that know the authenticated way never come here, because it
is served; said with 404 M_NOT_FOUND, the others do not look for a third way.
"""

from aiohttp import web

from federation.http.services import MEDIA, two_part_answer
from federation.media import media as media_errors
from federation.media.media import is_media_id
from federation.media.thumbnail_size import read_size


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
    size = read_size(query.get("width"), query.get("height"), query.get("method"))
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
