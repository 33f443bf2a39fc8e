"""A command is imported when it is called, and all of them can be."""

import subprocess
import sys

import pytest
from typer.main import get_group

from bridge.cli.main import MODULES, app

NEVER_ASKED = "federation.homeserver"


@pytest.mark.parametrize("name", MODULES)
def test_every_command_is_there(name: str) -> None:
    """Under its name, and with a sentence that says what it does."""
    command = get_group(app).get_command(None, name)  # type: ignore[arg-type]  # nobody asks it anything
    assert command is not None
    assert command.name == name
    assert command.get_short_help_str()


def test_what_is_no_command_is_none() -> None:
    """And is no module either."""
    assert get_group(app).get_command(None, "on_demand") is None  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize(
    "words", [["--version"], ["route", "--help"], ["task", "--help"], ["peers", "--help"]]
)
def test_who_only_asks_a_node_does_not_load_one(words: list[str]) -> None:
    """It would take longer than the answer."""
    code = (
        "import sys; from bridge.cli.main import app\n"
        "try: app(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        f"sys.exit({NEVER_ASKED!r} in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code, *words], stdout=subprocess.DEVNULL, check=False)
    assert ran.returncode == 0
