"""The environment of an agent's process: little of the node's own, what the operator adds, and the task."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import orjson

from bridge.agent_command import LONGEST
from bridge.agent_work import TaskToDo

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
