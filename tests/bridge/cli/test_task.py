"""`palaver task`, from the words to the node and back."""

import asyncio
import io
import json
from typing import Any

import pytest

from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.task import State
from bridge.tasks.view import CANCELLED, CODES
from tests.bridge.cli.conftest import Agents, Said


async def _sent(agents: Agents, *words: str, answer: Answer, progress: tuple[Any, ...] = ()) -> Said:
    sending = asyncio.create_task(agents.palaver("task", "send", "cook", *words))
    await agents.node.hands.do(await agents.node.given(), answer, *progress)
    return await sending


@pytest.fixture(autouse=True)
async def _cook(agents: Agents) -> None:
    await agents.node.hands.come("cook")


async def test_standard_output_is_the_agents_output(agents: Agents) -> None:
    """Every byte of it and nothing else; what is reported on the way is beside it, made harmless."""
    output = "Done\x1b[31m – näturally\r\n\n\x00end"
    said = await _sent(
        agents, "Cook.", answer=Answer(True, output, 0), progress=({"message": "half\x1b\u202edone"},)
    )
    assert (said.code, said.out) == (0, output)
    assert "half" in said.err
    assert "\x1b" not in said.err
    assert "@here.test for cook@here.test" in said.err


async def test_a_tool_that_failed_passes_its_code_on(agents: Agents) -> None:
    """With what it has written."""
    said = await _sent(agents, "Cook.", answer=Answer(False, "burnt", 7))
    assert (said.code, said.out) == (7, "burnt")
    assert "exit code 7" in said.err


@pytest.mark.parametrize("code", list(ErrorCode))
async def test_each_reason_has_its_code(agents: Agents, code: ErrorCode) -> None:
    """With a sentence and what to do; of the agent there is no output."""
    sending = asyncio.create_task(agents.palaver("task", "send", "cook", "Cook."))
    await agents.node.core.desk.fail((await agents.node.given()).key, TaskError(code, "It is so."))
    said = await sending
    assert (said.code, said.out) == (CODES[code], "")
    assert f"{code}: It is so. {code.advice}" in said.err


async def test_what_is_refused_ends_with_the_same_codes(agents: Agents) -> None:
    """Whether it became a task or not."""
    for to, code in (
        ("nobody@here.test", ErrorCode.AGENT_NOT_FOUND),
        ("nobody", ErrorCode.AGENT_NOT_FOUND),
        ("a@b@c", ErrorCode.INVALID_PAYLOAD),
    ):
        said = await agents.palaver("task", "send", to, "Cook.")
        assert (said.code, said.out) == (CODES[code], "")
        assert code in said.err


async def test_in_whose_name_it_is_asked_is_told_to_the_node(agents: Agents) -> None:
    """Which says why it cannot be: this one is a homeserver itself."""
    said = await agents.palaver("task", "send", "cook", "Cook.", "--as", "@alice:their.server")
    assert (said.code, said.out) == (1, "")
    assert "speaks for nobody" in said.err
    assert agents.node.hands.given.empty()


async def test_who_does_not_wait_learns_what_is_known_already(agents: Agents) -> None:
    """A task that nobody can do has ended before it was on its way; of one that is done the key is enough."""
    said = await agents.palaver("task", "send", "nobody@here.test", "Cook.", "--id", "one", "--no-wait")
    assert (said.code, said.out) == (CODES[ErrorCode.AGENT_NOT_FOUND], "one@here.test\n")
    assert "AGENT_NOT_FOUND" in said.err
    await _sent(agents, "Cook.", "--id", "two", answer=Answer(True, "Done.", 0))
    said = await agents.palaver("task", "send", "cook", "Cook.", "--id", "two", "--no-wait")
    assert (said.code, said.out) == (0, "two@here.test\n")


async def test_a_task_that_is_cancelled_by_others_has_a_code_of_its_own(agents: Agents) -> None:
    """Who cancelled it is told."""
    sending = asyncio.create_task(agents.palaver("task", "send", "cook", "Cook.", "--id", "one"))
    await agents.node.given()
    await agents.node.ask("task-cancel", task="one", reason="Not hungry.")
    said = await sending
    assert (said.code, said.out) == (CANCELLED, "")
    assert "Cancelled by operator@here.test: Not hungry." in said.err


