"""`palaver offices call`, from the words to the node and back."""

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
from tests.bridge.cli.conftest import Palaver, Said
from tests.bridge.connectors.offices.clients import Client, offices_on


@dataclass
class Operator:
    """The command line beside a node with an office, in which a Computer answers what the test says."""

    computer: Client
    _palaver: Palaver

    async def call(self, *words: str, answer: Any = None) -> Said:
        """`palaver offices call a hands add WORDS…`."""
        self.computer.answers[TOOL_CALL] = answer
        return await self.palaver("a", "hands", "add", *words)

    async def palaver(self, *words: str) -> Said:
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


def said(text: str, *, is_error: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


async def test_standard_output_is_what_the_tool_says(operator: Operator) -> None:
    """And nothing else; where it is no terminal, as it is."""
    came = await operator.call('{"a": 1}', "--timeout", "7", answer=said("3\x1b[31m"))
    assert (came.code, came.out, came.err) == (0, "3\x1b[31m\n", "")
    heard = await operator.computer.until(TOOL_CALL)
    assert (heard["params"], heard["timeout"], heard["agent"]) == ({"a": 1}, 7, "operator@here.test")
    came = await operator.call(answer=said(""))
    assert (came.code, came.out) == (0, "")


async def test_on_a_terminal_it_is_harmless(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    came = await operator.call(answer=said("3\x1b[31m"))
    assert came.out == "3\\x1b[31m\n"


@pytest.mark.parametrize(
    ("answer", "code", "out", "err"),
    [
        (said("burnt", is_error=True), 1, "burnt\n", "The tool has failed."),
        (
            result_error("Alice has refused this call.", a2c_approval="refused"),
            1,
            "",
            "has refused this call",
        ),
        (timed_out(5), 124, "", "has not answered within 5 s"),
        (result_error("Stopped.", a2c_cancelled=True), 125, "", "Stopped."),
        (interrupted(), 123, "", "The node was stopped"),
        ({"code": 4006, "message": "Log in first."}, 1, "Log in first.\n", "The tool has failed."),
    ],
)
async def test_each_end_has_its_code(operator: Operator, answer: Any, code: int, out: str, err: str) -> None:
    """And its sentence."""
    came = await operator.call(answer=answer)
    assert (came.code, came.out) == (code, out)
    assert err in came.err


async def test_who_is_not_there_is_told(operator: Operator) -> None:
    for words, part in (
        (("a", "hnds", "add"), "Did you mean hands? There is hands."),
        (("x\x1b[31m", "hands", "add"), "Nobody is in the office x."),
    ):
        came = await operator.palaver(*words)
        assert (came.code, came.out) == (121, "")
        assert part in came.err
        assert "\x1b" not in came.err


@pytest.mark.parametrize(
    ("params", "part"), [("{a: 1}", "no JSON"), ("[1]", "no object"), ("3", "no object")]
)
async def test_parameters_that_are_none_are_wrong_usage(operator: Operator, params: str, part: str) -> None:
    """Before the node is asked."""
    came = await operator.call(params)
    assert (came.code, came.out) == (2, "")
    assert part in came.err
    assert 'like {"a": 1}' in came.err
    came = await operator.call(params, "--json")
    assert came.code == 2
    assert part in came.json["error"]["problem"]
    assert (await operator.call("--timeout", "0")).code == 2


async def test_parameters_can_be_read(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a secret need not stand where others see it."""
    monkeypatch.setattr("sys.stdin", io.StringIO('{"a": 2}\n'))
    assert (await operator.call("-", answer=said("ok"))).out == "ok\n"
    assert (await operator.computer.until(TOOL_CALL))["params"] == {"a": 2}


async def test_programs_are_answered_in_json(operator: Operator) -> None:
    """With the answer as it was, and the same codes."""
    came = await operator.call("--json", answer=said("burnt", is_error=True))
    assert came.code == 1
    assert (came.json["outcome"], came.json["text"]) == ("error", "burnt")
    assert came.json["answer"] == said("burnt", is_error=True)
    came = await operator.palaver("a", "nobody", "add", "--json")
    assert (came.code, came.json["outcome"], came.json["answer"]) == (121, "not_found", None)


def test_without_a_node_it_is_said(palaver: Palaver) -> None:
    came = palaver("offices", "call", "a", "hands", "add")
    assert came.code == 1
    assert "No node is running" in came.err
