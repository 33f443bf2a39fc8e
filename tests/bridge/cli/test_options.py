"""Options that many commands share."""

from pathlib import Path

import pytest

from bridge.cli.output import loaded
from tests.bridge.cli.conftest import Palaver


def test_the_environment_can_name_the_file(palaver: Palaver, monkeypatch: pytest.MonkeyPatch) -> None:
    """PALAVER_CONFIG is the option --config, not a setting."""
    Path("elsewhere.toml").write_text('server_name = "kitchen.local"')
    monkeypatch.setenv("PALAVER_CONFIG", "elsewhere.toml")
    assert palaver("config", "show", "--json").json["server_name"] == "kitchen.local"


def test_without_the_option_the_file_in_the_directory_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If there is one."""
    monkeypatch.chdir(tmp_path)
    assert loaded(None).path is None
    (tmp_path / "palaver.toml").write_text("")
    assert loaded(None).path == tmp_path / "palaver.toml"
