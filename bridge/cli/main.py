"""The command `palaver`.

The module of a command is imported when the command is used: importing a node takes a second, and most
commands only send a request to one.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from bridge.cli.output import Output
from bridge.config.files import BadConfig
from bridge.connectors.registry import CONNECTORS
from storage.errors import LocalError

# Commands in the order of `--help`: a module that has the command group `app`, or `module:function`.
MODULES: Final[Mapping[str, str]] = {
    "run": "bridge.cli.run:run",
    "init": "bridge.cli.config:init",
    "doctor": "bridge.cli.doctor:doctor",
    "status": "bridge.cli.status:status",
    "agents": "bridge.cli.agents",
    "agent": "bridge.cli.agent",
    **{name: module for connector in CONNECTORS for name, module in connector.commands.items()},
    "task": "bridge.cli.task",
    "route": "bridge.cli.task:route",
    "tail": "bridge.cli.status:tail",
    "peers": "bridge.cli.peers",
    "rooms": "bridge.cli.rooms",
    "portals": "bridge.cli.portals",
    "events": "bridge.cli.events",
    "queue": "bridge.cli.queue:queue",
    "audit": "bridge.cli.audit:audit",
    "config": "bridge.cli.config",
    "keys": "bridge.cli.keys",
    "registration": "bridge.cli.registration:registration",
    "migrate": "bridge.cli.db:migrate",
    "db": "bridge.cli.db",
}


class LazyGroup(TyperGroup):
    """Imports a command when it is needed."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(MODULES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        # For an unknown command all are imported, because Typer suggests similar names among those loaded.
        for name in [cmd_name] if cmd_name in MODULES else MODULES:
            if name not in self.commands:
                self.commands[name] = _load_command(name)
        return self.commands.get(cmd_name)


def _load_command(name: str) -> Any:
    path, _, function = MODULES[name].partition(":")
    module = import_module(path)
    if not function:
        module.app.info.name = name
        return typer.main.get_group(module.app)
    single = typer.Typer(add_completion=False)
    single.command(name)(getattr(module, function))
    return typer.main.get_command(single)


app = typer.Typer(
    name="palaver",
    help="A Matrix homeserver for software agents.",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"palaver {version('palaver')}")
        raise typer.Exit


@app.callback()
def palaver(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """A Matrix homeserver for software agents."""


def main() -> None:
    """Run a command. Errors that the operator can correct are shown as a message, without a traceback."""
    try:
        app()
    except LocalError as error:
        output = Output(as_json="--json" in sys.argv)
        try:
            output.fail(error, error.mistakes if isinstance(error, BadConfig) else None)
        except typer.Exit as exit_:
            sys.exit(exit_.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
