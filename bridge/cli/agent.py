"""`palaver agent run`: be an agent of a node, from this machine or another, and run a command for each
task."""

import asyncio
import os
import signal
import ssl
from pathlib import Path
from typing import Annotated

import typer

from bridge.agents.address import wrong_agent_id
from bridge.agents.agent import NoCapabilities, read_capabilities
from bridge.agents.attached.runner import AgentRunner, Offer
from bridge.agents.attached.runner_connection import Place
from bridge.agents.attached.tokens import read_token
from bridge.agents.local.command import PRESETS, Word, own_environment, runtime_type, unknown_placeholder
from bridge.agents.local.health import problem_of
from bridge.agents.local.process import Recipe
from bridge.cli.output import ConfigFile, Output, loaded
from bridge.clock import now_ms
from bridge.config.agent_federation import node_url
from bridge.config.agents import RUNTIME
from bridge.config.config import Config
from bridge.config.files import read_secret
from bridge.text.terminal import harmless
from storage.errors import LocalError

app = typer.Typer(help="Be an agent of a node.", no_args_is_help=True)

MOST_OUTPUT = 1024 * 1024
"""Bytes, of one answer. The node keeps no more."""


@app.callback()
def agent() -> None:
    """Be an agent of a node."""


@app.command("run")
def run(
    agent_id: Annotated[str, typer.Option("--id", help="The agent's id, without its node.")],
    token_file: Annotated[Path, typer.Option("--token-file", help="The file that holds the agent's token.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(help="The command, behind `--`. Left out: that of the runtime.", show_default=False),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url", help="Where the node is. Left out: the node of this machine, by its configuration."
        ),
    ] = None,
    authority: Annotated[
        Path | None,
        typer.Option(
            "--authority",
            help="A certificate to believe, PEM: for a development one the node's `tls/ca.pem`.",
        ),
    ] = None,
    runtime: Annotated[
        str, typer.Option("--runtime", help="What it is: claude, opencode, kimi, aider, …")
    ] = "command",
    capability: Annotated[
        list[str] | None, typer.Option("--capability", help="What it can do; may be given again.")
    ] = None,
    parallel: Annotated[int, typer.Option("--parallel", min=1, max=64, help="Tasks at the same time.")] = 1,
    queue: Annotated[
        int, typer.Option("--queue", min=0, max=10_000, help="Tasks that may wait; 0 refuses while busy.")
    ] = 100,
    time_limit: Annotated[float, typer.Option("--time-limit", min=1, help="Seconds for one task.")] = 300.0,
    directory: Annotated[
        Path, typer.Option("--directory", "-C", help="The directory that the command works in.")
    ] = Path(),
    pass_environment: Annotated[
        list[str] | None,
        typer.Option("--pass-environment", help="A variable to pass on to the command; may be given again."),
    ] = None,
    path: ConfigFile = None,
) -> None:
    """Run COMMAND for each task: the prompt on its standard input, everything else in variables
    PALAVER_TASK_…, the answer on its standard output, progress on its standard error.

    SIGTERM or Ctrl-C finishes what is under way; a second one ends it."""
    token = read_secret(token_file, "token")
    if read_token(token) is None:
        raise LocalError(
            f"What {token_file} holds is no token of an agent.", "`palaver agents token create` makes one."
        )
    recipe = Recipe(
        words=_words(command, runtime),
        environment=own_environment(os.environ, pass_environment or [], {}),
        directory=directory.resolve(),
        time_limit=time_limit,
        max_output=MOST_OUTPUT,
    )
    problem = problem_of(recipe)
    if problem is not None:
        raise LocalError(problem, "Name a command that can be run here, and the directory for it with -C.")
    place = Place(
        url=_url(url) if url is not None else _local_url(loaded(path).config),
        agent_id=_id(agent_id),
        token=token,
        tls=_tls(authority),
    )
    offer = Offer(_runtime(runtime), _capabilities(capability), parallel, queue)
    output = Output(as_json=False)
    runner = AgentRunner(
        place, offer, recipe, now_ms=now_ms, say=lambda said: output.err.print(harmless(said), markup=False)
    )
    asyncio.run(_run(runner))


async def _run(runner: AgentRunner) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, runner.leave)
    await runner.run()


def _words(command: list[str] | None, runtime: str) -> tuple[Word, ...]:
    if not command:
        known = PRESETS.get(runtime_type(runtime))
        if known is None:
            raise LocalError(
                "What is to be run?", "Write the command behind --, or name a --runtime that is known."
            )
        return known
    unknown = unknown_placeholder(command)
    if unknown is not None:
        raise LocalError(
            f"The command has {{{unknown}}}, for which nothing is put.",
            f"Write {{{{{unknown}}}}} for the text itself.",
        )
    return tuple(command)


def _id(agent_id: str) -> str:
    wrong = wrong_agent_id(agent_id)
    if wrong is not None:
        raise LocalError(f"There can be no agent of this id. {wrong}", "Give the id without its node.")
    return agent_id


def _runtime(name: str) -> str:
    if RUNTIME.fullmatch(name) is None:
        raise LocalError(
            f"{name} is not the name of a runtime.", "It has 1 to 64 of a-z, 0-9, '.', '_' and '-'."
        )
    return runtime_type(name)


def _capabilities(said: list[str] | None) -> tuple[str, ...]:
    read = read_capabilities(said or ["task_execution", "messaging"])
    if isinstance(read, NoCapabilities):
        raise LocalError(
            f"These are no capabilities: {read.reason}.", "Give each with a --capability of its own."
        )
    return read


def _url(said: str) -> str:
    try:
        return node_url(said)
    except ValueError as error:
        problem, _, advice = str(error).partition(": ")
        raise LocalError(f"{said} {problem}.", f"{advice[:1].upper()}{advice[1:]}.") from None


def _local_url(config: Config) -> str:
    """Plain HTTP reaches it from this machine alone."""
    return f"http://localhost:{config.listener.port}"


def _tls(authority: Path | None) -> ssl.SSLContext | None:
    if authority is None:
        return None
    try:
        return ssl.create_default_context(cafile=authority)
    except OSError as error:
        why = "it holds none in PEM" if isinstance(error, ssl.SSLError) else (error.strerror or "").lower()
        raise LocalError(
            f"The certificate {authority} can't be used: {why}.", "Name a certificate of an authority."
        ) from None
