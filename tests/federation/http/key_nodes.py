"""Nodes with key and device endpoints, and a pair of them, one of which sends requests to the other."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
from aiohttp import web
from yarl import URL

from federation.client.requests import request_target
from federation.http import app as homeserver_routes
from federation.http.app import make_app
from federation.http.endpoints import devices as user_devices
from federation.http.endpoints import devices as user_keys_claim
from federation.http.endpoints import devices as user_keys_query
from federation.http.endpoints import keys as key_query
from federation.http.endpoints.keys import NOTARY
from federation.http.server.capacity import Limits
from federation.http.services import DEVICES, DeviceServices, Readiness
from federation.http.services import Node as WireNode
from federation.keys.notary import Notary
from federation.keys.server_keys import LocalKeys, make_key_document
from federation.matrix.networks import LOOPBACK, AdmissionRules
from tests.federation.http.membership_pair import Pair
from tests.federation.nodes import Node, Nodes, now_ms
from tests.support.postgres import Server

ENDPOINTS = (key_query, user_devices, user_keys_claim, user_keys_query)


class KeyNodes(Nodes):
    """Whole nodes that also serve these endpoints. Their only user is Alice."""

    def _app(self, node: Node, keys: LocalKeys) -> web.Application:
        def document() -> bytes:
            return orjson.dumps(make_key_document(node.name, keys, now_ms()))

        async def user_exists(user_id: str) -> bool:
            return user_id == node.user("alice")

        homeserver = node.homeserver
        notary = Notary(node.name, homeserver.key_ring, lambda: keys, now_ms=now_ms, may_contact=lambda _: True)
        self._stack.push_async_callback(notary.close)
        app = make_app(WireNode(document, Readiness, "test", AdmissionRules(LOOPBACK)), Limits())
        homeserver_routes.serve(app, homeserver)
        app[NOTARY] = notary
        app[DEVICES] = DeviceServices(node.name, homeserver.authenticator, user_exists)
        for module in ENDPOINTS:
            if module not in homeserver_routes.ENDPOINTS:
                app.add_routes(module.ROUTES)
        return app


@dataclass
class KeyPair(Pair):
    """A node that sends signed and unsigned requests to another one."""

    address: str

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return await self.asking.client.request("POST", self.asked.name, request_target(path), body)

    async def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
        """Send an unsigned request; return status and JSON."""
        url = URL(f"http://{self.address}{path}", encoded=True)
        async with aiohttp.ClientSession() as session, session.request(method, url, data=body) as response:
            assert response.content_type == "application/json"
            return response.status, json.loads(await response.read())


@asynccontextmanager
async def key_pair(server: Server, template: str) -> AsyncIterator[KeyPair]:
    async with AsyncExitStack() as stack:
        nodes = KeyNodes(server, template, stack)
        asked, asking = await nodes.start("asked.test", "asking.test")
        yield KeyPair(asked, asking, nodes._address_of(asked.name))
