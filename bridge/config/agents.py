"""The configuration of agents that the node runs itself."""

import re
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, ByteSize, Field, model_validator

from bridge.agents.address import wrong_agent_id
from bridge.agents.agent import NoCapabilities, read_capabilities
from bridge.agents.local.command import PRESETS, Word, runtime_type, unknown_placeholder
from bridge.config.section import Namespace, Seconds, Section

VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
RUNTIME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}", re.ASCII)
OWN_PREFIX: Final = "PALAVER_"


def _agent_id(value: str) -> str:
    wrong = wrong_agent_id(value)
    if wrong is not None:
        raise ValueError(wrong.rstrip("."))
    return value


def _runtime(value: str) -> str:
    if RUNTIME.fullmatch(value) is None:
        raise ValueError("is not the name of a runtime: it has 1 to 64 of a-z, 0-9, '.', '_' and '-'")
    return runtime_type(value)


def _variable(value: str) -> str:
    if VARIABLE.fullmatch(value) is None:
        raise ValueError("is not the name of a variable: it has letters, digits and _")
    if value.startswith(OWN_PREFIX):
        raise ValueError(f"begins with {OWN_PREFIX}: those are the node's own, choose another name")
    return value


def _value(value: str) -> str:
    if "\0" in value:
        raise ValueError("holds a NUL: no variable can, take it out")
    return value


def _capabilities(value: list[str]) -> list[str]:
    read = read_capabilities(value)
    if isinstance(read, NoCapabilities):
        raise ValueError(read.reason)
    return list(read)


def _command(value: list[Word] | None) -> list[Word] | None:
    if value is None:
        return None
    if not value or not isinstance(value[0], str) or not value[0]:
        raise ValueError('begins with a program: write it as a list, like ["python3", "worker.py"]')
    unknown = unknown_placeholder(value)
    if unknown is not None:
        raise ValueError(
            f"has {{{unknown}}}, for which nothing is put: write {{{{{unknown}}}}} for the text itself"
        )
    return value


AgentId = Annotated[str, AfterValidator(_agent_id)]
Variable = Annotated[str, AfterValidator(_variable)]
Argument = Annotated[str, AfterValidator(_value)]


class Agent(Section):
    """An agent that this node runs itself, a process for each task: the prompt on standard input, everything
    else in variables `PALAVER_TASK_…`, the answer on standard output. Write one `[[agents]]` block for
    each."""

    id: AgentId = Field(
        description="What it is called; its address is id@server_name.", examples=["worker-1"]
    )
    runtime: Annotated[str, AfterValidator(_runtime)] = Field(
        default="command",
        description="What it is. For `claude`, `opencode`, `kimi` and `aider` the command is known:"
        " `palaver agents presets` shows it.",
        examples=["claude"],
    )
    command: Annotated[list[Argument | list[Argument]] | None, AfterValidator(_command)] = Field(
        default=None,
        description="The program and its arguments, without a shell. {model}, {system_prompt}, {prompt},"
        " {task_id}, {from} and {to} are filled in; a list inside it is left out where the task does not have"
        " what it needs. Left out: that of the runtime.",
        examples=[["python3", "worker.py", ["--model={model}"]]],
    )
    arguments: list[Argument] = Field(
        default=[],
        description="Further arguments, put behind the command.",
        examples=[["--permission-mode=acceptEdits"]],
    )
    capabilities: Annotated[list[str], AfterValidator(_capabilities)] = Field(
        default=["task_execution", "messaging"], description="What it says it can do."
    )
    namespaces: list[Namespace] = Field(
        default=["default"], min_length=1, max_length=64, description="The namespaces that it is in."
    )
    display_name: str | None = Field(
        default=None, max_length=256, description="What people see it called.", examples=["The worker"]
    )
    directory: Path | None = Field(
        default=None,
        description="The directory that it works in. Left out: one of its own in the data directory.",
        examples=["/srv/project"],
    )
    environment: dict[Variable, Argument] = Field(
        default={}, description="Variables that it is given.", examples=[{"NODE_ENV": "production"}]
    )
    pass_environment: list[Variable] = Field(
        default=[],
        description="Variables of the node that it is given too. Beside them it gets PATH, HOME, the language"
        " and the time zone, and nothing else.",
        examples=[["ANTHROPIC_API_KEY"]],
    )
    time_limit: Seconds = Field(
        default=300.0, description="Seconds that a task may take, even if it was asked for with more."
    )
    parallel: int = Field(default=1, ge=1, le=64, description="How many tasks it works on at the same time.")
    busy: Literal["refuse", "queue"] = Field(
        default="queue",
        description="What becomes of a task that comes while it is busy: `queue`, or `refuse` (AGENT_BUSY).",
    )
    queue: int = Field(default=100, ge=1, le=10_000, description="How many tasks may wait for it.")
    max_output: ByteSize = Field(
        default=ByteSize(1024 * 1024),
        ge=1024,
        le=64 * 1024 * 1024,
        description="How much of what it writes is kept of one task: of more, the beginning and the end.",
    )

    @model_validator(mode="after")
    def _some_command(self) -> Self:
        if self.command is None and self.runtime not in PRESETS:
            raise ValueError(
                f"nothing says how to start {self.id}: name its command, or a runtime for which one is known"
            )
        return self

    @property
    def words(self) -> tuple[Word, ...]:
        """The command and the arguments behind it."""
        return (*(PRESETS[self.runtime] if self.command is None else self.command), *self.arguments)


def each_agent_once(agents: list[Agent]) -> list[Agent]:
    """Raises `ValueError`."""
    names = [agent.id for agent in agents]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"agents name {', '.join(twice)} more than once: keep one block for each agent")
    return agents
