"""A server on loopback that publishes its keys, and acts as a notary for those of others."""

from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from federation.client.peer_settings import CertificateFiles
from federation.keys.server_keys import LocalKey
from federation.matrix.signatures import sign
from tests.support.loopback_server import LoopbackServer
from tests.support.neighbourhood import Neighbourhood
from tests.support.server_keys import NOW, key_document


@dataclass
class KeyServer:
    """`answer` is its response with its own keys, and `vouched` the one with keys of others; a test can set
    either to the response of a hostile server."""

    name: str
    key: LocalKey
    server: LoopbackServer
    answer: Any = None
    status: int = 200
    vouched: dict[str, Any] = field(default_factory=dict)
    queries: list[dict[str, Any]] = field(default_factory=list)
    vouches_with: LocalKey | None = None

    @property
    def asked(self) -> int:
        """The number of requests for its own keys."""
        return sum(request.path == "/_matrix/key/v2/server" for request in self.server.requests)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/_matrix/key/v2/query":
            body = await request.json()
            self.queries.append(body)
            signer = self.vouches_with or self.key
            documents = [
                sign(self.vouched[name], self.name, signer.key_id, signer.signing_key)
                for name in body["server_keys"]
                if name in self.vouched
            ]
            return web.json_response({"server_keys": documents})
        if isinstance(self.answer, bytes):
            return web.Response(body=self.answer, status=self.status)
        return web.json_response(self.answer, status=self.status)


async def key_server(
    neighbourhood: Neighbourhood, host: str, key: LocalKey, files: CertificateFiles | None = None
) -> KeyServer:
    """Start a server that publishes `key`. Its name has its port, so it needs no discovery."""

    async def later(request: web.Request) -> web.StreamResponse:
        return await made.handle(request)

    server = await neighbourhood.server(later, host, files=files)
    made = KeyServer(f"{host}:{server.port}", key, server)
    made.answer = key_document(made.name, key)
    return made


__all__ = ["NOW", "KeyServer", "key_server"]
