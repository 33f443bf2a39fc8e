"""`palaver config`."""

from pathlib import Path

import pytest

from bridge.cli.config import as_toml
from bridge.config.config import Config
from bridge.config.errors import read_config
from bridge.config.example import render
from tests.bridge.cli.conftest import Palaver


def test_show_is_the_settings_in_force(palaver: Palaver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file, and the environment over it."""
    Path("palaver.toml").write_text('server_name = "kitchen.local"\n[listener]\nport = 7000\n')
    monkeypatch.setenv("PALAVER_LISTENER__PORT", "7001")
    said = palaver("config", "show", "--json")
    assert (said.json["server_name"], said.json["listener"]["port"]) == ("kitchen.local", 7001)
    assert "port = 7001" in palaver("config", "show").out


def test_what_is_shown_is_a_configuration_again() -> None:
    """A person may copy it into a file."""
    config = Config.model_validate(
        {
            "listener": {"hosts": ["::1"], "max_body_size": "1MiB"},
            "database": {"url": "postgresql://db/palaver"},
            "peers": [{"server_name": "a", "plain": True, "networks": ["192.0.2.1"]}, {"server_name": "b"}],
            "agents": [{"id": "worker-1", "runtime": "claude", "namespaces": ["main"]}],
            "agent_federation": {"room": {"namespace": "main"}, "peers": [{"node_id": "kitchen.local"}]},
            "offices": {"rules": [{"office": "lab", "approval": "ask"}, {"approval": "deny"}]},
        }
    )
    assert read_config(as_toml(config), {}) == config


def test_check_is_content_or_tells_everything(palaver: Palaver) -> None:
    """The exit code says which."""
    assert "No mistakes" in palaver("config", "check").out
    Path("palaver.toml").write_text("a = 1\nb = 2\n")
    said = palaver("config", "check")
    assert said.code == 1
    assert "a (line 1)" in said.err
    assert "b (line 2)" in said.err


def test_example_is_the_example(palaver: Palaver) -> None:
    """To the byte, so that it can be redirected into the file."""
    assert palaver("config", "example").out == render()
    assert palaver("config", "example", "--json").json == {"text": render()}
