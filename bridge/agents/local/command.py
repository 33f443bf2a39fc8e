"""The command line of an agent: what the operator wrote, with what the task says put in.

It is a list of words and goes through no shell. The operator chooses the options, whoever asks for the task
chooses values: so a value never becomes a word of its own that begins with a `-`.

The environment of an agent's process: little of the node's own, what the operator adds, and the task.

The directory that an agent works in when nothing else is said: its name cannot lead anywhere else.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from types import MappingProxyType
from typing import Final, TypeAlias
from urllib.parse import quote

import orjson

from bridge.agents.work import TaskToDo
from bridge.tasks.errors import ErrorCode, TaskError

Word: TypeAlias = str | list[str]
"""An argument, or several that are left out together where the task lacks what one of them needs."""

LONGEST: Final = 100_000
"""Bytes of one argument, or of one variable: Linux allows 131,071."""
PROMPT: Final = "prompt"
PLACEHOLDERS: Final = ("model", "system_prompt", PROMPT, "task_id", "from", "to")

# Each runs once, asks nobody and writes its answer as plain text, as its own documentation has it. What it
# may do without being asked is the operator's to add: `claude` and `opencode` refuse what needs leave, `kimi`
# and `aider` are made to say yes by these very options.
PRESETS: Final[Mapping[str, tuple[Word, ...]]] = MappingProxyType(
    {
        "claude": (
            "claude", "--print", "--output-format=text", ["--model={model}"],
            ["--append-system-prompt={system_prompt}"],
        ),
        "open_code": ("opencode", "run", ["--model={model}"]),
        "kimi": ("kimi", "--quiet", ["--model={model}"]),
        # It reads no standard input, but a file, and this is one.
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
    """The first of them for which nothing would be put."""
    return min(placeholders(words) - set(PLACEHOLDERS), default=None)


def fill(words: Iterable[Word], task: TaskToDo) -> tuple[str, ...] | TaskError:
    """The arguments for this task, the program first; or why there cannot be any."""
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
    assert first is not None, "something was put in"
    name = (first[1] or first[2]).replace("_", " ")
    if argument.startswith("-") and not word.startswith("-"):
        return f"This agent is given the {name} as an argument, where it must not begin with a hyphen."
    if "\0" in argument:
        return f"This agent is given the {name} as an argument, which can hold no NUL."
    if len(argument.encode("utf-8", "replace")) > LONGEST:
        return f"This agent is given the {name} as an argument, where it has at most {LONGEST} bytes."
    return None


TASK_PREFIX: Final = "PALAVER_TASK_"
INHERITED: Final = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"})
"""Beside these all that begins with `LC_`. Where a program keeps its credentials depends on HOME."""
PLAIN: Final = {"TERM": "dumb", "NO_COLOR": "1"}
"""Nobody watches: what it writes is read elsewhere."""
DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class Environment:
    """`files` are for what no variable can hold. Each is written to a file, and the variable of that name
    holds its path."""

    variables: Mapping[str, str]
    files: Mapping[str, str]


def own_environment(
    node: Mapping[str, str], passed: Iterable[str], added: Mapping[str, str]
) -> dict[str, str]:
    """What every task of an agent gets. Nothing of the node's own configuration is in it."""
    inherited = {name: value for name, value in node.items() if name in INHERITED or name.startswith("LC_")}
    chosen = {name: node[name] for name in passed if name in node}
    return {"PATH": DEFAULT_PATH, **PLAIN, **inherited, **chosen, **added}


def task_environment(task: TaskToDo) -> Environment:
    """`PALAVER_TASK_…`. What the task does not have is not there; the context and the metadata always are."""
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
        if "\0" in value or len(value.encode("utf-8", "replace")) > LONGEST:
            files[f"{TASK_PREFIX}{name}_FILE"] = value
        else:
            variables[f"{TASK_PREFIX}{name}"] = value
    return Environment(variables, files)


_LONGEST: Final = 120
"""Bytes. File systems allow 255."""
_HASH: Final = 16


def directory_name(agent_id: str) -> str:
    """Readable where the id is; never `.`, never `..`, without a slash, and another one for another agent."""
    name = (
        quote(agent_id, safe="").replace(".", "%2E") if agent_id.startswith(".") else quote(agent_id, safe="")
    )
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}-{sha256(agent_id.encode()).hexdigest()[:_HASH]}"
