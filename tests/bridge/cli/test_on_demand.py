"""The modules of commands are imported when they are needed."""

import subprocess
import sys

import pytest
from typer.main import get_group

from bridge.cli.main import MODULES, app

# Of the node, and of libraries that only a node uses.
NODE_MODULES = {"federation.homeserver", "asyncpg", "dns", "mautrix", "redis", "socketio", "zenoh"}


@pytest.mark.parametrize("name", MODULES)
def test_every_command_can_be_imported(name: str) -> None:
    """It has its name and a help text."""
    command = get_group(app).get_command(None, name)  # type: ignore[arg-type]  # the context is not used
    assert command is not None
    assert command.name == name
    assert command.get_short_help_str()


def test_an_unknown_command_does_not_exist() -> None:
    """Nor does the name of a module."""
    assert get_group(app).get_command(None, "on_demand") is None  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize(
    "words", [["--version"], ["route", "--help"], ["task", "--help"], ["peers", "--help"], ["offices", "--help"]]
)
def test_a_client_command_does_not_import_the_node(words: list[str]) -> None:
    """The import would take longer than the command."""
    code = (
        "import sys; from bridge.cli.main import app\n"
        "try: app(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        f"sys.exit(', '.join({NODE_MODULES!r} & sys.modules.keys()))"
    )
    ran = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert ran.stderr.strip() == ""
