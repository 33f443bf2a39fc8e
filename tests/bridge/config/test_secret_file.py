"""A secret in a file of its own."""

from pathlib import Path

import pytest

from bridge.config.files import new_secret_file
from storage.errors import LocalError


def test_it_is_its_owners_alone(tmp_path: Path) -> None:
    """From the first moment on."""
    path = tmp_path / "token"
    with new_secret_file(path) as write:
        assert path.stat().st_mode & 0o777 == 0o600
        write("secret")
    assert path.read_text() == "secret\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    """There is no secret in it yet."""
    path = tmp_path / "token"
    with pytest.raises(KeyError), new_secret_file(path):
        raise KeyError
    assert not path.exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """No file, and nothing that a link leads to; and where nothing can be written it is said."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name, part in (("file", "already"), ("link", "already"), ("none/file", "can't be written")):
        with pytest.raises(LocalError, match=part), new_secret_file(tmp_path / name):
            pass
    assert (tmp_path / "file").read_text() == "mine"
    assert not (tmp_path / "elsewhere").exists()
