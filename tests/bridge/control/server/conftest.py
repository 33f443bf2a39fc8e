"""Two nodes that know each other, and the operator's commands of one of them."""

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
    """Executes commands like the command line: `ask("rooms-show", room="!a")`. `there` is the other node."""

    node: Node
    there: Node

    async def ask(self, command: str, /, **given: Any) -> Mapping[str, Any]:
        answer = await commands(self.node.homeserver)[command](given)
        # The answer must be valid JSON.
        decoded: Mapping[str, Any] = json.loads(json.dumps(dict(answer)))
        return decoded


@pytest.fixture
async def operator(postgres_server: Server, migrated_template: str) -> AsyncIterator[Operator]:
    """The operator of `here.test`, which knows `there.test`."""
    async with nodes(postgres_server, migrated_template) as running:
        yield Operator(*await running.start("here.test", "there.test"))
