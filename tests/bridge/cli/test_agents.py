"""`palaver agents`, from the words to the node and back."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped] # it publishes no types

from bridge.agent_api.openapi import document
from bridge.agent_tokens import read_token
from bridge.clock import now_ms
from bridge.service.agents.token_commands import commands
from bridge.service.agents.tokens import AgentTokens
from bridge.service.control_socket import ControlSocket
from storage.database import Database
from tests.bridge.cli.conftest import Palaver, Said

Operator = Callable[..., Awaitable[Said]]


@pytest.fixture
async def operator(palaver: Palaver, tmp_path: Path, database: Database) -> AsyncIterator[Operator]:
    """The command line beside a node that knows of tokens."""
    (tmp_path / "data").mkdir()
    control = ControlSocket(tmp_path / "data", commands(AgentTokens(database, now_ms=now_ms)))
    await control.start()

    async def call(*words: str) -> Said:
        return await asyncio.to_thread(palaver, *words)

    try:
        yield call
    finally:
        await control.stop()


async def test_a_token_is_shown_once(operator: Operator) -> None:
    """Alone on its line, so that a program can take it; afterwards its id is all that there is."""
    said = await operator("agents", "token", "create", "worker-1", "--note", "laptop", "--days", "7")
    token = read_token(said.out.strip())
    assert token is not None
    listed = await operator("agents", "token", "list")
    for words in ("worker-1", token.token_id, "good", "laptop", "never"):
        assert words in listed.out
    assert token.text not in listed.out
    [shown] = (await operator("agents", "token", "list", "worker-1", "--json")).json["tokens"]
    assert shown["token_id"] == token.token_id
    assert (await operator("agents", "token", "list", "other")).out == "There are no tokens.\n"
    revoked = await operator("agents", "token", "revoke", "worker-1", token.token_id)
    assert revoked.out == f"Revoked: {token.token_id}.\n"
    assert "revoked" in (await operator("agents", "token", "list")).out


async def test_a_token_goes_into_a_file(operator: Operator, tmp_path: Path) -> None:
    """And nowhere else; with the command line that uses it."""
    said = await operator("agents", "token", "create", "worker 1", "--file", "token")
    text = (tmp_path / "token").read_text().strip()
    assert read_token(text) is not None
    assert text not in said.out
    assert "palaver agent run --id 'worker 1' --token-file token -- COMMAND…" in said.out
    again = await operator("agents", "token", "create", "worker-1", "--file", "token")
    assert (again.code, "already" in again.err) == (1, True)
    # None was made for nothing.
    assert len((await operator("agents", "token", "list", "--json")).json["tokens"]) == 1


async def test_what_is_wrong_is_told(operator: Operator, tmp_path: Path) -> None:
    """And no file is left for a token that was never made."""
    said = await operator("agents", "token", "create", "a@b", "--file", "token")
    assert (said.code, "holds no @" in said.err) == (1, True)
    assert not (tmp_path / "token").exists()
    said = await operator("agents", "token", "revoke", "worker-1")
    assert (said.code, "--all" in said.err) == (1, True)


def test_the_command_lines_that_are_known(palaver: Palaver) -> None:
    """As they can be written into the configuration."""
    said = palaver("agents", "presets")
    assert "claude --print --output-format=text [--model={model}]" in said.out
    assert set(palaver("agents", "presets", "--json").json["presets"]) == {
        "claude",
        "open_code",
        "kimi",
        "aider",
    }


def test_the_description_of_the_interface(palaver: Palaver) -> None:
    """In both forms the same."""
    assert yaml.safe_load(palaver("agents", "openapi").out) == document()
    assert palaver("agents", "openapi", "--json").json == document()
