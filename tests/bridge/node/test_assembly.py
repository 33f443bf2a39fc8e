"""A running node with agents, as configured."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bridge.agents.address import AgentAddress
from bridge.agents.attached.messages import OPERATIONS_BY_NAME
from bridge.agents.attached.session import Program
from bridge.clock import now_ms
from bridge.config.config import Config
from bridge.connectors.offices.tokens import OfficeTokens
from bridge.observability.agent_observer import AgentObserver
from bridge.run import Node
from bridge.tasks.request import Origin, TaskKey, TaskRequest
from federation.matrix.errors import MatrixError
from storage.connect import DatabaseAddress
from storage.database import connect_once
from tests.bridge.connectors.offices.clients import Clients

TIMEOUT = 30.0


def _config(directory: Path, address: DatabaseAddress, **more: Any) -> Config:
    return Config.model_validate(
        {
            "data_dir": directory / "data",
            "listener": {"port": 0, "shutdown_timeout": 2},
            "metrics": {"port": 0},
            "database": {"url": address.url},
            **more,
        }
    )


async def test_configured_agent_works(tmp_path: Path, empty_address: DatabaseAddress) -> None:
    """From the file to an answer."""
    agents = [{"id": "echo", "command": ["cat"]}]
    node = Node(_config(tmp_path, empty_address, agents=agents))
    await node.start()
    try:
        tasks, here = node.core.core.tasks, "localhost:7676"
        key = TaskKey(here, "one")
        me, echo = AgentAddress("me", here), AgentAddress("echo", here)
        submitted = await tasks.submit(TaskRequest(key, "one", me, echo, "hello", origin=Origin("nobody")))
        assert submitted.refusal is None
        async with asyncio.timeout(TIMEOUT):
            while (task := await tasks.task(key)) is None or task.answer is None:
                await asyncio.sleep(0.02)
        assert (task.answer.success, task.answer.output) == (True, "hello")
    finally:
        await node.stop()


async def test_agents_have_profiles(tmp_path: Path, empty_address: DatabaseAddress) -> None:
    """With configured names, which may change; a restarted node uploads nothing."""
    profiles, uploads = [], []
    for name in ("The echo", "Somebody"):
        agents = [{"id": "echo", "command": ["cat"], "display_name": name}]
        node = Node(_config(tmp_path, empty_address, agents=agents))
        await node.start()
        try:
            rooms = node.backend.side
            async with asyncio.timeout(TIMEOUT):
                while (said := await rooms.profile("@echo:localhost:7676") or {}).get("displayname") != name:
                    await asyncio.sleep(0.02)
            profiles.append((said["avatar_url"], await rooms.profile("@palaver:localhost:7676")))
            async with node.backend.database.transaction() as connection:
                uploads.append(await connection.fetchval("SELECT count(*) FROM media"))
        finally:
            await node.stop()
    assert profiles[0] == profiles[1]
    assert uploads == [2, 2]


async def test_port_and_commands(tmp_path: Path, empty_address: DatabaseAddress) -> None:
    """Agents attach, health checks respond, an operator creates tokens; rooms exist."""
    node = Node(_config(tmp_path, empty_address))
    await node.start()
    try:
        host, port = node.summary()["addresses"][0].rsplit(":", 1)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://{host}:{port}/_cis/v1/health") as response:
                assert (await response.json())["server_name"] == "localhost:7676"
            async with session.put(
                f"http://{host}:{port}{OPERATIONS_BY_NAME['register'].path.format(agent_id='a')}"
            ) as response:
                assert response.status == 401
        assert "agents-token-create" in node.core.commands()
        for alias in ("#agent-federation-default", "#agents-default"):
            assert await node.backend.side.resolve_alias(f"{alias}:localhost:7676") is not None
        read = node.metrics.registry.get_sample_value
        assert read("palaver_agents", {"where": "here"}) == 0
    finally:
        await node.stop()


async def test_attached_agents_need_heartbeats(tmp_path: Path, empty_address: DatabaseAddress) -> None:
    """Within `agent_timeout_secs`, as nodes do."""
    federation = {"heartbeat_interval_secs": 2, "agent_timeout_secs": 8}
    node = Node(_config(tmp_path, empty_address, agent_federation=federation))
    await node.start()
    try:
        limits = node.core._agents.attached.limits
        assert (limits.heartbeat, limits.timeout) == (2.0, 8.0)
    finally:
        await node.stop()


async def test_people_can_be_disabled(tmp_path: Path, empty_address: DatabaseAddress) -> None:
    """Then there are no rooms for people."""
    node = Node(_config(tmp_path, empty_address, people={"enabled": False}))
    await node.start()
    try:
        assert [one.name for one in node.core.core.connectors] == ["cis", "offices"]
        assert isinstance(node.core.core._parts.observer, AgentObserver)
    finally:
        await node.stop()


async def test_office_members_are_agents(tmp_path: Path, empty_address: DatabaseAddress) -> None:
    """Members that accept tasks join the rooms where people assign them; no program can take a member's id.
    If offices are disabled, no one is a member."""
    here = "localhost:7676"
    node = Node(_config(tmp_path, empty_address, offices={"enabled": True}))
    await node.start()
    try:
        token = await OfficeTokens(node.database.pool, now_ms).create("all", ["agent", "computer"])
        host, port = node.summary()["addresses"][0].rsplit(":", 1)
        side, table = node.backend.side, node.core.core.table
        async with AsyncExitStack() as stack:
            clients = Clients(url=f"http://{host}:{port}", stack=stack)
            await clients.computer(token=token)
            await clients.agent(token=token, declares={"tasks": True})
            room_id = node.core.rooms()["default"]
            async with asyncio.timeout(TIMEOUT):
                while await side.membership(room_id, f"@a/boss:{here}") != "join":
                    await asyncio.sleep(0.02)
                while table.agent(AgentAddress("a/hands", here)) is None:
                    await asyncio.sleep(0.02)
            assert await side.membership(room_id, f"@a/hands:{here}") is None
            assert "offices-call" in node.core.streams()
            with pytest.raises(MatrixError, match="in the office a"):
                await node.core._agents.attached.register("a/eyes", Program("session-1", "t", "x", ()), {})
    finally:
        await node.stop()
    database = await connect_once(empty_address)
    # As after a kill.
    await database.execute("UPDATE agents SET gone_at = NULL, gone_reason = NULL WHERE connector = 'offices'")
    await database.close()
    node = Node(_config(tmp_path, empty_address))
    await node.start()
    try:
        agents = node.core.core.table.table.agents_of(here).values()
        assert {one.agent_id: one.is_online for one in agents} == {"a/boss": False, "a/hands": False}
    finally:
        await node.stop()
