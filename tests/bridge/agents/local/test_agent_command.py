"""The command line of an agent."""

import pytest

from bridge.agents.local.command import (
    MAX_ARGUMENT_BYTES,
    PRESETS,
    Word,
    fill,
    placeholders,
    runtime_type,
    unknown_placeholder,
)
from bridge.tasks.errors import ErrorCode, TaskError
from tests.bridge.agents.agent_tasks import task

AIDER = "aider --message-file=/dev/stdin --yes-always --no-pretty --no-stream --no-check-update"


@pytest.mark.parametrize(
    ("runtime", "plain", "full"),
    [
        (
            "claude",
            "claude --print --output-format=text",
            "claude --print --output-format=text --model=m/1 --append-system-prompt=Be kind.",
        ),
        ("open_code", "opencode run", "opencode run --model=m/1"),
        ("kimi", "kimi --quiet", "kimi --quiet --model=m/1"),
        ("aider", AIDER, AIDER + " --model=m/1"),
    ],
)
def test_the_presets(runtime: str, plain: str, full: str) -> None:
    """Non-interactive, plain text, the prompt on standard input; the model if the task has one."""
    asked = task(model="m/1", system_prompt="Be kind.")
    assert fill(PRESETS[runtime], task()) == tuple(plain.split(" "))
    assert " ".join(fill(PRESETS[runtime], asked)) == full


def test_opencode_has_two_spellings() -> None:
    """People write `opencode`, events have `open_code`."""
    assert (runtime_type("opencode"), runtime_type("open_code"), runtime_type("x")) == ("open_code", "open_code", "x")


def test_every_placeholder_is_filled_in() -> None:
    """Anywhere in a word, more than once; a value that looks like a placeholder is not expanded."""
    words: list[Word] = ["run", "{from}>{to}", "id={task_id}", "{prompt}", ["-m", "{model}{model}"], "{{model}}"]
    assert fill(words, task(prompt="{model}", model="x")) == (
        "run",
        "boss@office.local>worker-1@kitchen.local",
        "id=task-1",
        "{model}",
        "-m",
        "xx",
        "{model}",
    )


def test_a_group_without_its_value_is_omitted() -> None:
    """Completely; an empty value counts as missing."""
    words: list[Word] = ["run", ["--model", "{model}", "{system_prompt}"], ["--always"], "--model={model}"]
    assert fill(words, task(model="x")) == ("run", "--always", "--model=x")
    assert fill(words, task(model="", system_prompt="s")) == ("run", "--always", "--model=")


def test_other_braces_stay() -> None:
    """JSON and code contain them too."""
    words: list[Word] = ['{"a": 1}', "{}", "{A}", "${HOME}", "{a b}"]
    assert fill(words, task()) == tuple(words)
    assert unknown_placeholder(["{print}", "{{awk}}", ["{model}", "{aha}"]]) == "aha"
    assert placeholders(["{model}{prompt}", ["{{to}}"]]) == {"model", "prompt"}


@pytest.mark.parametrize(
    ("word", "said", "part"),
    [
        ("{model}", {"model": "--dangerous"}, "hyphen"),
        ("{model}{prompt}", {"model": "", "prompt": "-x"}, "hyphen"),
        ("--model={model}", {"model": "a\0b"}, "NUL"),
        ("--prompt={prompt}", {"prompt": "é" * (MAX_ARGUMENT_BYTES // 2)}, "bytes"),
        ("-s{system_prompt}", {"system_prompt": "\0"}, "system prompt"),
    ],
)
def test_a_value_cannot_become_an_option(word: str, said: dict[str, str], part: str) -> None:
    """Nor contain what an argument cannot: the requester gets an error, and nothing is started."""
    refused = fill(["run", word], task(**said))
    assert isinstance(refused, TaskError)
    assert refused.code is ErrorCode.INVALID_PAYLOAD
    assert part in refused.reason


def test_a_value_behind_an_option_may_begin_with_a_hyphen() -> None:
    """There it cannot be taken for an option."""
    assert fill(["run", "--model={model}"], task(model="-x")) == ("run", "--model=-x")
