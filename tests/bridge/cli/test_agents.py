"""`palaver agents` with a running node."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped] # it publishes no types

from bridge.agents.attached.openapi import document
from bridge.agents.attached.tokens import AgentTokens, commands, parse_token
from bridge.clock import now_ms
from bridge.control.socket import ControlSocket
from storage.database import Database
from tests.bridge.cli.conftest import AgentsNode, Palaver, Result
from tests.support.agents import registered

Operator = Callable[..., Awaitable[Result]]


@pytest.fixture
async def operator(palaver: Palaver, tmp_path: Path, database: Database) -> AsyncIterator[Operator]:
    """Returns a function that runs commands beside a node that serves tokens."""
    (tmp_path / "data").mkdir()
    control = ControlSocket(tmp_path / "data", commands(AgentTokens(database, now_ms=now_ms)))
    await control.start()

    async def call(*words: str) -> Result:
        return await asyncio.to_thread(palaver, *words)

    try:
        yield call
    finally:
        await control.stop()


async def test_a_token_is_shown_once(operator: Operator) -> None:
    """Alone on its line for use by programs. Later only its id is shown."""
    result = await operator("agents", "token", "create", "worker-1", "--note", "laptop", "--days", "7")
    token = parse_token(result.out.strip())
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


async def test_a_token_can_be_written_to_a_file(operator: Operator, tmp_path: Path) -> None:
    """It is not printed then, and the output has the command that uses it."""
    result = await operator("agents", "token", "create", "worker 1", "--file", "token")
    text = (tmp_path / "token").read_text().strip()
    assert parse_token(text) is not None
    assert text not in result.out
    assert "palaver agent run --id 'worker 1' --token-file token -- COMMAND…" in result.out
    (tmp_path / "my.toml").touch()
    elsewhere = await operator("agents", "token", "create", "two", "--file", "other", "-c", "my.toml")
    assert "--token-file other -c my.toml -- COMMAND…" in elsewhere.out
    again = await operator("agents", "token", "create", "worker-1", "--file", "token")
    assert (again.code, "already" in again.err) == (1, True)
    # The failed call has created none.
    assert len((await operator("agents", "token", "list", "--json")).json["tokens"]) == 2


async def test_errors_are_reported(operator: Operator, tmp_path: Path) -> None:
    """No file is left for a token that was not created."""
    result = await operator("agents", "token", "create", "a@b", "--file", "token")
    assert (result.code, "must not contain an @" in result.err) == (1, True)
    assert not (tmp_path / "token").exists()
    result = await operator("agents", "token", "revoke", "worker-1")
    assert (result.code, "--all" in result.err) == (1, True)


def test_presets_are_shown(palaver: Palaver) -> None:
    """In the form in which they can be copied to the configuration."""
    result = palaver("agents", "presets")
    assert "claude --print --output-format=text [--model={model}]" in result.out
    assert set(palaver("agents", "presets", "--json").json["presets"]) == {"claude", "open_code", "kimi", "aider"}


def test_the_openapi_description_is_printed(palaver: Palaver) -> None:
    """As YAML and as JSON with the same content."""
    assert yaml.safe_load(palaver("agents", "openapi").out) == document()
    assert palaver("agents", "openapi", "--json").json == document()


async def test_agents_are_listed_and_shown(agents: AgentsNode) -> None:
    """Control characters of remote text are not printed, and a limited list shows the total."""
    assert "No agents found." in (await agents.palaver("agents", "list")).out
    await agents.node.local_agents.register("cook", runtime="kimi", capabilities=("cooking",))
    await agents.node.table.update(
        [registered("coder\x1b[31m@a.test", now_ms(), runtime="claude", capabilities=("coding",))]
    )
    result = await agents.palaver("agents", "list")
    for words in ("cook@here.test", "kimi", "cooking", "idle", "coder\\x1b[31m@a.test"):
        assert words in result.out
    assert "\x1b" not in result.out
    assert "1 of 2" in (await agents.palaver("agents", "list", "--limit", "1")).out
    found = await agents.json("agents", "list", "KIMI", "--node", "here.test", "--capability", "cook*")
    assert [one["address"] for one in found["agents"]] == ["cook@here.test"]
    shown = await agents.palaver("agents", "show", "cook")
    for words in ("cook@here.test", "here.test (this node)", "0 running; no queue", "an agent of this"):
        assert words in shown.out
    await agents.node.whole("task-send", to="cook", prompt="Cook.", id="one")
    assert "one@here.test" in (await agents.palaver("agents", "show", "cook@here.test")).out
    result = await agents.palaver("agents", "list", "--status", "asleep")
    assert (result.code, "not a status of an agent" in result.err) == (1, True)


async def test_an_agent_is_removed(agents: AgentsNode) -> None:
    """The output names its remaining tokens. An agent in the configuration cannot be removed."""
    await agents.node.local_agents.register("cook", "fixed")
    await agents.node.table.update([registered("coder@a.test", now_ms())])
    result = await agents.palaver("agents", "remove", "cook", "--reason", "too slow")
    assert result.out == "cook@here.test is removed: too slow.\n"
    assert "too slow" in (await agents.palaver("agents", "list", "--all")).out
    result = await agents.palaver("agents", "remove", "coder@a.test")
    assert "removed from this node, until its node announces it again" in result.out
    result = await agents.palaver("agents", "remove", "fixed")
    assert (result.code, "the agent fixed because it is in the configuration" in result.err) == (1, True)
    token, _ = await AgentTokens(agents.node.parts.database, now_ms=now_ms).create("cook", "", None)
    await agents.node.local_agents.register("cook")
    result = await agents.palaver("agents", "remove", "cook")
    assert "It can attach again with 1 token" in result.out
    assert "palaver agents token revoke cook --all" in result.out
    assert token.text not in result.out
