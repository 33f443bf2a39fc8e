"""Options that many commands share."""

from pathlib import Path

import pytest

from bridge.cli.output import loaded
from tests.bridge.cli.conftest import Palaver


def test_the_environment_may_name_the_file(palaver: Palaver, monkeypatch: pytest.MonkeyPatch) -> None:
    """PALAVER_CONFIG is the option, not a setting."""
    Path("elsewhere.toml").write_text('server_name = "kitchen.local"')
    monkeypatch.setenv("PALAVER_CONFIG", "elsewhere.toml")
    assert palaver("config", "show", "--json").json["server_name"] == "kitchen.local"


def test_no_option_means_the_file_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or none."""
    monkeypatch.chdir(tmp_path)
    assert loaded(None).path is None
    (tmp_path / "palaver.toml").write_text("")
    assert loaded(None).path == tmp_path / "palaver.toml"
