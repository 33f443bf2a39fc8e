"""`palaver run`: start a node, and stay until it is stopped."""

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
    """Start the node, and stay until it is stopped (Ctrl-C, or SIGTERM)."""
    output = Output(as_json=as_json)
    found = loaded(path)
    settings = found.config.log
    configure_logging(settings if not as_json else Log(level=settings.level, format="json"))
    if found.path is None:
        output.say("There is no palaver.toml here; starting with safe defaults.")
    progress = _Starting(output)

    def announce(summary: Mapping[str, Any]) -> None:
        progress.end()
        steps = next_steps(found.config, summary, path)
        output.show(summary, lambda console: console.print(steps, markup=False))

    try:
        with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
            runner.run(run_node(found.config, step=progress.step, announce=announce))
    finally:
        progress.end()


class _Starting:
    """On a terminal a spinner says what the start is at; elsewhere the log says it."""

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
    """uvloop where it installs; the rest of the node does not know the difference."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def next_steps(config: Config, summary: Mapping[str, Any], path: Path | None = None) -> str:
    """What a person reads when the node runs. `path`: the configuration, if it was named."""
    command = _command()
    option = "" if path is None else f" -c {shlex.quote(str(path))}"
    name = summary["server_name"]
    port = summary["addresses"][0].rpartition(":")[2]
    lines = [
        "",
        f"Palaver {summary['version']} is running as {name} on {', '.join(summary['addresses'])}.",
        "",
    ]
    if "guest_of" in summary:
        lines += [
            f"  a guest of   {summary['guest_of']} at {summary['homeserver']}",
            f"  its agents   {summary['ghosts']}",
        ]
    else:
        lines.append(f"  its keys     https://localhost:{port}/_matrix/key/v2/server")
    lines.append(f"  its health   http://localhost:{port}/health/ready")
    if summary["metrics"] is not None:
        lines.append(f"  its figures  {summary['metrics']}")
    lines += [
        f"  its data     {summary['data_dir']} ({summary['database']['kind']} Postgres)",
        "",
        "What to do next, in another terminal:",
        f"  {command} status{option}    what it says of itself",
        f"  {command} doctor{option}    what is wrong, and what to do about it",
    ]
    if "guest_of" not in summary and is_loopback(config.server_name):
        lines += [
            f"  {command} init --server-name your.host.name",
            "                 a configuration for a node that others can reach (then start again)",
        ]
    if summary["certificate"] == "development":
        lines += [
            "",
            f"Its TLS certificate is a development one: curl --cacert {config.data_dir}/tls/ca.pem …",
        ]
    return "\n".join([*lines, "", "Ctrl-C stops it.", ""])


def _command() -> str:
    """This command as the person can type it again."""
    path = Path(sys.argv[0])
    with_directory = path.is_absolute() and path.is_relative_to(Path.cwd())
    return str(path.relative_to(Path.cwd())) if with_directory else str(path)
