"""`palaver agents`, from the words to the node and back."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped] # it publishes no types

from bridge.agents.attached.openapi import document
from bridge.agents.attached.tokens import AgentTokens, commands, read_token
from bridge.clock import now_ms
from bridge.control.socket import ControlSocket
from storage.database import Database
from tests.bridge.cli.conftest import Agents, Palaver, Said
from tests.support.agents import registered

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
    (tmp_path / "my.toml").touch()
    elsewhere = await operator("agents", "token", "create", "two", "--file", "other", "-c", "my.toml")
    assert "--token-file other -c my.toml -- COMMAND…" in elsewhere.out
    again = await operator("agents", "token", "create", "worker-1", "--file", "token")
    assert (again.code, "already" in again.err) == (1, True)
    # None was made for nothing.
    assert len((await operator("agents", "token", "list", "--json")).json["tokens"]) == 2


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


async def test_agents_are_listed_and_shown(agents: Agents) -> None:
    """What others have written reaches no terminal; of many it is said how many there are."""
    assert "There are no such agents." in (await agents.palaver("agents", "list")).out
    await agents.node.hands.come("cook", runtime="kimi", capabilities=("cooking",))
    await agents.node.table.take(
        [registered("coder\x1b[31m@a.test", now_ms(), runtime="claude", capabilities=("coding",))]
    )
    said = await agents.palaver("agents", "list")
    for words in ("cook@here.test", "kimi", "cooking", "idle", "coder\\x1b[31m@a.test"):
        assert words in said.out
    assert "\x1b" not in said.out
    assert "1 of 2" in (await agents.palaver("agents", "list", "--limit", "1")).out
    found = await agents.json("agents", "list", "KIMI", "--node", "here.test", "--capability", "cook*")
    assert [one["address"] for one in found["agents"]] == ["cook@here.test"]
    shown = await agents.palaver("agents", "show", "cook")
    for words in ("cook@here.test", "here.test (this node)", "works on 0 of any number", "an agent of this"):
        assert words in shown.out
    await agents.node.whole("task-send", to="cook", prompt="Cook.", id="one")
    assert "one@here.test" in (await agents.palaver("agents", "show", "cook@here.test")).out
    said = await agents.palaver("agents", "list", "--status", "asleep")
    assert (said.code, "no status of an agent" in said.err) == (1, True)


async def test_an_agent_is_removed(agents: Agents) -> None:
    """With what keeps it from coming back; one that the configuration names stays."""
    await agents.node.hands.come("cook", "fixed")
    await agents.node.table.take([registered("coder@a.test", now_ms())])
    said = await agents.palaver("agents", "remove", "cook", "--reason", "too slow")
    assert said.out == "cook@here.test is removed: too slow.\n"
    assert "too slow" in (await agents.palaver("agents", "list", "--all")).out
    said = await agents.palaver("agents", "remove", "coder@a.test")
    assert "forgotten here" in said.out
    said = await agents.palaver("agents", "remove", "fixed")
    assert (said.code, "The configuration names the agent fixed" in said.err) == (1, True)
    token, _ = await AgentTokens(agents.node.parts.database, now_ms=now_ms).create("cook", "", None)
    await agents.node.hands.come("cook")
    said = await agents.palaver("agents", "remove", "cook")
    assert "It has 1 token" in said.out
    assert "palaver agents token revoke cook --all" in said.out
    assert token.text not in said.out
