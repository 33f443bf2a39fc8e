"""A node whose membership endpoints are tested, and another one that sends requests."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from federation.client.errors import PeerRefused
from federation.client.requests import request_target
from federation.events import Pdu
from federation.memberships.membership_event import MembershipChange, complete_template
from tests.federation.nodes import Node, nodes, now_ms, signer_of
from tests.support.postgres import Server

V1, V2 = "/_matrix/federation/v1", "/_matrix/federation/v2"


@dataclass
class Pair:
    """Alice is a user of the tested node, Bob of the other one."""

    asked: Node
    asking: Node

    @property
    def alice(self) -> str:
        return self.asked.user("alice")

    @property
    def bob(self) -> str:
        return self.asking.user("bob")

    async def get(self, path: str, *, query: tuple[tuple[str, str], ...] = (), **names: str) -> Any:
        return await self.asking.client.request("GET", self.asked.name, request_target(path, query=query, **names))

    async def put(
        self, path: str, body: Mapping[str, Any], *, query: tuple[tuple[str, str], ...] = (), **names: str
    ) -> Any:
        return await self.asking.client.request(
            "PUT", self.asked.name, request_target(path, query=query, **names), body
        )

    async def template(self, membership: str, room_id: str) -> dict[str, Any]:
        path = f"{V1}/make_{membership}/{{roomId}}/{{userId}}"
        versions = tuple(("ver", version) for version in ("10", "11", "12"))
        answer: dict[str, Any] = await self.get(path, query=versions, roomId=room_id, userId=self.bob)
        return answer

    async def event(self, membership: str, room_id: str) -> Pdu:
        """Build the event from a template, as Bob's server does."""
        change = MembershipChange(room_id, self.bob, membership, {})
        made = complete_template(
            await self.template(membership, room_id), change, signer_of(self.asking.name), now_ms()
        )
        assert isinstance(made, tuple), made
        return made[0]

    async def refusal(self, asked: Any) -> tuple[int, str | None]:
        with pytest.raises(PeerRefused) as refused:
            await asked
        return refused.value.status, refused.value.errcode

    async def unsigned(self, method: str, path: str) -> tuple[int, str | None]:
        """Return the response to an unsigned request."""
        target = request_target(path)
        body: dict[str, Any] | None = None if method == "GET" else {}
        return await self.refusal(self.asking.client.request(method, self.asked.name, target, body, signed=False))


@asynccontextmanager
async def membership_pair(server: Server, template: str) -> AsyncIterator[Pair]:
    async with nodes(server, template) as running:
        yield Pair(*await running.start("asked.test", "asking.test"))
