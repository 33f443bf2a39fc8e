"""`palaver db`."""

from pathlib import Path

import pytest

from storage.connect import DatabaseAddress
from tests.bridge.cli.conftest import Palaver


def test_a_dump_is_kept_from_being_written_over(
    palaver: Palaver, database_address: DatabaseAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saved once; a second time only when told to."""
    monkeypatch.setenv("PALAVER_DATABASE__URL", database_address.url)
    assert palaver("db", "dump", "saved").code == 0
    said = palaver("db", "dump", "saved")
    assert (said.code, "--force" in said.err) == (1, True)
    assert palaver("db", "dump", "saved", "--force").code == 0
    assert Path("saved").stat().st_mode & 0o077 == 0


def test_a_restore_into_a_full_database_is_refused(
    palaver: Palaver, database_address: DatabaseAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless what is there may be thrown away."""
    monkeypatch.setenv("PALAVER_DATABASE__URL", database_address.url)
    assert palaver("db", "dump", "saved").code == 0
    said = palaver("db", "restore", "saved", "--json")
    assert (said.code, "not empty" in said.json["error"]["problem"]) == (1, True)
    assert palaver("db", "restore", "saved", "--replace").code == 0


def test_what_is_no_dump_is_told(
    palaver: Palaver, database_address: DatabaseAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is changed."""
    monkeypatch.setenv("PALAVER_DATABASE__URL", database_address.url)
    Path("junk").write_text("junk")
    for name in ("junk", "absent"):
        said = palaver("db", "restore", name, "--replace")
        assert said.code == 1
        assert name in said.err


def test_psql_is_found_and_its_exit_code_comes_back(
    palaver: Palaver, database_address: DatabaseAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows the two dashes is psql's."""
    monkeypatch.setenv("PALAVER_DATABASE__URL", database_address.url)
    said = palaver("db", "shell", "--", "-At", "-c", "SELECT 6 * 7")
    assert (said.code, said.out) == (0, "42\n")
    assert palaver("db", "shell", "--", "-c", "nonsense").code == 1
    assert palaver("db", "shell", "--json").code == 1
