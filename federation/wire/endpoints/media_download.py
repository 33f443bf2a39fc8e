"""`GET /_matrix/federation/v1/media/download/{mediaId}`: media of this server. Server-server API, "Content
Repository".

`timeout_ms` is not looked at: an address is given out here only when its bytes are there.
"""

from aiohttp import web

from federation import media_errors
from federation.media import is_media_id
from federation.wire.media_for_peers import MEDIA, two_part_answer


async def media_download(request: web.Request) -> web.StreamResponse:
    shared = request.app[MEDIA]
    asker = await shared.authenticator.authenticate(request)
    media_id = request.match_info["media_id"]
    if not is_media_id(media_id):
        raise media_errors.not_found()
    with shared.place(asker.origin):
        async with shared.media.open_local(media_id) as opened:
            return await two_part_answer(request, opened)


ROUTES = (
    web.get("/_matrix/federation/v1/media/download/{media_id:[^/]+}", media_download, allow_head=False),
)
