"""`palaver init`."""

from pathlib import Path

import pytest

from bridge.config.config import Config
from bridge.config.files import load_config
from tests.bridge.cli.conftest import Palaver


def test_it_writes_a_configuration_that_works(palaver: Palaver) -> None:
    """With the name that was asked for, all else as it is without a file."""
    said = palaver("init", "--server-name", "kitchen.local")
    assert said.code == 0
    assert "palaver run" in said.out
    found = load_config(None, {}, Path.cwd())
    assert found.config == Config(server_name="kitchen.local").relative_to(Path.cwd())


def test_it_does_not_write_over_a_file(palaver: Palaver) -> None:
    """Unless it is told to."""
    Path("palaver.toml").write_text("mine = 1")
    said = palaver("init")
    assert (said.code, "--force" in said.err) == (1, True)
    assert Path("palaver.toml").read_text() == "mine = 1"
    assert palaver("init", "--force").code == 0


@pytest.mark.parametrize("name", ["not a name", "", "kitchen.local:", "a/b", "ü.local"])
def test_a_wrong_name_writes_nothing(palaver: Palaver, name: str) -> None:
    """The mistake is told as it would be in the file."""
    said = palaver("init", "--server-name", name, "--json")
    assert said.code == 1
    assert "server_name" in said.json["error"]["mistakes"][0]["where"]
    assert not Path("palaver.toml").exists()


def test_a_place_that_cannot_be_written_is_told(palaver: Palaver) -> None:
    """Not as a traceback."""
    said = palaver("init", "--config", "absent/palaver.toml")
    assert (said.code, "can't be written" in said.err) == (1, True)
