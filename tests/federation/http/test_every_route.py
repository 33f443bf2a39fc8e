"""Properties of all endpoints."""

import importlib
import pkgutil

import pytest
from aiohttp import web

from federation.http import endpoints
from tests.federation.http.running import running

MODULES = [
    importlib.import_module(f"{endpoints.__name__}.{found.name}") for found in pkgutil.iter_modules(endpoints.__path__)
]
# Those that the listeners of these tests already have.
COMMON_ENDPOINTS = {"key_server", "version", "health"}
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND")


def allowed() -> dict[str, set[str]]:
    """Return the methods of each path."""
    app = web.Application()
    for module in MODULES:
        app.add_routes(module.ROUTES)
    found: dict[str, set[str]] = {}
    for resource in app.router.resources():
        found.setdefault(resource.canonical, set()).update(route.method for route in resource)
    return found


@pytest.mark.parametrize(("path", "methods"), allowed().items())
async def test_a_known_path_with_another_method_is_405(path: str, methods: set[str]) -> None:
    """ "A 405 M_UNRECOGNIZED error is used to denote an unsupported method to a known endpoint." It has an
    Allow header and needs no authentication."""
    routes = [
        route
        for module in MODULES
        if module.__name__.rpartition(".")[2] not in COMMON_ENDPOINTS
        for route in module.ROUTES
    ]
    there = path.replace("{version}", "v3").replace("{", "x").replace("}", "")
    async with running(routes=routes) as node, await node.connect() as client:
        for method in METHODS:
            if method in methods:
                continue
            answer = await client.ask(there, method=method)
            assert answer.status == 405, (method, there)
            if method != "HEAD":
                assert answer.json["errcode"] == "M_UNRECOGNIZED"
            assert set(answer.headers["allow"].split(",")) == methods
