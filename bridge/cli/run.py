"""`palaver run`: start a node and run it until it is stopped."""

import asyncio
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bridge.cli.output import ConfigFile, Json, Output, loaded
from bridge.config.config import Config, Log, is_loopback
from bridge.observability.log import configure_logging
from bridge.run import run as run_node


def run(path: ConfigFile = None, as_json: Json = False) -> None:
    """Start the node and run it until Ctrl-C or SIGTERM.

    Example: palaver run --config /etc/palaver/palaver.toml"""
    output = Output(as_json=as_json)
    found = loaded(path)
    settings = found.config.log
    configure_logging(settings if not as_json else Log(level=settings.level, format="json"))
    if found.path is None:
        output.note("There is no palaver.toml in this directory; starting with safe defaults and the agent echo.")
    progress = _StartSpinner(output)

    def announce(summary: Mapping[str, Any]) -> None:
        progress.end()
        steps = next_steps(found.config, summary, path)
        output.show(summary, lambda console: console.print(steps, markup=False))

    try:
        with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
            runner.run(run_node(found.config, step=progress.step, announce=announce))
    finally:
        progress.end()


class _StartSpinner:
    """Shows the current step of the start on a terminal. Elsewhere the log shows it."""

    def __init__(self, output: Output) -> None:
        terminal = output.err.is_terminal and not output.as_json
        self._status = output.err.status("Starting …") if terminal else None
        if self._status is not None:
            self._status.start()

    def step(self, what: str) -> None:
        if self._status is not None:
            self._status.update(f"Starting: {what} …")

    def end(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def event_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop if it is installed, otherwise None for asyncio's default."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def next_steps(config: Config, summary: Mapping[str, Any], path: Path | None = None) -> str:
    """The text that `palaver run` prints when the node has started. `path` is the option --config."""
    command = _command()
    option = "" if path is None else f" -c {shlex.quote(str(path))}"
    name = summary["server_name"]
    port = summary["addresses"][0].rpartition(":")[2]
    lines = ["", f"Palaver {summary['version']} is running as {name} on {', '.join(summary['addresses'])}.", ""]
    if "guest_of" in summary:
        lines += [
            f"  homeserver   {summary['guest_of']} at {summary['homeserver']}",
            f"  agents       {summary['ghosts']}",
        ]
    else:
        lines.append(f"  keys         https://localhost:{port}/_matrix/key/v2/server")
    lines.append(f"  health       http://localhost:{port}/health/ready")
    if summary["metrics"] is not None:
        lines.append(f"  metrics      {summary['metrics']}")
    lines += [
        f"  data         {summary['data_dir']} ({summary['database']['kind']} Postgres)",
        "",
        "Next, in another terminal:",
        *_first_task(config, summary, command, option),
        f"  {command} status{option}    show the state of the node",
        f"  {command} doctor{option}    find problems and how to fix them",
    ]
    if "guest_of" not in summary and is_loopback(config.server_name):
        lines += [
            f"  {command} init --server-name your.host.name",
            "                 write a configuration for a public node, then restart",
        ]
    if summary["certificate"] == "development":
        lines += ["", f"The node uses a development TLS certificate: curl --cacert {config.data_dir}/tls/ca.pem …"]
    return "\n".join([*lines, "", "Press Ctrl-C to stop.", ""])


def _first_task(config: Config, summary: Mapping[str, Any], command: str, option: str) -> list[str]:
    """A task for the first agent that the node runs itself."""
    if not config.agents:
        return []
    address = f"{config.agents[0].id}@{summary['server_name']}"
    return [f'  {command} task send{option} {address} "hello"', f"                 give the agent {address} a task"]


def _command() -> str:
    """The command as the user can type it in this directory."""
    path = Path(sys.argv[0])
    with_directory = path.is_absolute() and path.is_relative_to(Path.cwd())
    return str(path.relative_to(Path.cwd())) if with_directory else str(path)
