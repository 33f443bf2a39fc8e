"""The aiohttp application and the listener for the homeserver's requests.

Listener, limits and errors are those of the federation port. Here the only peer is the homeserver,
authenticated by a token instead of a signature.
"""

import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Final

from aiohttp import web

from appservice.http.endpoints import ROUTES
from appservice.http.services import SERVICES, EndpointServices
from federation.http.server.capacity import KIB, Limits
from federation.http.server.listener import Bind, Listener, ListenerSettings
from federation.http.server.observer import Observer
from federation.matrix.networks import Network

EVERYWHERE: Final[tuple[Network, ...]] = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))
"""Homeservers speak plain HTTP to their application services, within one machine or container network. The
bind address decides which hosts can connect, and the token decides which requests are answered."""

LIMITS: Final = Limits(
    # Synapse sends up to 100 events, 100 EDUs and 100 to-device messages at once, each of up to 64 KiB, and
    # would repeat a rejected transaction for ever.
    max_body=64 * KIB * KIB,
    max_bodies=256 * KIB * KIB,
    max_connections=200,
    max_connections_per_address=100,
)


AddRoutes = Callable[[web.Application], None]
"""Adds more routes to the application, and the state that they need."""


def no_more_routes(app: web.Application) -> None:
    """Add nothing to the endpoints of the application service API."""


def make_app(
    services: EndpointServices, limits: Limits = LIMITS, add_routes: AddRoutes = no_more_routes
) -> web.Application:
    """The middleware answers requests that match no route: "404 and `M_UNRECOGNIZED`", "405" for a wrong
    method."""
    app = web.Application(client_max_size=limits.max_body)
    app[SERVICES] = services
    app.add_routes(ROUTES)
    add_routes(app)
    return app


def make_listener(
    services: EndpointServices,
    binds: Sequence[Bind],
    port: int,
    observer: Observer,
    limits: Limits = LIMITS,
    *,
    listening: Sequence[socket.socket] = (),
    add_routes: AddRoutes = no_more_routes,
) -> Listener:
    """It runs between `start` and `close`. `listening` are sockets that are already bound; the listener
    closes them."""
    settings = ListenerSettings(binds, port, EVERYWHERE, limits)
    app = make_app(services, limits, add_routes)
    return Listener(app, settings, None, observer, listening=listening)
