"""`GET /_matrix/federation/v1/media/thumbnail/{mediaId}`: a smaller picture. Server-server API, "Content
Repository".

`animated` is not looked at: a thumbnail here never moves, which is allowed whatever is asked for.
"""

from aiohttp import web

from federation import media_errors
from federation.media import is_media_id
from federation.thumbnail_size import read_size
from federation.wire.media_for_peers import MEDIA, two_part_answer


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


ROUTES = (
    web.get("/_matrix/federation/v1/media/thumbnail/{media_id:[^/]+}", media_thumbnail, allow_head=False),
)
