"""The operator commands of an application service."""

from typing import Any

import pytest

from bridge.config.agent_federation import AgentFederation
from bridge.control.appservice import UNAVAILABLE, commands
from bridge.control.server import commands as operator
from bridge.peers.service import AgentPeers
from federation.peers.audit_trail import AuditTrail
from storage.database import Database
from storage.errors import LocalError


@pytest.fixture
def trail(database: Database) -> AuditTrail:
    return AuditTrail(database, now_ms=lambda: 1)


def _commands(trail: AuditTrail, database: Database) -> Any:
    peers = AgentPeers("kitchen.local", AgentFederation(), database, now_ms=lambda: 1, homeserver="their.server")
    return commands("their.server", trail, lambda: 1, peers)


async def test_every_command_of_a_homeserver_exists(trail: AuditTrail, database: Database) -> None:
    """An unknown command would look like a node of another version."""
    available = _commands(trail, database)
    assert set(operator.COMMANDS) <= set(available)
    assert set(UNAVAILABLE) <= set(operator.COMMANDS)


@pytest.mark.parametrize("name", list(UNAVAILABLE))
async def test_commands_of_a_homeserver_are_refused(trail: AuditTrail, database: Database, name: str) -> None:
    """The error says what to use instead."""
    with pytest.raises(LocalError) as refused:
        await _commands(trail, database)[name]({})
    assert refused.value.problem.startswith("This node is an application service of their.server, which ")
    assert refused.value.advice.endswith(".")


async def test_other_commands_are_executed(trail: AuditTrail, database: Database) -> None:
    """The audit log, and the nodes with which agents are exchanged. There are no other servers."""
    available = _commands(trail, database)
    assert await available["audit"]({}) == {"acts": [], "more": False}
    assert await available["peers-list"]({}) == {"peers": [], "total": 0, "agent_peers": []}
    published = {"node_id": "old.test", "profile": "cis-1.1", "url": "http://10.0.0.3:7676"}
    assert (await available["peers-add"](published))["is_refused"] is False
