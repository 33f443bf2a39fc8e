"""Puts the interface into the application behind the node's port."""

from aiohttp import web

from bridge.service.agent_api import http, socket
from bridge.service.agent_api.services import SERVICES, AgentServices
from bridge.service.agent_api.socket import SOCKETS, Sockets

ROUTES = (*http.ROUTES, *socket.ROUTES)


def serve(app: web.Application, services: AgentServices) -> None:
    """When the listener closes nobody is given a task any more, and sockets are told to leave."""
    sockets = Sockets()
    app[SERVICES] = services
    app[SOCKETS] = sockets
    app.add_routes(ROUTES)
    services.tokens.on_revoked(sockets.revoked)
    services.tokens.on_revoked(services.agents.revoked)

    async def leave(_: web.Application) -> None:
        services.agents.stop()
        sockets.close()

    app.on_shutdown.append(leave)
