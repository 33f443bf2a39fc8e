"""`palaver db`."""

from pathlib import Path

import pytest

from storage.connect import DatabaseAddress
from tests.bridge.cli.conftest import Palaver


def test_a_dump_does_not_overwrite_a_file(
    palaver: Palaver, database_address: DatabaseAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless --force is given."""
    monkeypatch.setenv("PALAVER_DATABASE__URL", database_address.url)
    assert palaver("db", "dump", "saved").code == 0
    result = palaver("db", "dump", "saved")
    assert (result.code, "--force" in result.err) == (1, True)
    assert palaver("db", "dump", "saved", "--force").code == 0
    assert Path("saved").stat().st_mode & 0o077 == 0


def test_a_restore_into_a_database_with_data_is_refused(
    palaver: Palaver, database_address: DatabaseAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless --replace is given."""
    monkeypatch.setenv("PALAVER_DATABASE__URL", database_address.url)
    assert palaver("db", "dump", "saved").code == 0
    result = palaver("db", "restore", "saved", "--json")
    assert (result.code, "not empty" in result.json["error"]["problem"]) == (1, True)
    assert palaver("db", "restore", "saved", "--replace").code == 0


def test_an_invalid_dump_is_an_error(
    palaver: Palaver, database_address: DatabaseAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is not changed."""
    monkeypatch.setenv("PALAVER_DATABASE__URL", database_address.url)
    Path("junk").write_text("junk")
    for name in ("junk", "absent"):
        result = palaver("db", "restore", name, "--replace")
        assert result.code == 1
        assert name in result.err


def test_shell_runs_psql_and_returns_its_exit_code(
    palaver: Palaver, database_address: DatabaseAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arguments after the two dashes are passed to psql."""
    monkeypatch.setenv("PALAVER_DATABASE__URL", database_address.url)
    result = palaver("db", "shell", "--", "-At", "-c", "SELECT 6 * 7")
    assert (result.code, result.out) == (0, "42\n")
    assert palaver("db", "shell", "--", "-c", "nonsense").code == 1
    assert palaver("db", "shell", "--json").code == 1
