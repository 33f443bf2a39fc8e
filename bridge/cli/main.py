"""The command `palaver`.

A command is imported when it is called: importing a node takes a second, and most commands only ask one.
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

# In the order in which `--help` lists them: the module whose `app` the command is, or `module:function`.
MODULES: Final[Mapping[str, str]] = {
    "run": "bridge.cli.run:run",
    "init": "bridge.cli.config:init",
    "doctor": "bridge.cli.doctor:doctor",
    "status": "bridge.cli.status:status",
    "agents": "bridge.cli.agents",
    "agent": "bridge.cli.agent",
    **{name: module for one in CONNECTORS for name, module in one.commands.items()},
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


class OnDemand(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return list(MODULES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        # Of a word that is no command it is told which ones are written like it: those that are there.
        for name in [cmd_name] if cmd_name in MODULES else MODULES:
            if name not in self.commands:
                self.commands[name] = _command(name)
        return self.commands.get(cmd_name)


def _command(name: str) -> Any:
    path, _, function = MODULES[name].partition(":")
    module = import_module(path)
    if not function:
        module.app.info.name = name
        return typer.main.get_group(module.app)
    alone = typer.Typer(add_completion=False)
    alone.command(name)(getattr(module, function))
    return typer.main.get_command(alone)


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
