"""Finding and reading the configuration."""

from pathlib import Path

import pytest

from bridge.config.config import Config
from bridge.config.files import BadConfig, load_config, read_secret
from storage.errors import LocalError


def test_without_any_file_the_defaults_hold(tmp_path: Path) -> None:
    """`palaver run` in an empty directory is a working node."""
    found = load_config(None, {}, tmp_path)
    assert found.path is None
    assert found.config == Config().relative_to(tmp_path)


def test_the_file_in_the_directory_is_taken(tmp_path: Path) -> None:
    """With no option, `palaver.toml` where the person stands."""
    (tmp_path / "palaver.toml").write_text('server_name = "kitchen.local"')
    found = load_config(None, {}, tmp_path)
    assert found.path == tmp_path / "palaver.toml"
    assert found.config.server_name == "kitchen.local"


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    """Falling back to the defaults would start a node that nobody asked for."""
    with pytest.raises(LocalError, match="palaver init"):
        load_config(tmp_path / "absent.toml", {}, tmp_path)


def test_all_mistakes_are_in_the_sentence(tmp_path: Path) -> None:
    """And apart, for programs."""
    path = tmp_path / "palaver.toml"
    path.write_text("a = 1\nb = 2\n")
    with pytest.raises(BadConfig, match="2 mistakes") as caught:
        load_config(path, {}, tmp_path)
    assert [mistake.where for mistake in caught.value.mistakes] == ["a (line 1)", "b (line 2)"]
    assert "a (line 1)" in str(caught.value)


def test_a_mistake_in_the_environment_alone(tmp_path: Path) -> None:
    """The sentence blames no file when there is none."""
    with pytest.raises(BadConfig, match="environment has one mistake"):
        load_config(None, {"PALAVER_X": "1"}, tmp_path)


def test_what_is_no_readable_text_is_told(tmp_path: Path) -> None:
    """A directory, or bytes that are not UTF-8."""
    with pytest.raises(LocalError, match="can't be read"):
        load_config(tmp_path, {}, tmp_path)
    (tmp_path / "x").write_bytes(b"\xff")
    with pytest.raises(LocalError, match="not UTF-8"):
        load_config(tmp_path / "x", {}, tmp_path)


def test_a_secret_is_the_text_of_its_file(tmp_path: Path) -> None:
    """Without the newline that an editor adds, with the blanks that belong to it."""
    (tmp_path / "secret").write_text(" hunter2 \n")
    assert read_secret(tmp_path / "secret", "password") == " hunter2 "


def test_a_missing_or_empty_secret_is_told(tmp_path: Path) -> None:
    """By the file's name."""
    with pytest.raises(LocalError, match="no such file"):
        read_secret(tmp_path / "absent", "password")
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(LocalError, match="is empty"):
        read_secret(tmp_path / "empty", "password")
