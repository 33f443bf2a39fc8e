"""Runs in a published environment's Python: the server of that version, controlled as `driving` describes.

Uvicorn comes with `mcp`, which every version needs.
"""

import asyncio
import socket
from typing import Any

# Imported first: it redirects stdout, because the package prints while it is imported.
from driving import Driver

# isort: split
import a2c_smcp
import socketio
import uvicorn
from a2c_smcp import server as published
from a2c_smcp.server.auth import AuthenticationProvider, DefaultAuthenticationProvider


class Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


class InHeader(AuthenticationProvider):
    """For 0.1, whose own provider looks for the header in another place than python-socketio puts it."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    async def authenticate(self, sio: Any, environ: dict[str, Any], auth: Any, headers: list[Any]) -> bool:
        return environ.get("HTTP_X_API_KEY") == self._token


class ServerDriver(Driver):
    async def do_listen(self, port: int, token: str | None) -> None:
        """Return once it listens."""
        offices = socketio.AsyncServer(async_mode="asgi")
        # 0.1 had none.
        handshake = getattr(published, "A2CProtocolVersionASGIMiddleware", None)
        provider = DefaultAuthenticationProvider(token) if handshake else InHeader(token)
        offices.register_namespace(published.SMCPNamespace(provider))
        application = socketio.ASGIApp(offices, socketio_path="/socket.io")
        if handshake:
            application = handshake(application, socketio_path="/socket.io", server_version=a2c_smcp.PROTOCOL_VERSION)
        server = Server(uvicorn.Config(application, host="127.0.0.1", port=port, lifespan="off"))
        serving = asyncio.create_task(server.serve())
        self._running.add(serving)
        listening = asyncio.create_task(server.listening.wait())
        await asyncio.wait({serving, listening}, return_when=asyncio.FIRST_COMPLETED)
        assert server.started, f"nothing listens on {port}"


async def main() -> None:
    await ServerDriver().run()


if __name__ == "__main__":
    asyncio.run(main())
