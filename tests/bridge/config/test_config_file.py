"""Finding and reading the configuration file."""

from pathlib import Path

import pytest

from bridge.config.agents import Agent
from bridge.config.config import Config
from bridge.config.files import BadConfig, load_config, read_secret
from storage.errors import LocalError


def test_without_a_file_the_defaults_apply(tmp_path: Path) -> None:
    """`palaver run` in an empty directory starts a working node, with an agent to try."""
    found = load_config(None, {}, tmp_path)
    assert found.path is None
    assert found.config == Config(agents=[Agent(id="echo", command=["cat"])]).relative_to(tmp_path)
    assert load_config(None, {"PALAVER_AGENTS": "[]"}, tmp_path).config == Config().relative_to(tmp_path)


def test_palaver_toml_in_the_directory_is_read(tmp_path: Path) -> None:
    """This is the default of the option --config."""
    (tmp_path / "palaver.toml").write_text('server_name = "kitchen.local"')
    found = load_config(None, {}, tmp_path)
    assert found.path == tmp_path / "palaver.toml"
    assert found.config.server_name == "kitchen.local"


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    """The defaults would start another node than the one that was named."""
    with pytest.raises(LocalError, match="palaver init"):
        load_config(tmp_path / "absent.toml", {}, tmp_path)


def test_an_error_has_all_mistakes(tmp_path: Path) -> None:
    """In its text, and as a list for programs."""
    path = tmp_path / "palaver.toml"
    path.write_text("a = 1\nb = 2\n")
    with pytest.raises(BadConfig, match="2 mistakes") as caught:
        load_config(path, {}, tmp_path)
    assert [mistake.where for mistake in caught.value.mistakes] == ["a (line 1)", "b (line 2)"]
    assert "a (line 1)" in str(caught.value)


def test_without_a_file_the_environment_is_named(tmp_path: Path) -> None:
    """The error does not name a file that does not exist."""
    with pytest.raises(BadConfig, match="environment has one mistake"):
        load_config(None, {"PALAVER_X": "1"}, tmp_path)


def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    """A directory, or bytes that are not UTF-8."""
    with pytest.raises(LocalError, match="can't be read"):
        load_config(tmp_path, {}, tmp_path)
    (tmp_path / "x").write_bytes(b"\xff")
    with pytest.raises(LocalError, match="not UTF-8"):
        load_config(tmp_path / "x", {}, tmp_path)


def test_a_secret_is_the_content_of_its_file(tmp_path: Path) -> None:
    """Without the trailing newline that editors add, but with other whitespace."""
    (tmp_path / "secret").write_text(" hunter2 \n")
    assert read_secret(tmp_path / "secret", "password") == " hunter2 "


def test_a_missing_or_empty_secret_is_an_error(tmp_path: Path) -> None:
    """The error names the file."""
    with pytest.raises(LocalError, match="no such file"):
        read_secret(tmp_path / "absent", "password")
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(LocalError, match="is empty"):
        read_secret(tmp_path / "empty", "password")
