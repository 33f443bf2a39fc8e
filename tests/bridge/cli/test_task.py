"""`palaver task` with a running node."""

import asyncio
import io
import json
from typing import Any

import pytest

from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.task import State
from bridge.tasks.view import CANCELLED, EXIT_CODES
from tests.bridge.cli.conftest import AgentsNode, Result


async def _sent(agents: AgentsNode, *words: str, answer: Answer, progress: tuple[Any, ...] = ()) -> Result:
    sending = asyncio.create_task(agents.palaver("task", "send", "cook", *words))
    await agents.node.local_agents.run(await agents.node.given(), answer, *progress)
    return await sending


@pytest.fixture(autouse=True)
async def _cook(agents: AgentsNode) -> None:
    await agents.node.local_agents.register("cook")


async def test_standard_output_has_only_the_agents_output(agents: AgentsNode) -> None:
    """Unchanged. Progress is written to standard error without control characters."""
    output = "Done\x1b[31m – näturally\r\n\n\x00end"
    result = await _sent(agents, "Cook.", answer=Answer(True, output, 0), progress=({"message": "half\x1b\u202edone"},))
    assert (result.code, result.out) == (0, output)
    assert "half" in result.err
    assert "\x1b" not in result.err
    assert "@here.test for cook@here.test" in result.err


async def test_the_exit_code_is_the_agents_exit_code(agents: AgentsNode) -> None:
    """The output of a failed agent is printed too."""
    result = await _sent(agents, "Cook.", answer=Answer(False, "burnt", 7))
    assert (result.code, result.out) == (7, "burnt")
    assert "exit code 7" in result.err


@pytest.mark.parametrize("code", list(ErrorCode))
async def test_each_error_code_has_an_exit_code(agents: AgentsNode, code: ErrorCode) -> None:
    """Standard error has the reason and advice; standard output is empty."""
    sending = asyncio.create_task(agents.palaver("task", "send", "cook", "Cook."))
    await agents.node.core.tasks.fail((await agents.node.given()).key, TaskError(code, "It is so."))
    result = await sending
    assert (result.code, result.out) == (EXIT_CODES[code], "")
    assert f"{code}: It is so. {code.advice}" in result.err


async def test_refused_requests_have_the_same_exit_codes(agents: AgentsNode) -> None:
    """Whether a task was created or not."""
    for to, code in (
        ("nobody@here.test", ErrorCode.AGENT_NOT_FOUND),
        ("nobody", ErrorCode.AGENT_NOT_FOUND),
        ("a@b@c", ErrorCode.INVALID_PAYLOAD),
    ):
        result = await agents.palaver("task", "send", to, "Cook.")
        assert (result.code, result.out) == (EXIT_CODES[code], "")
        assert code in result.err


async def test_a_request_in_a_persons_name_is_refused_by_a_homeserver(agents: AgentsNode) -> None:
    """Only an application service can act for people."""
    result = await agents.palaver("task", "send", "cook", "Cook.", "--as", "@alice:their.server")
    assert (result.code, result.out) == (1, "")
    assert "cannot act for people" in result.err
    assert agents.node.local_agents.delivered.empty()


async def test_without_waiting_a_finished_task_is_reported(agents: AgentsNode) -> None:
    """A task without a route fails at once. For a task that is done the key is printed."""
    result = await agents.palaver("task", "send", "nobody@here.test", "Cook.", "--id", "one", "--no-wait")
    assert (result.code, result.out) == (EXIT_CODES[ErrorCode.AGENT_NOT_FOUND], "one@here.test\n")
    assert "AGENT_NOT_FOUND" in result.err
    await _sent(agents, "Cook.", "--id", "two", answer=Answer(True, "Done.", 0))
    result = await agents.palaver("task", "send", "cook", "Cook.", "--id", "two", "--no-wait")
    assert (result.code, result.out) == (0, "two@here.test\n")


async def test_a_cancelled_task_has_its_own_exit_code(agents: AgentsNode) -> None:
    """Standard error names the operator who cancelled it."""
    sending = asyncio.create_task(agents.palaver("task", "send", "cook", "Cook.", "--id", "one"))
    await agents.node.given()
    await agents.node.ask("task-cancel", task="one", reason="Not hungry.")
    result = await sending
    assert (result.code, result.out) == (CANCELLED, "")
    assert "Cancelled by operator@here.test: Not hungry." in result.err


