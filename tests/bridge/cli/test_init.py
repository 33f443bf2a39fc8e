"""`palaver init`."""

from pathlib import Path

import pytest

from bridge.config.agents import Agent
from bridge.config.config import Config
from bridge.config.files import load_config
from tests.bridge.cli.conftest import Palaver


def test_it_writes_a_working_configuration(palaver: Palaver) -> None:
    """With the given server name and an agent to try; all other settings have their defaults."""
    result = palaver("init", "--server-name", "kitchen.local")
    assert result.code == 0
    assert "palaver run" in result.out
    found = load_config(None, {}, Path.cwd())
    echo = Agent(id="echo", command=["cat"])
    assert found.config == Config(server_name="kitchen.local", agents=[echo]).relative_to(Path.cwd())


def test_it_does_not_overwrite_a_file(palaver: Palaver) -> None:
    """Unless --force is given."""
    Path("palaver.toml").write_text("mine = 1")
    result = palaver("init")
    assert (result.code, "--force" in result.err) == (1, True)
    assert Path("palaver.toml").read_text() == "mine = 1"
    assert palaver("init", "--force").code == 0


@pytest.mark.parametrize("name", ["not a name", "", "kitchen.local:", "a/b", "ü.local"])
def test_an_invalid_name_writes_nothing(palaver: Palaver, name: str) -> None:
    """The mistake is reported as for a file."""
    result = palaver("init", "--server-name", name, "--json")
    assert result.code == 1
    assert "server_name" in result.json["error"]["mistakes"][0]["where"]
    assert not Path("palaver.toml").exists()


def test_an_unwritable_path_is_an_error(palaver: Palaver) -> None:
    """Without a traceback."""
    result = palaver("init", "--config", "absent/palaver.toml")
    assert (result.code, "can't be written" in result.err) == (1, True)
