"""What an operator asks of a guest."""

from typing import Any

import pytest

from bridge.config.agent_federation import AgentFederation
from bridge.control.appservice import INSTEAD, commands
from bridge.control.server import commands as operator
from bridge.peers.service import AgentPeers
from federation.peers.audit_trail import AuditTrail
from storage.database import Database
from storage.errors import LocalError


@pytest.fixture
def trail(database: Database) -> AuditTrail:
    return AuditTrail(database, now_ms=lambda: 1)


def _commands(trail: AuditTrail, database: Database) -> Any:
    peers = AgentPeers(
        "kitchen.local", AgentFederation(), database, now_ms=lambda: 1, guest_of="their.server"
    )
    return commands("their.server", trail, lambda: 1, peers)


async def test_every_command_of_a_homeserver_has_an_answer(trail: AuditTrail, database: Database) -> None:
    """None is unknown: that would read as if the node were of another version."""
    answered = _commands(trail, database)
    assert set(operator.COMMANDS) <= set(answered)
    assert set(INSTEAD) <= set(operator.COMMANDS)


@pytest.mark.parametrize("name", list(INSTEAD))
async def test_what_only_a_homeserver_knows_is_refused(
    trail: AuditTrail, database: Database, name: str
) -> None:
    """With whom to ask, and with what there is instead."""
    with pytest.raises(LocalError) as refused:
        await _commands(trail, database)[name]({})
    assert refused.value.problem.startswith("This node is a guest of their.server, which ")
    assert refused.value.advice.endswith(".")


async def test_what_it_has_itself_it_tells(trail: AuditTrail, database: Database) -> None:
    """Its audit, and the nodes with which it exchanges agents; of servers it knows none."""
    answered = _commands(trail, database)
    assert await answered["audit"]({}) == {"acts": [], "more": False}
    assert await answered["peers-list"]({}) == {"peers": [], "total": 0, "agent_peers": []}
    published = {"node_id": "old.test", "profile": "cis-1.1", "url": "http://10.0.0.3:7676"}
    assert (await answered["peers-add"](published))["is_refused"] is False
