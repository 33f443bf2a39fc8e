"""The aiohttp application behind the port that the homeserver speaks to, and that port.

The listener, its limits and its errors are those of the federation port; here one peer speaks, and shows a
token instead of a signature.
"""

import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Final

from aiohttp import web

from appservice.http.endpoints import ROUTES
from appservice.http.services import SERVICES, AppServices
from federation.http.server.capacity import KIB, Limits
from federation.http.server.listener import Bind, Listener, ListenerSettings
from federation.http.server.observer import Observer
from federation.matrix.networks import Network

EVERYWHERE: Final[tuple[Network, ...]] = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))
"""Homeservers speak plain HTTP to their application services, within a machine or a network of containers.
Who can reach the port at all its address decides, and who is answered the token."""

LIMITS: Final = Limits(
    # Synapse sends 100 events, 100 EDUs and 100 messages to devices at once, each of up to 64 KiB, and
    # whoever refused what is too large would be sent it for ever.
    max_body=64 * KIB * KIB,
    max_bodies=256 * KIB * KIB,
    max_connections=200,
    max_connections_per_address=100,
)


Serve = Callable[[web.Application], None]
"""Puts more routes into the application, and what they need."""


def nothing_else(app: web.Application) -> None:
    """What a homeserver asks is all."""


def make_app(
    services: AppServices, limits: Limits = LIMITS, serve_besides: Serve = nothing_else
) -> web.Application:
    """Each endpoint module has its `ROUTES`. What matches none of them is answered by the middleware: "404
    and `M_UNRECOGNIZED`", "405" for a wrong method."""
    app = web.Application(client_max_size=limits.max_body)
    app[SERVICES] = services
    app.add_routes(ROUTES)
    serve_besides(app)
    return app


def make_listener(
    services: AppServices,
    binds: Sequence[Bind],
    port: int,
    observer: Observer,
    limits: Limits = LIMITS,
    *,
    listening: Sequence[socket.socket] = (),
    serve_besides: Serve = nothing_else,
) -> Listener:
    """It runs between `start` and `close`. `listening`: sockets that were bound before; they are closed
    there."""
    settings = ListenerSettings(binds, port, EVERYWHERE, limits)
    app = make_app(services, limits, serve_besides)
    return Listener(app, settings, None, observer, listening=listening)
