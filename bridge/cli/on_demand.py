"""Which commands there are. A command is imported when it is called: a node takes a second, and most do
no more than ask one.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperGroup

# In the order in which `--help` lists them. Each is `app` or a function of its own name.
MODULES: Final[Mapping[str, str]] = {
    name: f"bridge.cli.{name}"
    for name in (
        "run",
        "init",
        "doctor",
        "status",
        "agents",
        "agent",
        "offices",
        "task",
        "route",
        "tail",
        "peers",
        "rooms",
        "portals",
        "events",
        "queue",
        "audit",
        "config",
        "keys",
        "registration",
        "migrate",
        "db",
    )
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
    module = import_module(MODULES[name])
    app: typer.Typer | None = getattr(module, "app", None)
    if app is not None:
        app.info.name = name
        return typer.main.get_group(app)
    alone = typer.Typer(add_completion=False)
    alone.command(name)(getattr(module, name))
    return typer.main.get_command(alone)
