"""The command line, environment and working directory of an agent's process.

The command line is a list of words that no shell interprets. The operator writes it, with placeholders for
values of the task. A value never becomes an argument that begins with `-`, so that a requester cannot add
options.

The environment contains few variables of the node, those that the operator adds, and those of the task.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from types import MappingProxyType
from typing import Final, TypeAlias
from urllib.parse import quote

import orjson

from bridge.agents.work import TaskAssignment
from bridge.tasks.errors import ErrorCode, TaskError

Word: TypeAlias = str | list[str]
"""An argument, or a group that is omitted if the task lacks a value for one of its placeholders."""

MAX_ARGUMENT_BYTES: Final = 100_000
"""Bytes of one argument or variable. Linux allows 131,071."""
PROMPT: Final = "prompt"
PLACEHOLDERS: Final = ("model", "system_prompt", PROMPT, "task_id", "from", "to")

# According to its documentation each of these runs once without questions and writes its answer as plain
# text. Further permissions are for the operator to add: `claude` and `opencode` refuse actions that need
# permission, while these options make `kimi` and `aider` confirm everything.
PRESETS: Final[Mapping[str, tuple[Word, ...]]] = MappingProxyType(
    {
        "claude": (
            "claude", "--print", "--output-format=text", ["--model={model}"],
            ["--append-system-prompt={system_prompt}"],
        ),
        "open_code": ("opencode", "run", ["--model={model}"]),
        "kimi": ("kimi", "--quiet", ["--model={model}"]),
        # aider reads its message from a file, not from standard input; this file is its standard input.
        "aider": (
            "aider", "--message-file=/dev/stdin", "--yes-always", "--no-pretty", "--no-stream",
            "--no-check-update", ["--model={model}"],
        ),
    }
)  # fmt: skip

_PLACEHOLDER: Final = re.compile(r"\{\{([a-z_]+)\}\}|\{([a-z_]+)\}", re.ASCII)


def runtime_type(name: str) -> str:
    """ "`open_code` on the wire; `opencode` only when typed by a person"."""
    return "open_code" if name == "opencode" else name


def _flat(words: Iterable[Word]) -> Iterator[str]:
    for word in words:
        yield from [word] if isinstance(word, str) else word


def placeholders(words: Iterable[Word]) -> set[str]:
    return {found[2] for word in _flat(words) for found in _PLACEHOLDER.finditer(word) if found[2]}


def unknown_placeholder(words: Iterable[Word]) -> str | None:
    """The first unknown placeholder."""
    return min(placeholders(words) - set(PLACEHOLDERS), default=None)


def fill(words: Iterable[Word], task: TaskAssignment) -> tuple[str, ...] | TaskError:
    """The arguments for a task, the program first, or the error if a value cannot be used."""
    values = {
        "model": task.model,
        "system_prompt": task.system_prompt,
        PROMPT: task.prompt,
        "task_id": task.task_id,
        "from": task.from_agent,
        "to": task.to_agent,
    }
    filled: list[str] = []
    for word in words:
        group = [word] if isinstance(word, str) else word
        if not isinstance(word, str) and any(not values[name] for name in placeholders(group)):
            continue
        for one in group:
            argument = _PLACEHOLDER.sub(lambda found: _put(found, values), one)
            wrong = _wrong(one, argument)
            if wrong is not None:
                return TaskError(ErrorCode.INVALID_PAYLOAD, wrong)
            filled.append(argument)
    return tuple(filled)


def _put(found: re.Match[str], values: Mapping[str, str | None]) -> str:
    return f"{{{found[1]}}}" if found[1] else values[found[2]] or ""


def _wrong(word: str, argument: str) -> str | None:
    if argument == word:
        return None
    first = _PLACEHOLDER.search(word)
    assert first is not None, "a placeholder was replaced"
    name = (first[1] or first[2]).replace("_", " ")
    if argument.startswith("-") and not word.startswith("-"):
        return f"This agent gets the {name} as an argument, which must not begin with a hyphen."
    if "\0" in argument:
        return f"This agent gets the {name} as an argument, which must not contain NUL."
    if len(argument.encode("utf-8", "replace")) > MAX_ARGUMENT_BYTES:
        return f"This agent gets the {name} as an argument, which must have at most {MAX_ARGUMENT_BYTES} bytes."
    return None


TASK_PREFIX: Final = "PALAVER_TASK_"
INHERITED: Final = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"})
"""Inherited from the node, besides all variables that begin with `LC_`. HOME determines where programs keep
their credentials."""
NON_INTERACTIVE: Final = {"TERM": "dumb", "NO_COLOR": "1"}
"""The output is not shown in a terminal."""
DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class Environment:
    """`files` are values that cannot be variables. Each is written to a file, and the variable of that name
    is set to its path."""

    variables: Mapping[str, str]
    files: Mapping[str, str]


def agent_environment(node: Mapping[str, str], passed: Iterable[str], added: Mapping[str, str]) -> dict[str, str]:
    """The variables that are the same for all tasks of an agent. They include nothing of the node's
    configuration."""
    inherited = {name: value for name, value in node.items() if name in INHERITED or name.startswith("LC_")}
    chosen = {name: node[name] for name in passed if name in node}
    return {"PATH": DEFAULT_PATH, **NON_INTERACTIVE, **inherited, **chosen, **added}


def task_environment(task: TaskAssignment) -> Environment:
    """The variables `PALAVER_TASK_…`. Values that the task lacks are omitted, except context and metadata."""
    said: dict[str, str | None] = {
        "ID": task.task_id,
        "REQUEST_ID": task.request_id,
        "FROM": task.from_agent,
        "TO": task.to_agent,
        "ATTEMPT": str(task.attempt),
        # Milliseconds since 1970.
        "DEADLINE": str(task.deadline_ms),
        "CONTEXT": task.context,
        "SYSTEM_PROMPT": task.system_prompt,
        "MODEL": task.model,
        "METADATA": orjson.dumps(task.metadata).decode(),
    }
    variables: dict[str, str] = {}
    files: dict[str, str] = {}
    for name, value in said.items():
        if value is None:
            continue
        if "\0" in value or len(value.encode("utf-8", "replace")) > MAX_ARGUMENT_BYTES:
            files[f"{TASK_PREFIX}{name}_FILE"] = value
        else:
            variables[f"{TASK_PREFIX}{name}"] = value
    return Environment(variables, files)


_MAX_NAME_BYTES: Final = 120
"""Bytes. File systems allow 255."""
_HASH_LENGTH: Final = 16


def directory_name(agent_id: str) -> str:
    """The name of an agent's default working directory: readable where possible, unique, never `.` or `..`,
    and without a slash."""
    name = quote(agent_id, safe="").replace(".", "%2E") if agent_id.startswith(".") else quote(agent_id, safe="")
    if len(name) <= _MAX_NAME_BYTES:
        return name
    return f"{name[:_MAX_NAME_BYTES]}-{sha256(agent_id.encode()).hexdigest()[:_HASH_LENGTH]}"