async def test_all_that_can_be_said_of_a_task(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    """The prompt from standard input, and everything around it."""
    prompt = "Cook.\nSlowly – über Nacht.\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(prompt.encode())))
    words = ("--context", "Before.", "--system-prompt", "Be brief.", "--model", "large", "--timeout", "7.5")
    said = await agents.palaver(
        "task", "send", "cook", "-", *words, "--metadata", "a=b=c", "--metadata", "d=", "--id", "one",
        "--no-wait",
    )  # fmt: skip
    assert (said.code, said.out) == (0, "one@here.test\n")
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
        (["cook", ""], b"", "What is to be done?"),
        (["cook", "-"], b" \n", "What is to be done?"),
        (["cook", "-"], b"\xff\xfe", "no text in UTF-8"),
        (["cook", "-"], b"x" * (1_048_576 + 1), "longer than a megabyte"),
        (["cook", "Cook.", "--metadata", "a"], b"", "a is no metadata"),
        (["cook", "Cook.", "--metadata", "=b"], b"", "=b is no metadata"),
    ],
)
async def test_mistakes_are_told(
    agents: Agents, words: list[str], data: bytes, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the node is asked."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    said = await agents.palaver("task", "send", *words)
    assert (said.code, sentence in said.err) == (1, True)
    assert agents.node.hands.given.empty()


async def test_json_is_one_object_per_line(agents: Agents) -> None:
    """Accepted, states, reports, and the result at the end."""
    said = await _sent(
        agents, "Cook.", "--json", answer=Answer(False, "burnt", 7), progress=({"message": "halfway"},)
    )
    items = [json.loads(line) for line in said.out.splitlines()]
    assert (said.code, said.err) == (7, "")
    assert items[0]["type"] == "accepted"
    assert [one["text"] for one in items if one["type"] == "progress"] == ["halfway"]
    assert (items[-1]["type"], items[-1]["output"], items[-1]["exit"]) == ("result", "burnt", 7)


async def test_who_left_can_wait_again(agents: Agents) -> None:
    """`wait` shows what came meanwhile, and ends as `send` would have."""
    key = (await agents.palaver("task", "send", "cook", "Cook.", "--detach")).out.strip()
    task = await agents.node.given()
    await agents.node.hands.do(task, Answer(False, "burnt", 7), {"message": "halfway"})
    said = await agents.palaver("task", "wait", key)
    assert (said.code, said.out, "halfway" in said.err) == (7, "burnt", True)
    said = await agents.palaver("task", "wait", "nothing")
    assert (said.code, "No task nothing is known." in said.err) == (1, True)


async def test_tasks_are_listed_and_shown(agents: Agents) -> None:
    """Nothing of it reaches the terminal itself."""
    assert "There are no such tasks." in (await agents.palaver("task", "list")).out
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
    for words in (
        "one@here.test",
        "Co\\x1b[31mok.",
        "halfway",
        "D\\x1b[0mone.\nReally.",
        "received",
        "running",
    ):
        assert words in shown.out
    assert "\x1b" not in listed.out + shown.out
    shown = await agents.palaver("task", "show", "two")
    assert "Check the address" in shown.out


async def test_a_task_is_cancelled(agents: Agents) -> None:
    """One that has ended stays as it is, and a program learns it by the exit code."""
    await agents.palaver("task", "send", "cook", "Cook.", "--id", "one", "--no-wait")
    assert (await agents.palaver("task", "cancel", "one")).out == "one@here.test is cancelled.\n"
    assert (await agents.node.task("one")).state is State.CANCELLED
    await agents.node.given()
    await _sent(agents, "Cook.", "--id", "two", answer=Answer(True, "", 0))
    said = await agents.palaver("task", "cancel", "two@here.test")
    assert (said.code, "nothing to cancel: two@here.test is done" in said.out) == (1, True)
