"""Putting the commands together."""

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from bridge.cli.agent import app as agent
from bridge.cli.agents import app as agents
from bridge.cli.audit import audit
from bridge.cli.config import app as config
from bridge.cli.db import app as db
from bridge.cli.doctor import doctor
from bridge.cli.events import app as events
from bridge.cli.init import init
from bridge.cli.keys import app as keys
from bridge.cli.migrate import migrate
from bridge.cli.output import Output
from bridge.cli.peers import app as peers
from bridge.cli.queue import queue
from bridge.cli.rooms import app as rooms
from bridge.cli.route import route
from bridge.cli.run import run
from bridge.cli.status import status
from bridge.cli.tail import tail
from bridge.cli.task import app as task
from bridge.service.config_file import BadConfig
from storage.errors import LocalError

app = typer.Typer(
    name="palaver",
    help="A Matrix homeserver for software agents.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run)
app.command("init")(init)
app.command("doctor")(doctor)
app.command("status")(status)
app.command("migrate")(migrate)
app.command("queue")(queue)
app.command("audit")(audit)
app.command("route")(route)
app.command("tail")(tail)
app.add_typer(config, name="config")
app.add_typer(keys, name="keys")
app.add_typer(db, name="db")
app.add_typer(agents, name="agents")
app.add_typer(agent, name="agent")
app.add_typer(task, name="task")
app.add_typer(peers, name="peers")
app.add_typer(rooms, name="rooms")
app.add_typer(events, name="events")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"palaver {version('palaver')}")
        raise typer.Exit


@app.callback()
def palaver(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """A Matrix homeserver for software agents."""


def main() -> None:
    """Run a command; what the operator can put right is told in a sentence, never as a traceback."""
    try:
        app()
    except LocalError as error:
        output = Output(as_json="--json" in sys.argv)
        try:
            output.fail(error, error.mistakes if isinstance(error, BadConfig) else None)
        except typer.Exit as leave:
            sys.exit(leave.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
