"""The endpoints for published nodes: `POST /_cis/v1/event/receive` and `GET /_cis/v1/health`.

The listener has already decided which clients may use plain HTTP.
"""

from typing import Final

import orjson
from aiohttp import hdrs, web

from bridge.connectors.cis.http.client import PATH
from bridge.connectors.cis.http.receiver import EventReceiver
from bridge.connectors.cis.protocol.published import Source
from bridge.connectors.cis.settings import HEALTH_PATH, CisSettings
from federation.http.server.connection import client_certificate
from federation.matrix.networks import Address, read_address

ORIGIN_HEADER: Final = "x-origin-server"
_LONGEST_NAME: Final = 255


class CisEndpoints:
    def __init__(self, settings: CisSettings, receiver: EventReceiver, version: str) -> None:
        self._settings = settings
        self._receiver = receiver
        self._version = version

    def routes(self) -> list[web.RouteDef]:
        return [web.post(PATH, self._receive), web.get(HEALTH_PATH, self._health)]

    async def _receive(self, request: web.Request) -> web.Response:
        response = await self._receiver.receive(await request.read(), _source(request))
        headers = {} if response.retry_after is None else {hdrs.RETRY_AFTER: str(response.retry_after)}
        return web.Response(
            body=orjson.dumps(dict(response.body)),
            status=response.status,
            content_type="application/json",
            headers=headers,
        )

    async def _health(self, request: web.Request) -> web.Response:
        health = {
            "status": "healthy",
            "server_name": self._settings.node_id,
            "version": self._version,
            "peers": len(self._settings.homeservers()) + len(self._settings.published()),
        }
        return web.Response(body=orjson.dumps(health), content_type="application/json")


def _source(request: web.Request) -> Source:
    certificate = client_certificate(request)
    header = request.headers.get(ORIGIN_HEADER)
    return Source(
        _address(request.remote),
        certificate.peers if certificate is not None else frozenset(),
        header[:_LONGEST_NAME] if header is not None else None,
    )


def _address(remote: str | None) -> Address | None:
    try:
        return read_address(remote) if remote else None
    except ValueError:
        return None
