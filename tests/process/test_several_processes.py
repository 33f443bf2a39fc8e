"""Several processes of one node: one database, a data directory each, and the same keys."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.process.agent_nodes import AgentNode, agent_nodes, beside, until
from tests.support.postgres import Server

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("several processes")]
KEYS = "/_matrix/key/v2/server"


@pytest.fixture
async def processes(
    palaver: Path, postgres_server: Server, migrated_template: str
) -> AsyncIterator[tuple[AgentNode, AgentNode]]:
    async with agent_nodes(palaver, postgres_server, migrated_template, {"name": "kitchen.test"}) as [one]:
        other = beside(one)
        await other.start()
        try:
            yield one, other
        finally:
            await other.clean_up()


async def test_a_rotated_key_reaches_every_process(processes: tuple[AgentNode, AgentNode]) -> None:
    """Whichever process rotates the key: all publish the same document, with the old keys."""
    seen: set[str] = set()
    for here, there in (processes, reversed(processes)):
        _, before = await there.get(KEYS, "http")
        [old] = before["verify_keys"]
        seen.add(old)
        code, said = await here.cli("keys", "rotate")
        assert code == 0

        async def published(node: AgentNode = there, key_id: str = said["key_id"]) -> bool:
            _, document = await node.get(KEYS, "http")
            return set(document["verify_keys"]) == {key_id} and set(document["old_verify_keys"]) == seen

        await until(published)
        code, status = await there.cli("status")
        assert (code, status["key_id"]) == (0, said["key_id"])
