"""`palaver offices` with a running node."""

import asyncio
import stat
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bridge.clock import now_ms
from bridge.connectors.offices.control import commands
from bridge.connectors.offices.tokens import Grant, OfficeTokens, read_token
from bridge.control.socket import ControlSocket
from storage.database import Database
from tests.bridge.cli.conftest import Palaver, Result
from tests.bridge.connectors.offices.test_control import MEMBERS, insert_calls


@dataclass
class Operator:
    """The command line beside a node that serves tokens of offices."""

    tokens: OfficeTokens
    _palaver: Palaver

    async def token(self, *words: str) -> Result:
        """`palaver offices token WORDS…`."""
        return await asyncio.to_thread(self._palaver, "offices", "token", *words)


@pytest.fixture
async def operator(palaver: Palaver, tmp_path: Path, database: Database) -> AsyncIterator[Operator]:
    (tmp_path / "data").mkdir()
    tokens = OfficeTokens(database, now_ms)
    control = ControlSocket(tmp_path / "data", commands(tuple, tokens, database))
    await control.start()
    try:
        yield Operator(tokens, palaver)
    finally:
        await control.stop()


async def test_a_token_is_shown_once(operator: Operator) -> None:
    """Alone on its line for use by programs. Later only its id is shown."""
    assert (await operator.token("list")).out == "There are no tokens, so no client can connect.\n"
    result = await operator.token(
        "create", "alice", "--role", "agent", "--office", "kitchen", "--office", "team-*", "--expires-in", "30d"
    )
    text = result.out.strip()
    token = read_token(text)
    assert token is not None
    grant = await operator.tokens.check(text)
    assert grant is not None
    assert grant == Grant(token.token_id, "alice", frozenset({"agent"}), ("kitchen", "team-*"))
    listed = (await operator.token("list")).out
    for words in ("alice", token.token_id, "good", "agent", "kitchen, team-*", " ago"):
        assert words in listed
    assert text not in listed
    result = await operator.token("revoke", token.token_id)
    assert result.out == f"Revoked: {token.token_id}.\n"
    assert await operator.tokens.check(text) is None
    assert "revoked" in (await operator.token("list")).out


async def test_the_json_output_is_complete(operator: Operator) -> None:
    """It has all fields of the text output. Only `create` returns the token."""
    made = (await operator.token("create", "alice", "--json")).json
    assert (made["owner"], made["roles"], made["offices"]) == ("alice", ["agent", "computer"], [])
    assert await operator.tokens.check(made["token"]) is not None
    [listed] = (await operator.token("list", "--json")).json["tokens"]
    assert listed == {name: value for name, value in made.items() if name != "token"} | {
        "last_used_at": listed["last_used_at"]
    }
    assert (await operator.token("revoke", made["token_id"], "--json")).json == {"revoked": made["token_id"]}


async def test_a_token_without_limits_is_marked(operator: Operator) -> None:
    """The list shows what each token allows."""
    await operator.token("create", "alice")
    listed = (await operator.token("list")).out
    for words in ("agent, computer", "all", "ever", "never"):
        assert words in listed


async def test_a_token_can_be_written_to_a_file(operator: Operator, tmp_path: Path) -> None:
    """It is not printed then. Only the owner can read the file, and existing files are not overwritten."""
    result = await operator.token("create", "alice", "--file", "token")
    text = (tmp_path / "token").read_text().strip()
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert await operator.tokens.check(text) is not None
    assert text not in result.out
    assert result.out.endswith(" of alice is stored in token.\n")
    assert "token" not in (await operator.token("create", "bob", "--file", "other", "--json")).json
    again = await operator.token("create", "alice", "--file", "token")
    assert (again.code, "already" in again.err) == (1, True)
    assert (tmp_path / "token").read_text().strip() == text
    # None was made for nothing.
    assert len(await operator.tokens.list_tokens()) == 2


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["create", ""], "needs owner"),
        (["create", "a\x1b[31m"], "An owner is"),
        (["create", "alice", "--role", "admin"], "Unknown role admin"),
        (["create", "alice", "--office", " "], "An office id is"),
        (["create", "alice", "--expires-in", "soon"], "soon is not a valid period"),
        (["create", "alice", "--expires-in", "0d"], "0d is not a valid period"),
        (["create", "alice", "--expires-in", "99999d"], "not a number from 1"),
        (["revoke", "nothing"], "has this id"),
    ],
)
async def test_errors_are_reported(operator: Operator, tmp_path: Path, words: list[str], part: str) -> None:
    """No file is left for a token that was not created."""
    more = ["--file", "token"] if words[0] == "create" else []
    result = await operator.token(*words, *more)
    assert result.code == 1
    assert part in result.err
    assert "\x1b" not in result.err
    assert not (tmp_path / "token").exists()
    assert await operator.tokens.list_tokens() == []


def test_without_a_node_the_command_fails(palaver: Palaver) -> None:
    """The node stores the tokens."""
    result = palaver("offices", "token", "list")
    assert result.code == 1
    assert "No node is running" in result.err


async def test_members_and_calls_are_shown(palaver: Palaver, tmp_path: Path, database: Database) -> None:
    """The current members of offices, and the calls in pages."""
    (tmp_path / "data").mkdir()
    members = list(MEMBERS)
    control = ControlSocket(tmp_path / "data", commands(lambda: members, OfficeTokens(database, now_ms), database))
    await control.start()

    async def run(*words: str) -> str:
        result = await asyncio.to_thread(palaver, "offices", *words)
        assert result.code == 0, result
        return result.out

    try:
        listed = await run("list")
        for words in ("kitchen", "boss", "knife", "(@stove/knife:cellar.test)", "pan", "cellar", "none"):
            assert words in listed
        assert await run("calls") == "There are no recorded calls.\n"
        await insert_calls(database, 3)
        called = await run("calls", "--limit", "2")
        for words in ("no answer", "done", "fry", "continue with --before"):
            assert words in called
        assert "kitchen" in await run("show", "kitchen")
        members.clear()
        assert await run("list") == "No office has members.\n"
    finally:
        await control.stop()
