"""`palaver offices call` with a running node."""

import asyncio
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bridge.connectors.offices.calls.direct_call import DirectCalls
from bridge.connectors.offices.control import streams
from bridge.connectors.offices.protocol.errors import interrupted, result_error, timed_out
from bridge.connectors.offices.protocol.events import TOOL_CALL
from bridge.control.socket import ControlSocket
from tests.bridge.cli.conftest import Palaver, Result
from tests.bridge.connectors.offices.clients import Client, offices_on


@dataclass
class Operator:
    """The command line beside a node with an office, in which a Computer returns the test's answer."""

    computer: Client
    _palaver: Palaver

    async def call(self, *words: str, answer: Any = None) -> Result:
        """`palaver offices call a hands add WORDS…`."""
        self.computer.answers[TOOL_CALL] = answer
        return await self.palaver("a", "hands", "add", *words)

    async def palaver(self, *words: str) -> Result:
        return await asyncio.to_thread(self._palaver, "offices", "call", *words)


@pytest.fixture
async def operator(palaver: Palaver, tmp_path: Path) -> AsyncIterator[Operator]:
    (tmp_path / "data").mkdir()
    async with offices_on() as running:
        calls = DirectCalls(running.server, lambda office_id, name: None)
        control = ControlSocket(tmp_path / "data", {}, streams(calls, "here.test"))
        await control.start()
        try:
            yield Operator(await running.computer(), palaver)
        finally:
            await control.stop()


def content(text: str, *, is_error: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


async def test_standard_output_has_only_the_result(operator: Operator) -> None:
    """Unchanged, unless it is a terminal."""
    result = await operator.call('{"a": 1}', "--timeout", "7", answer=content("3\x1b[31m"))
    assert (result.code, result.out, result.err) == (0, "3\x1b[31m\n", "")
    call = await operator.computer.wait_for(TOOL_CALL)
    assert (call["params"], call["timeout"], call["agent"]) == ({"a": 1}, 7, "operator@here.test")
    result = await operator.call(answer=content(""))
    assert (result.code, result.out) == (0, "")


async def test_on_a_terminal_control_characters_are_removed(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    result = await operator.call(answer=content("3\x1b[31m"))
    assert result.out == "3\\x1b[31m\n"


@pytest.mark.parametrize(
    ("answer", "code", "out", "err"),
    [
        (content("burnt", is_error=True), 1, "burnt\n", "The tool has failed."),
        (result_error("Alice has refused this call.", a2c_approval="refused"), 1, "", "has refused this call"),
        (timed_out(5), 124, "", "did not answer within 5 s"),
        (result_error("Stopped.", a2c_cancelled=True), 125, "", "Stopped."),
        (interrupted(), 123, "", "The node stopped"),
        ({"code": 4006, "message": "Log in first."}, 1, "Log in first.\n", "The tool has failed."),
    ],
)
async def test_each_outcome_has_an_exit_code(operator: Operator, answer: Any, code: int, out: str, err: str) -> None:
    """And a message on standard error."""
    result = await operator.call(answer=answer)
    assert (result.code, result.out) == (code, out)
    assert err in result.err


async def test_an_unknown_computer_or_office_is_an_error(operator: Operator) -> None:
    for words, part in (
        (("a", "hnds", "add"), "Did you mean hands? There is hands."),
        (("x\x1b[31m", "hands", "add"), "The office x has no members."),
    ):
        result = await operator.palaver(*words)
        assert (result.code, result.out) == (121, "")
        assert part in result.err
        assert "\x1b" not in result.err


@pytest.mark.parametrize(
    ("params", "part"), [("{a: 1}", "not valid JSON"), ("[1]", "must be a JSON object"), ("3", "must be a JSON object")]
)
async def test_invalid_parameters_are_wrong_usage(operator: Operator, params: str, part: str) -> None:
    """Before the node is asked."""
    result = await operator.call(params)
    assert (result.code, result.out) == (2, "")
    assert part in result.err
    assert 'like {"a": 1}' in result.err
    result = await operator.call(params, "--json")
    assert result.code == 2
    assert part in result.json["error"]["problem"]
    assert (await operator.call("--timeout", "0")).code == 2


async def test_parameters_can_be_read_from_standard_input(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a secret need not be on the command line, where other users see it."""
    monkeypatch.setattr("sys.stdin", io.StringIO('{"a": 2}\n'))
    assert (await operator.call("-", answer=content("ok"))).out == "ok\n"
    assert (await operator.computer.wait_for(TOOL_CALL))["params"] == {"a": 2}


async def test_the_json_output_has_the_complete_answer(operator: Operator) -> None:
    """With the same exit codes."""
    result = await operator.call("--json", answer=content("burnt", is_error=True))
    assert result.code == 1
    assert (result.json["outcome"], result.json["text"]) == ("error", "burnt")
    assert result.json["answer"] == content("burnt", is_error=True)
    result = await operator.palaver("a", "nobody", "add", "--json")
    assert (result.code, result.json["outcome"], result.json["answer"]) == (121, "not_found", None)


def test_without_a_node_the_command_fails(palaver: Palaver) -> None:
    result = palaver("offices", "call", "a", "hands", "add")
    assert result.code == 1
    assert "No node is running" in result.err
