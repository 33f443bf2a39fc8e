"""Two whole nodes that know each other, and the commands of one of them."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from bridge.control.server.commands import commands
from tests.federation.nodes import Node, nodes
from tests.support.postgres import Server


@dataclass
class Operator:
    """`ask("rooms-show", room="!a")` is what the command line does. `there` is the other node."""

    node: Node
    there: Node

    async def ask(self, command: str, /, **given: Any) -> Mapping[str, Any]:
        answer = await commands(self.node.homeserver)[command](given)
        # Whatever is answered must pass through the socket.
        said: Mapping[str, Any] = json.loads(json.dumps(dict(answer)))
        return said


@pytest.fixture
async def operator(postgres_server: Server, migrated_template: str) -> AsyncIterator[Operator]:
    """Of `here.test`, which knows `there.test`."""
    async with nodes(postgres_server, migrated_template) as running:
        yield Operator(*await running.start("here.test", "there.test"))
