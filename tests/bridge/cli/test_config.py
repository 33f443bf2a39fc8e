"""`palaver config`."""

from pathlib import Path

import pytest

from bridge.cli.config import as_toml
from bridge.config.config import Config
from bridge.config.errors import read_config
from bridge.config.example import render
from tests.bridge.cli.conftest import Palaver


def test_show_prints_the_effective_settings(palaver: Palaver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment overrides the file."""
    Path("palaver.toml").write_text('server_name = "kitchen.local"\n[listener]\nport = 7000\n')
    monkeypatch.setenv("PALAVER_LISTENER__PORT", "7001")
    result = palaver("config", "show", "--json")
    assert (result.json["server_name"], result.json["listener"]["port"]) == ("kitchen.local", 7001)
    assert "port = 7001" in palaver("config", "show").out


def test_the_output_of_show_is_a_valid_configuration() -> None:
    """It can be copied to a file."""
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


def test_check_reports_all_mistakes(palaver: Palaver) -> None:
    """The exit code is 1 if there are any."""
    assert "No mistakes" in palaver("config", "check").out
    Path("palaver.toml").write_text("a = 1\nb = 2\n")
    result = palaver("config", "check")
    assert result.code == 1
    assert "a (line 1)" in result.err
    assert "b (line 2)" in result.err


def test_example_prints_the_example(palaver: Palaver) -> None:
    """Byte for byte, so that it can be redirected to the file."""
    assert palaver("config", "example").out == render()
    assert palaver("config", "example", "--json").json == {"text": render()}
