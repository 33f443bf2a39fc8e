"""The OpenAPI document and the routes."""

import re
from pathlib import Path

from aiohttp import web

from bridge.agents.attached.http import ROUTES
from bridge.agents.attached.openapi import document
from storage.database import Database
from tests.bridge.agents.attached.api_running import api


def test_routes_and_document_agree() -> None:
    """Every path, with every method."""
    app = web.Application()
    app.add_routes(ROUTES)
    answered = {
        (route.method, re.sub(r"\{(\w+):[^{}]*(?:\{[^{}]*\})?\}", r"{\1}", resource.canonical))
        for resource in app.router.resources()
        for route in resource
    }
    described = {(method.upper(), path) for path, methods in document()["paths"].items() for method in methods}
    assert answered == described


async def test_the_api_is_on_the_nodes_port(database: Database, tmp_path: Path) -> None:
    """Beside the other APIs."""
    async with api(database, tmp_path) as one:
        for path, status in (("/health/live", 200), ("/_palaver/v1/openapi.json", 200), ("/_palaver/v1/x", 404)):
            async with one.http.get(f"http://127.0.0.1:{one.port}{path}") as response:
                assert response.status == status
