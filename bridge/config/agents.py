"""The configuration of agents that the node runs as local commands."""

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, ByteSize, Field, model_validator

from bridge.agents.address import agent_id_problem
from bridge.agents.agent import InvalidCapabilities, parse_capabilities
from bridge.agents.local.command import PRESETS, Word, runtime_type, unknown_placeholder
from bridge.config.section import Namespace, Seconds, Section

VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
RUNTIME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}", re.ASCII)
OWN_PREFIX: Final = "PALAVER_"


def _agent_id(value: str) -> str:
    wrong = agent_id_problem(value)
    if wrong is not None:
        raise ValueError(wrong.rstrip("."))
    return value


def _runtime(value: str) -> str:
    if RUNTIME.fullmatch(value) is None:
        raise ValueError("is not the name of a runtime: use 1 to 64 of a-z, 0-9, '.', '_' and '-'")
    return runtime_type(value)


def _variable(value: str) -> str:
    if VARIABLE.fullmatch(value) is None:
        raise ValueError("is not the name of a variable: use letters, digits and _")
    if value.startswith(OWN_PREFIX):
        raise ValueError(f"begins with {OWN_PREFIX}, which is reserved for the node: choose another name")
    return value


def _value(value: str) -> str:
    if "\0" in value:
        raise ValueError("contains a NUL character: remove it")
    return value


def _capabilities(value: list[str]) -> list[str]:
    read = parse_capabilities(value)
    if isinstance(read, InvalidCapabilities):
        raise ValueError(read.reason)
    return list(read)


def _command(value: list[Word] | None) -> list[Word] | None:
    if value is None:
        return None
    if not value or not isinstance(value[0], str) or not value[0]:
        raise ValueError('must begin with a program: write a list like ["python3", "worker.py"]')
    unknown = unknown_placeholder(value)
    if unknown is not None:
        raise ValueError(f"has the unknown placeholder {{{unknown}}}: write {{{{{unknown}}}}} for the literal text")
    return value


AgentId = Annotated[str, AfterValidator(_agent_id)]
Variable = Annotated[str, AfterValidator(_variable)]
Argument = Annotated[str, AfterValidator(_value)]


class Agent(Section):
    """An agent that this node runs as a local command, one process for each task. The process reads the
    prompt from standard input and everything else from variables `PALAVER_TASK_…`, and writes the answer to
    standard output. Write one `[[agents]]` block for each agent."""

    id: AgentId = Field(description="The agent's id. Its address is id@server_name.", examples=["worker-1"])
    runtime: Annotated[str, AfterValidator(_runtime)] = Field(
        default="command",
        description="The agent's runtime. `claude`, `opencode`, `kimi` and `aider` have a default command:"
        " `palaver agents presets` shows it.",
        examples=["claude"],
    )
    command: Annotated[list[Argument | list[Argument]] | None, AfterValidator(_command)] = Field(
        default=None,
        description="The program and its arguments, started without a shell. The placeholders {model},"
        " {system_prompt}, {prompt}, {task_id}, {from} and {to} are replaced by the task's values. An inner"
        " list is omitted if the task has no value for its placeholder. Default: the runtime's command.",
        examples=[["python3", "worker.py", ["--model={model}"]]],
    )
    arguments: list[Argument] = Field(
        default=[], description="Arguments to append to the command.", examples=[["--permission-mode=acceptEdits"]]
    )
    capabilities: Annotated[list[str], AfterValidator(_capabilities)] = Field(
        default=["task_execution", "messaging"], description="The capabilities that the agent announces."
    )
    namespaces: list[Namespace] = Field(
        default=["default"], min_length=1, max_length=64, description="The namespaces that the agent is in."
    )
    display_name: str | None = Field(
        default=None, max_length=256, description="The agent's display name in rooms.", examples=["The worker"]
    )
    directory: Path | None = Field(
        default=None,
        description="The working directory of the command. Default: a directory for this agent in the data directory.",
        examples=["/srv/project"],
    )
    environment: dict[Variable, Argument] = Field(
        default={}, description="Environment variables to set for the command.", examples=[{"NODE_ENV": "production"}]
    )
    pass_environment: list[Variable] = Field(
        default=[],
        description="Environment variables of the node to pass on to the command. In addition the command"
        " gets only PATH, HOME, the locale and the time zone.",
        examples=[["ANTHROPIC_API_KEY"]],
    )
    time_limit: Seconds = Field(
        default=300.0, description="Maximum seconds for one task. It also limits tasks that request a longer timeout."
    )
    parallel: int = Field(default=1, ge=1, le=64, description="Maximum number of tasks that run at the same time.")
    busy: Literal["refuse", "queue"] = Field(
        default="queue",
        description="What to do with a task that arrives while the agent is busy: `queue` it, or `refuse` it"
        " (AGENT_BUSY).",
    )
    queue: int = Field(default=100, ge=1, le=10_000, description="Maximum number of queued tasks.")
    max_output: ByteSize = Field(
        default=ByteSize(1024 * 1024),
        ge=1024,
        le=64 * 1024 * 1024,
        description="Maximum size of the output that is stored for one task. Of longer output the beginning"
        " and the end are stored.",
    )

    @model_validator(mode="after")
    def _some_command(self) -> Self:
        if self.command is None and self.runtime not in PRESETS:
            close = get_close_matches(self.runtime, PRESETS, n=1)
            advice = f"did you mean the runtime {close[0]}?" if close else "set command, or a runtime that has one"
            raise ValueError(f"{self.id} has no command: {advice}")
        return self

    @property
    def words(self) -> tuple[Word, ...]:
        """The command followed by `arguments`."""
        return (*(PRESETS[self.runtime] if self.command is None else self.command), *self.arguments)


def each_agent_once(agents: list[Agent]) -> list[Agent]:
    """Validate that the ids are unique. Raises `ValueError`."""
    names = [agent.id for agent in agents]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"agents name {', '.join(twice)} more than once: keep one block for each agent")
    return agents
