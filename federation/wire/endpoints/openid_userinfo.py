"""`GET /_matrix/federation/v1/openid/userinfo`: whose token that is. Server-server API, "OpenID".

This server gives nobody such a token: agents log into no third service with one. So it knows none.
"""

from aiohttp import web

from federation.errors import MatrixError


async def openid_userinfo(request: web.Request) -> web.Response:
    if not request.query.get("access_token"):
        raise MatrixError("M_MISSING_TOKEN", "access_token is missing.", 401)
    raise MatrixError("M_UNKNOWN_TOKEN", "Access token unknown or expired", 401)


ROUTES = (web.get("/_matrix/federation/v1/openid/userinfo", openid_userinfo),)
