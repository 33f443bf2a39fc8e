"""`palaver agent run`: attach to a node as an agent, from this machine or another, and run a command for each
task."""

import asyncio
import os
import signal
import ssl
from pathlib import Path
from typing import Annotated

import typer

from bridge.agents.address import agent_id_problem
from bridge.agents.agent import InvalidCapabilities, parse_capabilities
from bridge.agents.attached.runner import AgentDescription, AgentRunner
from bridge.agents.attached.runner_connection import AgentEndpoint
from bridge.agents.attached.tokens import parse_token
from bridge.agents.local.command import PRESETS, Word, agent_environment, runtime_type, unknown_placeholder
from bridge.agents.local.health import problem_of
from bridge.agents.local.process import CommandSettings
from bridge.cli.output import ConfigFile, Output, loaded
from bridge.clock import now_ms
from bridge.config.agent_federation import node_url
from bridge.config.agents import RUNTIME
from bridge.config.config import Config
from bridge.config.files import read_secret
from bridge.text.terminal import harmless
from storage.errors import LocalError

app = typer.Typer(help="Run a command as an agent of a node.", no_args_is_help=True)

MAX_OUTPUT = 1024 * 1024
"""Maximum bytes of one answer. The node stores no more."""


@app.callback()
def agent() -> None:
    """Run a command as an agent of a node."""


@app.command("run")
def run(
    agent_id: Annotated[str, typer.Option("--id", help="The agent's id, without the node.")],
    token_file: Annotated[Path, typer.Option("--token-file", help="The file that holds the agent's token.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(help="The command, after `--`. Default: the runtime's command.", show_default=False),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option("--url", help="The node's URL. Default: the node of the configuration on this machine."),
    ] = None,
    authority: Annotated[
        Path | None,
        typer.Option(
            "--authority",
            help="A certificate authority to trust, in PEM format. For a development certificate: the node's"
            " `tls/ca.pem`.",
        ),
    ] = None,
    runtime: Annotated[
        str, typer.Option("--runtime", help="The agent's runtime: claude, opencode, kimi, aider, …")
    ] = "command",
    capability: Annotated[
        list[str] | None, typer.Option("--capability", help="A capability that the agent announces. Repeatable.")
    ] = None,
    parallel: Annotated[
        int, typer.Option("--parallel", min=1, max=64, help="Maximum number of simultaneous tasks.")
    ] = 1,
    queue: Annotated[
        int,
        typer.Option(
            "--queue",
            min=0,
            max=10_000,
            help="Maximum number of queued tasks. With 0 tasks are refused while the agent is busy.",
        ),
    ] = 100,
    time_limit: Annotated[float, typer.Option("--time-limit", min=1, help="Maximum seconds for one task.")] = 300.0,
    directory: Annotated[
        Path, typer.Option("--directory", "-C", help="The working directory of the command.")
    ] = Path(),
    pass_environment: Annotated[
        list[str] | None,
        typer.Option("--pass-environment", help="An environment variable to pass on to the command. Repeatable."),
    ] = None,
    path: ConfigFile = None,
) -> None:
    """Attach to a node as an agent and run COMMAND for each task. COMMAND reads the prompt from standard
    input and everything else from variables PALAVER_TASK_…. It writes the answer to standard output and
    progress to standard error.

    On SIGTERM or Ctrl-C the agent accepts no more tasks, finishes those that run and exits. A second signal
    ends them at once.

    Example: palaver agent run --id worker-1 --token-file worker-1.token -- python3 worker.py"""
    token = read_secret(token_file, "token")
    if parse_token(token) is None:
        raise LocalError(
            f"The file {token_file} does not contain an agent's token.",
            "`palaver agents token create` creates a token.",
        )
    recipe = CommandSettings(
        words=_words(command, runtime),
        environment=agent_environment(os.environ, pass_environment or [], {}),
        directory=directory.resolve(),
        time_limit=time_limit,
        max_output=MAX_OUTPUT,
    )
    problem = problem_of(recipe)
    if problem is not None:
        raise LocalError(problem, "Name a command that can run on this machine, and its working directory with -C.")
    place = AgentEndpoint(
        url=_url(url) if url is not None else _local_url(loaded(path).config),
        agent_id=_id(agent_id),
        token=token,
        tls=_tls(authority),
    )
    offer = AgentDescription(_runtime(runtime), _capabilities(capability), parallel, queue)
    output = Output(as_json=False)
    runner = AgentRunner(
        place, offer, recipe, now_ms=now_ms, report=lambda said: output.err.print(harmless(said), markup=False)
    )
    asyncio.run(_run(runner))


async def _run(runner: AgentRunner) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, runner.stop)
    await runner.run()


def _words(command: list[str] | None, runtime: str) -> tuple[Word, ...]:
    if not command:
        known = PRESETS.get(runtime_type(runtime))
        if known is None:
            raise LocalError(
                "There is no command to run.",
                "Write the command after --, or name a --runtime that has a default command.",
            )
        return known
    unknown = unknown_placeholder(command)
    if unknown is not None:
        raise LocalError(
            f"The command has the unknown placeholder {{{unknown}}}.", f"Write {{{{{unknown}}}}} for the literal text."
        )
    return tuple(command)


def _id(agent_id: str) -> str:
    wrong = agent_id_problem(agent_id)
    if wrong is not None:
        raise LocalError(f"The id is not valid. {wrong}", "Give the agent's id without the node.")
    return agent_id


def _runtime(name: str) -> str:
    if RUNTIME.fullmatch(name) is None:
        raise LocalError(f"{name} is not the name of a runtime.", "Use 1 to 64 of a-z, 0-9, '.', '_' and '-'.")
    return runtime_type(name)


def _capabilities(names: list[str] | None) -> tuple[str, ...]:
    read = parse_capabilities(names or ["task_execution", "messaging"])
    if isinstance(read, InvalidCapabilities):
        raise LocalError(f"The capabilities are not valid: {read.reason}.", "Give each one with its own --capability.")
    return read


def _url(text: str) -> str:
    try:
        return node_url(text)
    except ValueError as error:
        problem, _, advice = str(error).partition(": ")
        raise LocalError(f"{text} {problem}.", f"{advice[:1].upper()}{advice[1:]}.") from None


def _local_url(config: Config) -> str:
    """Plain HTTP is safe here: the connection does not leave this machine."""
    return f"http://localhost:{config.listener.port}"


def _tls(authority: Path | None) -> ssl.SSLContext | None:
    if authority is None:
        return None
    try:
        return ssl.create_default_context(cafile=authority)
    except OSError as error:
        why = (
            "it contains no certificate in PEM format"
            if isinstance(error, ssl.SSLError)
            else (error.strerror or "").lower()
        )
        raise LocalError(
            f"The certificate {authority} can't be used: {why}.",
            "Name a PEM file with the certificate of an authority.",
        ) from None
