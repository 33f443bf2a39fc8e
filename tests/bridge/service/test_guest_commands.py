"""What an operator asks of a guest."""

from dataclasses import dataclass
from typing import Any

import pytest

from bridge.config_agent_federation import AgentFederation
from bridge.service import operator
from bridge.service.agent_peers import AgentPeers
from bridge.service.guest_commands import INSTEAD, commands
from federation.service.audit import AuditTrail
from storage.database import Database
from storage.errors import LocalError


@dataclass
class Parts:
    audit: AuditTrail
    now_ms: Any


@pytest.fixture
def parts(database: Database) -> Parts:
    return Parts(AuditTrail(database, now_ms=lambda: 1), lambda: 1)


def _commands(parts: Parts, database: Database) -> Any:
    peers = AgentPeers(
        "kitchen.local", AgentFederation(), database, now_ms=lambda: 1, guest_of="their.server"
    )
    return commands("their.server", parts, peers)


async def test_every_command_of_a_homeserver_has_an_answer(parts: Parts, database: Database) -> None:
    """None is unknown: that would read as if the node were of another version."""
    answered = _commands(parts, database)
    assert set(operator.COMMANDS) <= set(answered)
    assert set(INSTEAD) <= set(operator.COMMANDS)


@pytest.mark.parametrize("name", list(INSTEAD))
async def test_what_only_a_homeserver_knows_is_refused(parts: Parts, database: Database, name: str) -> None:
    """With whom to ask, and with what there is instead."""
    with pytest.raises(LocalError) as refused:
        await _commands(parts, database)[name]({})
    assert refused.value.problem.startswith("This node is a guest of their.server, which ")
    assert refused.value.advice.endswith(".")


async def test_what_it_has_itself_it_tells(parts: Parts, database: Database) -> None:
    """Its audit, and the nodes with which it exchanges agents; of servers it knows none."""
    answered = _commands(parts, database)
    assert await answered["audit"]({}) == {"acts": [], "more": False}
    assert await answered["peers-list"]({}) == {"peers": [], "total": 0, "agent_peers": []}
    published = {"node_id": "old.test", "profile": "cis-1.1", "url": "http://10.0.0.3:7676"}
    assert (await answered["peers-add"](published))["is_refused"] is False