async def test_all_options_are_sent(agents: AgentsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """The prompt can be read from standard input."""
    prompt = "Cook.\nSlowly – über Nacht.\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(prompt.encode())))
    words = ("--context", "Before.", "--system-prompt", "Be brief.", "--model", "large", "--timeout", "7.5")
    result = await agents.palaver(
        "task", "send", "cook", "-", *words, "--metadata", "a=b=c", "--metadata", "d=", "--id", "one",
        "--no-wait",
    )  # fmt: skip
    assert (result.code, result.out) == (0, "one@here.test\n")
    task = await agents.node.given()
    assert task.request.content() == {
        "prompt": prompt,
        "context": "Before.",
        "system_prompt": "Be brief.",
        "model": "large",
        "metadata": {"a": "b=c", "d": ""},
    }
    assert task.deadline - task.received_at == 7_500


@pytest.mark.parametrize(
    ("words", "data", "sentence"),
    [
        (["cook", ""], b"", "The prompt is empty."),
        (["cook", "-"], b" \n", "The prompt is empty."),
        (["cook", "-"], b"\xff\xfe", "not UTF-8 text"),
        (["cook", "-"], b"x" * (1_048_576 + 1), "longer than a megabyte"),
        (["cook", "Cook.", "--metadata", "a"], b"", "a is not valid metadata"),
        (["cook", "Cook.", "--metadata", "=b"], b"", "=b is not valid metadata"),
    ],
)
async def test_invalid_arguments_are_refused(
    agents: AgentsNode, words: list[str], data: bytes, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the node is asked."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    result = await agents.palaver("task", "send", *words)
    assert (result.code, sentence in result.err) == (1, True)
    assert agents.node.local_agents.delivered.empty()


async def test_json_is_one_object_per_line(agents: AgentsNode) -> None:
    """Acceptance, states, progress, and finally the result."""
    result = await _sent(
        agents, "Cook.", "--json", answer=Answer(False, "burnt", 7), progress=({"message": "halfway"},)
    )
    items = [json.loads(line) for line in result.out.splitlines()]
    assert (result.code, result.err) == (7, "")
    assert items[0]["type"] == "accepted"
    assert [one["text"] for one in items if one["type"] == "progress"] == ["halfway"]
    assert (items[-1]["type"], items[-1]["output"], items[-1]["exit"]) == ("result", "burnt", 7)


async def test_wait_follows_a_task_of_an_earlier_command(agents: AgentsNode) -> None:
    """It prints earlier progress and exits like `send`."""
    key = (await agents.palaver("task", "send", "cook", "Cook.", "--detach")).out.strip()
    task = await agents.node.given()
    await agents.node.local_agents.run(task, Answer(False, "burnt", 7), {"message": "halfway"})
    result = await agents.palaver("task", "wait", key)
    assert (result.code, result.out, "halfway" in result.err) == (7, "burnt", True)
    result = await agents.palaver("task", "wait", "nothing")
    assert (result.code, "No task nothing is stored." in result.err) == (1, True)


async def test_tasks_are_listed_and_shown(agents: AgentsNode) -> None:
    """Without control characters."""
    assert "No tasks found." in (await agents.palaver("task", "list")).out
    await _sent(
        agents,
        "Co\x1b[31mok.",
        "--id",
        "one",
        answer=Answer(True, "D\x1b[0mone.\nReally.", 0),
        progress=({"message": "halfway"},),
    )
    await agents.palaver("task", "send", "nobody@here.test", "Cook.", "--id", "two")
    listed = await agents.palaver("task", "list")
    for words in ("one@here.test", "two@here.test", "done", "failed: AGENT_NOT_FOUND", "operator@here.test"):
        assert words in listed.out
    assert "--before" in (await agents.palaver("task", "list", "--limit", "1")).out
    found = await agents.json("task", "list", "--state", "done", "--agent", "cook", "--requester", "operator")
    assert [one["task"] for one in found["tasks"]] == ["one@here.test"]
    shown = await agents.palaver("task", "show", "one")
    for words in ("one@here.test", "Co\\x1b[31mok.", "halfway", "D\\x1b[0mone.\nReally.", "received", "running"):
        assert words in shown.out
    assert "\x1b" not in listed.out + shown.out
    shown = await agents.palaver("task", "show", "two")
    assert "Check the address" in shown.out


async def test_a_task_is_cancelled(agents: AgentsNode) -> None:
    """A task that has ended is not changed, and the exit code is 1."""
    await agents.palaver("task", "send", "cook", "Cook.", "--id", "one", "--no-wait")
    assert (await agents.palaver("task", "cancel", "one")).out == "one@here.test is cancelled.\n"
    assert (await agents.node.task("one")).state is State.CANCELLED
    await agents.node.given()
    await _sent(agents, "Cook.", "--id", "two", answer=Answer(True, "", 0))
    result = await agents.palaver("task", "cancel", "two@here.test")
    assert (result.code, "Nothing to cancel: two@here.test is done" in result.out) == (1, True)
