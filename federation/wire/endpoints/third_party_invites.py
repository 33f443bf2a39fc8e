"""`PUT /_matrix/federation/v1/exchange_third_party_invite/{roomId}` and `PUT …/3pid/onbind`: invites to an
e-mail address or a telephone number. Server-server API, "Third-party invites".

An agent has neither, and this server knows no identity server that could say whose one is.
"""

from aiohttp import web

from federation.errors import MatrixError


async def third_party_invites(request: web.Request) -> web.Response:
    raise MatrixError("M_UNRECOGNIZED", "This server has nothing to do with third-party invites.", 404)


_V1 = "/_matrix/federation/v1"

ROUTES = (
    web.put(f"{_V1}/exchange_third_party_invite/{{room_id:[^/]+}}", third_party_invites),
    web.put(f"{_V1}/3pid/onbind", third_party_invites),
)
