"""New files that contain a secret."""

from pathlib import Path

import pytest

from bridge.config.files import new_secret_file
from storage.errors import LocalError


def test_only_its_owner_can_read_the_file(tmp_path: Path) -> None:
    """This is true before the secret is written to it."""
    path = tmp_path / "token"
    with new_secret_file(path) as write:
        assert path.stat().st_mode & 0o777 == 0o600
        write("secret")
    assert path.read_text() == "secret\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_failed_block_removes_the_file(tmp_path: Path) -> None:
    """The file has no secret yet."""
    path = tmp_path / "token"
    with pytest.raises(KeyError), new_secret_file(path):
        raise KeyError
    assert not path.exists()


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    """Nor the target of a link. A file that cannot be created is an error."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name, part in (("file", "already"), ("link", "already"), ("none/file", "can't be written")):
        with pytest.raises(LocalError, match=part), new_secret_file(tmp_path / name):
            pass
    assert (tmp_path / "file").read_text() == "mine"
    assert not (tmp_path / "elsewhere").exists()
