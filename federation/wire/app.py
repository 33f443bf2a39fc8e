"""The aiohttp application behind the port."""

from collections.abc import Iterable
from types import ModuleType
from typing import Final

from aiohttp import web

from federation.wire.endpoints import health, key_server, version
from federation.wire.limits import Limits
from federation.wire.node import NODE, Node

ALWAYS: Final[tuple[ModuleType, ...]] = (key_server, version, health)
"""Answered by every homeserver that has a port."""


def make_app(
    node: Node,
    limits: Limits,
    more_routes: Iterable[web.AbstractRouteDef] = (),
    endpoints: Iterable[ModuleType] = ALWAYS,
) -> web.Application:
    """Every endpoint module has its `ROUTES`. What matches none of them is answered by the middleware.

    Write a path parameter `{name:[^/]+}`: aiohttp's plain `{name}` matches no segment that holds a brace.
    """
    app = web.Application(client_max_size=limits.max_body)
    app[NODE] = node
    for module in endpoints:
        app.add_routes(module.ROUTES)
    app.add_routes(more_routes)
    return app
