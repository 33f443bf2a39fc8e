"""Fixtures that call the command line in this process."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bridge.cli import main
from bridge.control.agents import commands as agent_operator
from bridge.control.server.commands import commands
from bridge.control.socket import ControlSocket
from storage.database import Database
from tests.federation.nodes import Node, nodes
from tests.support.operated import Operated as AgentCore
from tests.support.operated import operated as core
from tests.support.postgres import Server


@dataclass
class Result:
    """The output and the exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Palaver = Callable[..., Result]


@pytest.fixture
def palaver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Palaver:
    """Returns a function that runs `palaver WORDS…` in an empty directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    # Commands find no nodes of other tests.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    def call(*words: str) -> Result:
        monkeypatch.setattr("sys.argv", ["palaver", *words])
        code: Any = 0
        try:
            main()
        except SystemExit as exit_:
            code = exit_.code
        out, err = capfd.readouterr()
        return Result(code or 0, out, err)

    return call


@dataclass
class OperatedNode:
    """A complete node, another one that it knows, and the command line of the first."""

    node: Node
    there: Node
    _palaver: Palaver

    async def palaver(self, *words: str) -> Result:
        return await asyncio.to_thread(self._palaver, *words)

    async def json(self, *words: str) -> Any:
        result = await self.palaver(*words, "--json")
        assert result.code == 0, result
        return result.json


@pytest.fixture
async def operated(
    palaver: Palaver, tmp_path: Path, postgres_server: Server, migrated_template: str
) -> AsyncIterator[OperatedNode]:
    data = tmp_path / "data"
    data.mkdir()
    async with nodes(postgres_server, migrated_template) as running:
        here, there = await running.start("here.test", "there.test")
        control = ControlSocket(data, commands(here.homeserver))
        await control.start()
        try:
            yield OperatedNode(here, there, palaver)
        finally:
            await control.stop()


@dataclass
class AgentsNode:
    """A node whose agents are controlled by the test, and its command line."""

    node: AgentCore
    data_dir: Path
    control: ControlSocket
    _palaver: Palaver

    async def palaver(self, *words: str) -> Result:
        return await asyncio.to_thread(self._palaver, *words)

    async def json(self, *words: str) -> Any:
        result = await self.palaver(*words, "--json")
        assert result.code == 0, result
        return result.json


@pytest.fixture
async def agents(palaver: Palaver, tmp_path: Path, database: Database) -> AsyncIterator[AgentsNode]:
    data = tmp_path / "data"
    data.mkdir()
    async with core(database, configured={"fixed"}) as node:
        commands, streams = agent_operator.commands(node.parts), agent_operator.streams(node.parts)
        control = ControlSocket(data, commands, streams)
        await control.start()
        try:
            yield AgentsNode(node, data, control, palaver)
        finally:
            await control.stop()
