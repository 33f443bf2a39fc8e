"""Putting the commands together."""

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from bridge.cli.on_demand import OnDemand
from bridge.cli.output import Output
from bridge.service.config_file import BadConfig
from storage.errors import LocalError

app = typer.Typer(
    name="palaver",
    help="A Matrix homeserver for software agents.",
    cls=OnDemand,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
